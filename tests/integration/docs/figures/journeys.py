"""Figures for those who develop spotfed: the map of the packages, and three journeys through them."""

from __future__ import annotations

from tests.integration.docs.figures.sequence import Exchange
from tests.integration.docs.figures.svg import Drawing

_LAYERS = (
    (
        "workers",
        "processes",
        "own",
        (
            ("celery_app",),
            ("owner", "montecarlo", "job_manager", "node_agent", "cloud_agent"),
            ("agents",),
            ("worker_process",),
        ),
    ),
    (
        "broker",
        "the federation",
        "spot",
        (
            ("cli",),
            ("local", "experiments", "testing"),
            ("api",),
            ("fleet", "client"),
            ("doctor", "schemas"),
            ("requests", "jobs", "webhooks", "ledger"),
            ("journal",),
            ("leases", "identity"),
            ("queue",),
            ("signing", "storage", "observability"),
            ("contract",),
            ("settings", "backoff", "failpoints"),
        ),
    ),
    (
        "cloudsim",
        "computes",
        "free",
        (
            ("experiments",),
            ("federation",),
            ("cloud",),
            ("volatile", "jobs"),
            ("admission", "disclosure"),
            ("prediction", "scheduling"),
            ("history", "traces", "markets"),
            ("model",),
        ),
    ),
)


def packages() -> Drawing:
    """Draw the three packages with their sub-packages, from those that use to those that are used."""
    rows = sum(len(layers) for _, _, _, layers in _LAYERS)
    drawing = Drawing(
        760, 44 + rows * 36 + len(_LAYERS) * 26, "Packages from top to bottom: each may import those below it"
    )
    y = 20.0
    for name, said, colour, layers in _LAYERS:
        height = len(layers) * 36 + 12
        drawing.box(16, y, 728, height, fill=colour, edge=colour, faint=True)
        drawing.text(30, y + height / 2, name, bold=True, size=15)
        drawing.text(30, y + height / 2 + 18, said, size=12, colour="grey")
        for number, layer in enumerate(layers):
            width = 590 / len(layer)
            for place, package in enumerate(layer):
                left, top = 140 + place * width + 3, y + 8 + number * 36
                drawing.box(left, top, width - 6, 28, fill="on", edge=colour, round_=4)
                drawing.text(140 + (place + 0.5) * width, y + 27 + number * 36, package, at="middle", size=12)
        y += height
        if name != "cloudsim":
            drawing.line([(85, y), (85, y + 24)], arrow=True, width=1.6)
        y += 26
    return drawing


def request() -> Drawing:
    """Draw the way of a spot request from the HTTP call to its lease, module by module."""
    lanes = [
        ("API", "api.routes"),
        ("broker", "requests.submit"),
        ("Redis", "Lua scripts"),
        ("owner", "process, owner"),
        ("cloudsim", "cloud.decide"),
    ]
    told = Exchange("A spot request becomes a lease", lanes, 12.6, width=900)
    told.tell(0, 1, "SpotRequest, validated")
    told.note(1, "members, candidates, routing:", "which clouds, in which order")
    told.tell(1, 2, "accept.lua: record, inbox, bell")
    told.tell(2, 3, "worker_process rings; inbox is read")
    told.tell(3, 4, "convert: Request; decide")
    told.note(4, "admission.rule, scheduling.pipeline:", "plan, then apply")
    told.tell(4, 3, "changes, or a refusal", back=True)
    told.note(3, "event_writer: events, lease, reply")
    told.tell(3, 2, "commit.lua, fenced", back=True)
    told.tell(2, 1, "replies: LeaseGranted", back=True)
    told.tell(1, 2, "decide.lua: committed, once")
    told.tell(1, 0, "201 and the lease", back=True)
    return told.drawing


def eviction() -> Drawing:
    """Draw an eviction, from the own user's call to those who hear of it."""
    lanes = [
        ("own user", "on-demand call"),
        ("owner", "on_demand"),
        ("cloudsim", "scheduling"),
        ("Redis", "commit.lua"),
        ("listeners", "API, agents"),
    ]
    told = Exchange("An own request takes its room from the youngest spot instance", lanes, 9.6, width=900)
    told.tell(0, 1, "StartOnDemand, by the inbox")
    told.tell(1, 2, "cloud.decide: no room left")
    told.note(2, "filters, weighers, victims:", "who leaves, on which node", colour="lost")
    told.tell(2, 1, "Ended(evicted), Started", back=True)
    told.tell(1, 3, "journal, merged stream, lease, PUBLISH: one script")
    told.tell(3, 4, "pub/sub: at once", colour="lost")
    told.tell(3, 4, "stream: without a gap")
    told.note(
        4, "api.stream (SSE), webhooks.worker, ledger.reader,", "quota_reconciler, node and cloud agents"
    )
    told.tell(3, 0, "reply: started", back=True)
    return told.drawing


def refresh() -> Drawing:
    """Draw the refresh of a quantile table, from the clock to the next quote."""
    lanes = [
        ("owner", "table_refresh"),
        ("Redis", "history, samples"),
        ("Celery", "its queue"),
        ("montecarlo", "worker, sampling"),
        ("cloudsim", "prediction"),
    ]
    told = Exchange("A quantile table is made anew", lanes, 10.6, width=900)
    told.note(0, "refresh_schedule: due, which sizes")
    told.tell(0, 1, "append_history.lua: new events")
    told.tell(0, 2, "queue.send: one Batch a size or a share of it")
    told.tell(2, 3, "task, by name")
    told.tell(1, 3, "history, as far as it is not in memory")
    told.tell(3, 4, "samplers feed the kernels")
    told.tell(4, 3, "Samples: same bits anywhere", back=True)
    told.tell(3, 1, "samples of the batch", back=True)
    told.tell(1, 0, "gathered, late ones resent", back=True)
    told.note(0, "QuantileTable: the advert", "and the next quote use it")
    return told.drawing
