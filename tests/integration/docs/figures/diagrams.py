"""Figures without data: who tells whom what."""

from __future__ import annotations

from tests.integration.docs.figures.sequence import Exchange
from tests.integration.docs.figures.svg import Drawing


def reservation() -> Drawing:
    """From a request to the end of its lease."""
    lanes = [
        ("holder", "who asks"),
        ("broker", "API process"),
        ("Redis", "records, inbox"),
        ("owner", "of one cloud"),
    ]
    told = Exchange("A request is noted, reserved, confirmed, and its lease ends once", lanes, 12.4)
    told.tell(0, 1, "POST /v1/requests, id r")
    told.tell(1, 2, "note r and r.1; tell inbox: Reserve")
    told.tell(2, 3, "doorbell, or a look each second")
    told.note(3, "room? risk at most the SLA?", "then RESERVED, for 30 s at most")
    told.tell(3, 2, "journal and answer: one script", back=True)
    told.tell(2, 1, "answer: this lease, or a refusal", back=True)
    told.note(1, "decides once: COMMITTED")
    told.tell(1, 2, "keep it; tell inbox: Confirm")
    told.tell(1, 0, "201 with the lease", back=True)
    told.note(3, "RUNNING: event “admitted”")
    told.note(3, "own users need the room: event “evicted”", colour="lost")
    told.tell(3, 0, "told at once by pub/sub, SSE and webhooks; kept in the stream", colour="lost")
    return told.drawing


def routing() -> Drawing:
    """How a request finds its cloud."""
    drawing = Drawing(
        760, 330, "A request goes to the cloud that it fits most tightly, and on to the next when refused"
    )
    drawing.box(16, 120, 120, 70, fill="own", edge="own", faint=True)
    drawing.lines(76, 148, "request", "2 cores, 3 h,", "SLA .05", at="middle", size=12)
    drawing.box(186, 60, 190, 196, fill="soft")
    drawing.text(281, 82, "broker, from adverts", at="middle", bold=True)
    drawing.lines(
        200, 106, "passes over clouds that are", "silent, too small, or whose", "table leaves no doubt;", "",
        "ranks the others: first who", "keeps promises, then the", "fewest free slots of its size;",
        "asks 4 at most",
        size=12, leading=17,
    )  # fmt: skip
    drawing.line([(136, 155), (186, 155)], arrow=True, colour="own")
    clouds = (
        ("harbour", "3 free slots: asked first", "refused: risk .21; counter-offer 40 min", "lost"),
        ("forge", "9 free slots: asked second", "admitted: risk .03", "spot"),
        ("meadow", "30 free slots", "not asked any more", "grey"),
    )
    for number, (name, room, said, colour) in enumerate(clouds):
        y = 30 + number * 96
        drawing.box(470, y, 276, 74, fill=None if colour == "grey" else colour, edge=colour, faint=True,
                    dashed=colour == "grey")  # fmt: skip
        drawing.text(484, y + 22, name, bold=True)
        drawing.text(484, y + 42, room, size=12)
        drawing.text(484, y + 60, said, size=12)
        drawing.line([(376, 158), (470, y + 37)], colour=colour, arrow=True, dashed=colour == "grey")
    return drawing


def mechanisms() -> Drawing:
    """What is lost and paid under each mechanism when an eviction comes."""
    drawing = Drawing(760, 400, "Five ways for a batch job to live with an eviction")
    at, end = 400.0, 730.0
    drawing.line([(at, 34), (at, 372)], colour="lost", dashed=True)
    drawing.text(at, 26, "eviction", at="middle", colour="lost", bold=True)
    rows = ("begin again", "checkpoints", "migrate on notice", "replicas", "backup")
    for number, name in enumerate(rows):
        drawing.text(16, 70 + number * 64, name, bold=True)
    y = 60.0
    drawing.box(150, y, at - 150, 14, fill="lost", edge=None, round_=2)
    drawing.box(at + 20, y, end - at - 20, 14, fill="spot", edge=None, round_=2)
    drawing.text(150, y + 31, "all work is lost", size=11, colour="grey")
    drawing.text(at + 20, y + 31, "from the start", size=11, colour="grey")
    y += 64
    for part in range(4):
        kept = part < 3
        drawing.box(
            150 + part * 70,
            y,
            (58 if kept else at - 360),
            14,
            fill="spot" if kept else "lost",
            edge=None,
            round_=2,
        )
        if kept:
            drawing.box(208 + part * 70, y, 12, 14, fill="free", edge=None, round_=2)
    drawing.box(at + 20, y, 16, 14, fill="free", edge=None, round_=2)
    drawing.box(at + 36, y, 170, 14, fill="spot", edge=None, round_=2)
    drawing.text(150, y + 31, "saving takes time, on time or not", size=11, colour="grey")
    drawing.text(at + 20, y + 31, "restored: what came after the last save is lost", size=11, colour="grey")
    y += 64
    drawing.box(150, y, at - 150 - 22, 14, fill="spot", edge=None, round_=2)
    drawing.box(at - 22, y, 22, 14, fill="free", edge=None, round_=2)
    drawing.box(at + 20, y, 22, 14, fill="free", edge=None, round_=2)
    drawing.box(at + 42, y, 130, 14, fill="spot", edge=None, round_=2)
    drawing.text(150, y + 31, "nothing until notice is given; must fit into it", size=11, colour="grey")
    y += 64
    drawing.box(150, y - 9, at - 150, 12, fill="lost", edge=None, round_=2)
    drawing.box(150, y + 7, end - 150 - 130, 12, fill="spot", edge=None, round_=2)
    drawing.text(150, y + 36, "two are paid; the other one finishes", size=11, colour="grey")
    y += 64
    drawing.box(150, y - 9, at - 150, 12, fill="lost", edge=None, round_=2)
    drawing.box(150, y + 7, end - 150 - 40, 12, fill="own", edge=None, round_=2, faint=True)
    drawing.box(at, y + 7, end - at - 40, 12, fill="own", edge=None, round_=2)
    drawing.text(150, y + 36, "a slow copy on a shared on-demand server", size=11, colour="grey")
    drawing.text(at + 20, y + 36, "goes on from where it is, at full speed", size=11, colour="grey")
    return drawing


def trust() -> Drawing:
    """Who signs what for whom."""
    drawing = Drawing(
        760, 340, "Holders have keys, broker and owners sign, Redis is trusted with delivery alone"
    )
    boxes = (
        (16, 130, 130, "member", "API keys with a role"),
        (232, 130, 150, "broker", "key “broker”"),
        (446, 130, 110, "Redis", "carries only"),
        (612, 40, 132, "owner", "key “cloud.harbour”"),
        (612, 220, 132, "owner", "key “cloud.forge”"),
    )
    for x, y, width, name, below in boxes:
        drawing.box(x, y, width, 60, fill="soft")
        drawing.text(x + width / 2, y + 26, name, at="middle", bold=True)
        drawing.text(x + width / 2, y + 45, below, at="middle", size=11, colour="grey")
    drawing.line([(146, 160), (232, 160)], colour="own", arrow=True)
    drawing.lines(189, 116, "TLS, key;", "hash kept", at="middle", size=11)
    drawing.line([(382, 150), (446, 150)], colour="spot", arrow=True)
    drawing.line([(446, 172), (382, 172)], colour="spot", arrow=True)
    drawing.lines(414, 100, "commands,", "signed for", "one inbox", at="middle", size=11, leading=14)
    drawing.lines(414, 196, "answers,", "verified", at="middle", size=11, leading=14)
    for y in (70, 250):
        drawing.line([(556, 160), (612, y)], colour="spot", arrow=True)
    drawing.lines(600, 146, "an ACL user each,", "own keys only", size=11, leading=14)
    drawing.line([(500, 190), (500, 262)], colour="lost", dashed=True, arrow=True)
    drawing.box(404, 262, 190, 60, fill="lost", edge="lost", faint=True)
    refused = ("not signed, moved, changed,", "expired, or seen before:", "a dead letter")
    drawing.lines(499, 283, *refused, at="middle", size=11, leading=14)
    return drawing


def instances() -> Drawing:
    """What the cloud agent of a real cloud does."""
    drawing = Drawing(760, 330, "The cloud agent makes a real cloud agree with its owner's leases")
    for x, width, name, below in (
        (16, 190, "owner", "leases, own load, tables"),
        (286, 190, "cloud agent", "python -m workers.cloud_agent"),
        (556, 188, "the cloud", "EC2, OpenStack, Slurm"),
    ):
        drawing.box(x, 20, width, 54, fill="soft")
        drawing.text(x + width / 2, 42, name, at="middle", bold=True)
        drawing.text(x + width / 2, 61, below, at="middle", size=11, colour="grey")
    rows = (
        (104, 0, "leases that run", 1, "start what is missing", "spot"),
        (154, 0, "leases that ended", 1, "terminate at once", "lost"),
        (204, 2, "Gone: evicted or failed", 3, "ours, but not there", "lost"),
        (254, 2, "own load starts and stops", 3, "foreign: counted, not touched", "own"),
    )
    for y, left_way, left, right_way, right, colour in rows:
        for x0, x1, way in ((206, 286, left_way), (476, 556, right_way)):
            towards = way in (0, 1)
            ends = [(x0, y + 16.0), (x1, y + 16.0)]
            drawing.line(ends if towards else ends[::-1], colour=colour, arrow=True, width=1.6)
        drawing.text(200, y + 20, left, at="end", size=12)
        drawing.text(562, y + 20, right, size=12)
        drawing.box(291, y + 3, 180, 26, fill=colour, edge=None, faint=True)
    for y, said in ((104, "has each an instance?"), (154, "is its instance gone?"), (204, "is one missing?"),
                    (254, "is there another one?")):  # fmt: skip
        drawing.text(381, y + 21, said, at="middle", size=12)
    said = "compares both sides again and again: it may be killed at any moment"
    drawing.text(381, 306, said, at="middle", size=12, colour="grey")
    return drawing
