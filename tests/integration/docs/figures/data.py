"""Figures with data: replays, quantiles, a survival curve, what is disclosed of it."""

from __future__ import annotations

import numpy as np

from broker.ledger.ledger import broken_promise
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.disclosure.levels import Disclosure
from cloudsim.disclosure.masked_tables import CoarseTable, combine_worst, select_usual_conditions
from cloudsim.experiments.jobs.synthetic_job import quoted
from cloudsim.history.event_log import STOP
from cloudsim.jobs.job import OVERHEADS, Job
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration
from cloudsim.jobs.planner import ON_DEMAND, list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.model.binomial import clopper_pearson
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from cloudsim.model.reserved_ids import is_block
from tests.integration.docs.figures import bed
from tests.integration.docs.figures.plot import Axes
from tests.integration.docs.figures.svg import Drawing
from tests.support.reference import youngest_first

_MINUTE_S = 60.0
_HOUR_S = 3600.0
#: Of starts and stops so many become one step in the picture.
_EVERY = 4
_MECHANISMS = (Migration(), Checkpoint(), Replicate(), Backup(), ON_DEMAND)
_LINES = ((0.25, "lost"), (0.10, "free"), (0.05, "spot"), (0.01, "own"))


def replays() -> Drawing:
    """Virtual instances in some hours of the history: from when to when each would have lived."""
    drawing = Drawing(
        760, 470, "Cores in use by own users, and below it virtual instances until their eviction"
    )
    from_s, until_s = 100 * _HOUR_S, 111.5 * _HOUR_S
    log = bed.history()
    change = np.where(log.kind == STOP, -1, 1) * log.cores
    used = np.cumsum(change)
    inside = (log.time_s >= from_s) & (log.time_s < until_s)
    seen = np.flatnonzero(inside)[::_EVERY]
    hours = (log.time_s[seen] - from_s) / _HOUR_S
    total = sum(bed.NODES)
    axes = Axes(drawing, 60, 40, 670, 130, x=(0, 11.5), y=(0, total))
    marks = [(hour, f"{hour} h") for hour in range(0, 12, 2)]
    axes.frame(x=[], y=[(0, "0"), (16, "16"), (32, "32")], y_name="cores that own users use, of 32")
    axes.steps(hours.tolist(), used[seen].tolist(), "own")
    below = Axes(drawing, 60, 210, 670, 200, x=(0, 11.5), y=(0, 19))
    below.frame(
        x=marks, y=[], x_name="a stretch of the recorded past", y_name="virtual instances, one a line"
    )
    births_s = from_s + (np.arange(19) + 0.37) * (until_s - from_s) / 21
    samples = [
        (birth_s, youngest_first.replay(bed.NODES, log, until_s, 1, birth_s)) for birth_s in births_s.tolist()
    ]
    for number, (birth_s, found) in enumerate(samples):
        if found is None:  # there was no room
            continue
        y = below.y(18.5 - number)
        left, right = (below.x((one - from_s) / _HOUR_S) for one in (birth_s, birth_s + found.duration_s))
        drawing.line([(left, y), (right, y)], colour="spot", width=4)
        drawing.dot(left, y, "spot", 3)
        if found.evicted:
            drawing.cross(right, y)
        else:
            drawing.line([(right - 6, y - 5), (right, y), (right - 6, y + 5)], colour="spot", width=1.5)
    drawing.cross(400, 196)
    drawing.text(410, 200, "evicted", size=12)
    drawing.line([(476, 196), (496, 196)], colour="spot", width=4)
    drawing.line([(490, 191), (496, 196), (490, 201)], colour="spot", width=1.5)
    drawing.text(504, 200, "still runs when the record ends", size=12)
    return drawing


def quantiles() -> Drawing:
    """The quantile table of that history: longest lifetime by free slots, at four SLAs."""
    drawing = Drawing(760, 400, "Longest promised lifetime by number of free slots, for four SLAs")
    rows = bed.table().rows([sla for sla, _ in _LINES])
    axes = Axes(drawing, 80, 45, 550, 290, x=(1, 22), y=(60, 21_600), log_y=True)
    times = [(60, "1 min"), (600, "10 min"), (3600, "1 h"), (21_600, "6 h")]
    axes.frame(
        x=[(slots, str(slots)) for slots in (1, 4, 8, 12, 16, 20)],
        y=times,
        x_name="free slots of one core when the instance is admitted",
        y_name="longest lifetime with this risk of eviction at most",
    )
    shown = [row for row in rows if row["free_slots_from"] <= 24]
    below = 0.0
    for sla, colour in _LINES:
        ends = [(min(row["free_slots_from"], 24), row["quantiles_s"][sla]) for row in shown]
        axes.curve([x for x, _ in ends], [y for _, y in ends], colour)
        for x, y in ends:
            drawing.dot(axes.x(x), axes.y(y), colour)
        below = max(axes.y(ends[-1][1]) + 5, below + 17)  # names do not lie on each other
        drawing.text(axes.x(ends[-1][0]) + 12, below, f"SLA {sla:g}", colour=colour, bold=True)
    return drawing


def survival() -> Drawing:
    """One condition of that table as a curve: how to read a risk and a lifetime off it."""
    drawing = Drawing(760, 380, "Risk of eviction by lifetime with 8 free slots")
    found = bed.table().distribution(1, 8)
    assert found is not None
    axes = Axes(drawing, 70, 45, 640, 270, x=(0, 240), y=(0, 0.65))
    axes.frame(
        x=[(minute, f"{minute} min" if minute else "0") for minute in range(0, 241, 60)],
        y=[(share / 10, f".{share}" if share else "0") for share in range(7)],
        x_name="lifetime",
        y_name="risk of eviction before it ends, with 8 free slots at the start",
    )
    minutes = np.linspace(0, 240, 241)
    axes.curve(minutes.tolist(), found.risk(minutes * _MINUTE_S).tolist(), "own")
    sla, asked = 0.05, 120.0
    longest = found.survives_s(sla) / _MINUTE_S
    risk = float(found.risk(asked * _MINUTE_S))
    for x, y, colour in ((longest, sla, "spot"), (asked, risk, "lost")):
        drawing.line([(axes.left, axes.y(y)), (axes.x(x), axes.y(y))], colour=colour, dashed=True)
        drawing.line([(axes.x(x), axes.y(y)), (axes.x(x), axes.y(0))], colour=colour, dashed=True)
        drawing.dot(axes.x(x), axes.y(y), colour, 4.5)
    drawing.text(
        axes.x(longest) + 10, axes.y(sla) + 18, f"SLA .05 is kept for {longest:.0f} min", colour="spot"
    )
    said = f"two hours have a risk of {risk:.2f}".replace("0.", ".")
    drawing.text(axes.x(asked) + 10, axes.y(risk) + 20, said, colour="lost")
    return drawing


def disclosure() -> Drawing:
    """The curve that a cloud knows, and the steps by which it promises when it tells less."""
    drawing = Drawing(760, 380, "Risk by lifetime: what the cloud knows, and the steps that two levels tell")
    full = bed.table()
    known = combine_worst([one.distribution for one in select_usual_conditions(full.conditions((1, ())))])
    axes = Axes(drawing, 70, 45, 640, 270, x=(0, 600), y=(0, 1))
    axes.frame(
        x=[(minute, f"{minute // 60} h" if minute else "0") for minute in range(0, 601, 120)],
        y=[(share / 10, f".{share}" if 0 < share < 10 else str(share // 10)) for share in range(0, 11, 2)],
        x_name="lifetime",
        y_name="risk of eviction before it ends",
    )
    minutes = np.linspace(0, 600, 601)
    axes.curve(minutes.tolist(), known.risk(minutes * _MINUTE_S).tolist(), "own")
    for level, colour in ((Disclosure.P10, "spot"), (Disclosure.P90, "lost")):
        curve = CoarseTable(full, level).distribution(1, 24)
        assert curve is not None
        ends = (curve.ends_s / _MINUTE_S).tolist()
        axes.steps([0, *ends], [*curve.risks.tolist(), 1.0], colour, dashed=level is Disclosure.P90)
    drawing.text(axes.x(330), axes.y(0.62), "full: all of the curve", colour="own")
    drawing.text(
        axes.x(330), axes.y(0.5), "p10: .1 to the 10th percentile, .5 to the median", colour="spot", size=12
    )
    drawing.text(
        axes.x(330), axes.y(0.38), "p90: .5 to the median, .9 to the 90th percentile", colour="lost", size=12
    )
    return drawing


def mechanisms_map() -> Drawing:
    """Which mechanism the planner finds cheapest, by evictions a day and memory, for two kinds of jobs."""
    drawing = Drawing(
        760, 372, "The cheapest mechanism by evictions a day and memory, for little and much I/O"
    )
    colours = {
        "migrate": "spot",
        "checkpoint": "free",
        "replicate": "own",
        "backup": "more",
        "on-demand": "pale",
    }
    rows, columns = 14, 16
    for panel, (io_share, said) in enumerate(
        ((0.05, "little input and output"), (0.5, "half of the time is input and output"))
    ):
        axes = Axes(drawing, 66 + panel * 362, 46, 310, 230, x=(0, columns), y=(0, rows))
        for column in range(columns):
            per_day = 0.25 * 2 ** (column / 2)
            market = quoted(per_day, 0.2)
            for row in range(rows):
                job = Job(work_s=4 * _HOUR_S, memory_gb=0.5 * 2 ** (row / 2), io_share=io_share)
                plans = list_plans(job, _MECHANISMS, market, OVERHEADS)
                best = min(plans, key=lambda plan: plan.cost_usd).mechanism.name
                drawing.box(
                    axes.x(column), axes.y(row + 1), 310 / columns - 1.5, 230 / rows - 1.5,
                    fill=colours[best], edge=None, round_=2,
                )  # fmt: skip
        axes.frame(
            x=[(column + 0.5, f"{0.25 * 2 ** (column / 2):g}") for column in range(0, columns, 4)],
            y=[],
            x_name="evictions a day",
            y_name=said,
        )
        for row in range(0, rows, 4):
            y, name = axes.y(row + 0.5) + 4, f"{0.5 * 2 ** (row / 2):g} GB"
            drawing.text(axes.left - 7, y, name, colour="grey", at="end", size=12)
    for number, (name, colour) in enumerate(colours.items()):
        drawing.box(70 + number * 130, 340, 14, 14, fill=colour, edge=None, round_=2)
        drawing.text(91 + number * 130, 352, name, size=12)
    return drawing


def ledger() -> Drawing:
    """Five accounts at one SLA: what is known of the true share of evictions, and the verdict."""
    drawing = Drawing(760, 318, "Intervals of the share of evictions in five accounts at an SLA of .05")
    sla = 0.05
    axes = Axes(drawing, 150, 46, 430, 200, x=(0, 0.25), y=(0, 5))
    marks = [(share / 100, f".{share:02}" if share else "0") for share in range(0, 26, 5)]
    axes.frame(x=marks, y=[], x_name="share of evictions, with its exact 95 % interval")
    drawing.line([(axes.x(sla), 40), (axes.x(sla), 246)], colour="ink", dashed=True)
    drawing.text(axes.x(sla), 30, "SLA .05", at="middle", bold=True)
    for number, (evicted, admitted) in enumerate(((0, 20), (3, 20), (10, 400), (22, 400), (34, 400))):
        low, high = clopper_pearson(evicted, admitted)
        y = axes.y(4.5 - number)
        broken = broken_promise(sla, evicted, admitted) is not None
        colour = "lost" if broken else "spot" if high <= sla else "own"
        drawing.line([(axes.x(low), y), (axes.x(min(high, 0.25)), y)], colour=colour, width=3)
        drawing.dot(axes.x(evicted / admitted), y, colour, 5)
        drawing.text(136, y + 4, f"{evicted} of {admitted}", at="end")
        said = "broken: asked last" if broken else "surely kept" if high <= sla else "stands"
        drawing.text(596, y + 4, said, colour=colour)
    return drawing


def headroom() -> Drawing:
    """Cores of a cloud that keeps four blocks of two free, and whose spot takes all that is left."""
    drawing = Drawing(760, 340, "Cores of own users, kept free for them, and lent as spot, over four hours")
    from_s, until_s, step_s = 100 * _HOUR_S, 104 * _HOUR_S, 60.0
    cloud = Cloud(CloudSpec("cloud", bed.NODES, headroom=(2, 2, 2, 2)), bed.load(), bed.UNTIL_S)
    hours, own, kept, lent = [], [], [], []
    for at_s in np.arange(from_s - _HOUR_S, until_s + 1, step_s).tolist():
        cloud.advance(at_s)
        asked = 0
        while not isinstance(
            cloud.admit(Request(f"{at_s} {asked}", Kind.SPOT, 1, 2 * _HOUR_S), at_s), Refusal
        ):
            asked += 1
        if at_s >= from_s:
            blocks = sum(one.cores for one in cloud.inventory if is_block(one.id))
            hours.append((at_s - from_s) / _HOUR_S)
            own.append(cloud.inventory.used_cores(Kind.ON_DEMAND) - blocks)
            kept.append(blocks)
            lent.append(cloud.inventory.used_cores(Kind.SPOT))
    total = sum(bed.NODES)
    axes = Axes(drawing, 60, 40, 670, 220, x=(0, 4), y=(0, total))
    marks = [(float(hour), f"{hour} h") for hour in range(5)]
    axes.frame(x=marks, y=[(one, str(one)) for one in range(0, total + 1, 8)], y_name="cores, of 32")
    base = [0.0] * len(hours)
    for values, colour in ((own, "own"), (kept, "free"), (lent, "spot")):
        top = [low + one for low, one in zip(base, values, strict=True)]
        drawing.area(axes.stairs(hours, top) + axes.stairs(hours, base)[::-1], colour)
        base = top
    for x, colour, said in (
        (60, "own", "own users"),
        (190, "free", "kept free for them"),
        (370, "spot", "spot"),
    ):
        drawing.box(x, 304, 14, 14, fill=colour, edge=None, round_=2)
        drawing.text(x + 21, 316, said, size=12)
    return drawing
