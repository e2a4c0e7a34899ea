"""Who leaves the same nodes for the same request under six line-ups, as the product's own cloud decides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import End, Ended, Started
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind, Request
from cloudsim.scheduling.lineups import (
    FEWEST_VICTIMS,
    LEAST_LOST_WORK,
    OLDEST_JOB_FIRST,
    PARTIAL_HOUR,
    PROMISE_KEEPING,
    YOUNGEST_JOB_FIRST,
    LineUp,
)
from tests.integration.docs.figures.svg import Drawing

_CORES, _WANTED = 8, 4
_NOW_S = 36_000.0


class Spot(NamedTuple):
    """A spot instance: where, how large, for how many minutes it has run, at which SLA."""

    name: str
    node: int
    cores: int
    minutes: int
    sla: float


_OWN = ((0, 4), (1, 2), (2, 3))  # node, cores
_SPOTS = (
    Spot("a", 0, 2, 310, 0.01),
    Spot("b", 0, 2, 25, 0.05),
    Spot("c", 1, 4, 185, 0.05),
    Spot("d", 1, 2, 70, 0.25),
    Spot("e", 2, 2, 95, 0.25),
    Spot("f", 2, 3, 50, 0.10),
)
_LINEUPS = (
    YOUNGEST_JOB_FIRST, OLDEST_JOB_FIRST, FEWEST_VICTIMS, PARTIAL_HOUR, LEAST_LOST_WORK, PROMISE_KEEPING,
)  # fmt: skip


def victims(lineup: LineUp) -> frozenset[str]:
    """Names of the spot instances that leave."""
    cloud = Cloud(CloudSpec("cloud", (_CORES,) * 3, lineup=lineup))
    own = [Instance(f"own {node}", Kind.ON_DEMAND, cores, node, 0, math.inf, 0) for node, cores in _OWN]
    spots = [
        Instance(
            one.name,
            Kind.SPOT,
            one.cores,
            one.node,
            _NOW_S - 60.0 * one.minutes,
            math.inf,
            0,
            sla=one.sla,
            risk=0.0,
        )
        for one in _SPOTS
    ]
    for number, one in enumerate(sorted(own + spots, key=lambda one: one.start_s)):
        cloud.apply(Started(replace(one, number=number)))
    changes = cloud.start_on_demand(Request("new", Kind.ON_DEMAND, _WANTED, None), _NOW_S)
    return frozenset(one.instance.id for one in changes if isinstance(one, Ended) and one.how is End.EVICTED)


def line_ups() -> Drawing:
    """A panel for each line-up."""
    drawing = Drawing(
        760, 560, "Three nodes of eight cores, and who leaves them for four cores under six line-ups"
    )
    for number, one in enumerate(_LINEUPS):
        _panel(drawing, 28 + number % 3 * 243, 40 + number // 3 * 248, one, victims(one))
    for x, colour, said in (
        (28, "own", "own users"),
        (140, "spot", "spot: age, SLA"),
        (290, "lost", "spot that leaves"),
    ):
        drawing.box(x, 530, 14, 14, fill=colour, edge=None, round_=2, faint=colour == "own")
        drawing.text(x + 21, 542, said, size=12)
    drawing.text(440, 542, "A request of own users wants 4 cores.", size=12, colour="grey")
    return drawing


def _panel(drawing: Drawing, x: float, y: float, lineup: LineUp, leaving: frozenset[str]) -> None:
    drawing.text(x, y - 10, lineup.name, bold=True)
    core = 25.0
    for node in range(3):
        left, bottom = x + node * 74, y + _CORES * core
        drawing.box(left, y, 68, _CORES * core, fill=None, edge="grey", round_=3)
        stack = [("", cores, "own", "") for at, cores in _OWN if at == node]
        stack += [
            (f"{one.minutes // 60} h {one.minutes % 60:02}", one.cores,
             "lost" if one.name in leaving else "spot", f"{one.sla:.2f}".replace("0.", "."))
            for one in _SPOTS if one.node == node
        ]  # fmt: skip
        for age, cores, colour, sla in stack:
            bottom -= cores * core
            drawing.box(
                left + 2,
                bottom + 1,
                64,
                cores * core - 2,
                fill=colour,
                edge=None,
                round_=3,
                faint=colour == "own",
            )
            if age:
                middle = bottom + cores * core / 2
                drawing.text(left + 34, middle - 1, age, at="middle", size=11, colour="on")
                drawing.text(left + 34, middle + 13, sla, at="middle", size=11, colour="on")
