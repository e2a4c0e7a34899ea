"""The cost of keeping room free for users who call their cloud directly.

Clouds A and B of the papers on reduced platforms, where room is short. The cloud's API knows no spot: it
refuses a request that it has no room for, its owner then evicts, and the user comes again a minute later.
Headroom, kept free of spot by evicting, is there for the first call. A block has half a node's cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.drawing import LINES, Figure, panels, share_axis
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, where
from cloudsim.experiments.promise.pairs import TRACES, needs, read_pair, shape
from cloudsim.experiments.runs import SPOT_DELAY_S
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay

#: Pair → nodes.
PLATFORMS = {"A-B": 5, "B-A": 5}
BLOCKS = (0, 1, 2, 4)
_RETRY_S, _QUICK_REQUESTS = 60.0, 300


def run(data: Path, *, pair: str, nodes: int, blocks: int, most: int | None) -> list[Row]:
    """Run one pair with this many blocks; ``most``: only the first requests of each trace.

    Columns: pair, nodes, blocks, block_cores, requests (own), admitted, delayed, delayed_share (of the
    requests), mean_delay_s, spot_admitted, evicted, evicted_share, spot_core_hours (completed), lost.
    """
    own, spot = read_pair(data, pair, most)
    cores = TRACES[pair[0]][1]
    block = cores // 2
    spec = CloudSpec(pair[0], (cores,) * nodes, headroom=(block,) * blocks)
    member = FederatedCloud(spec, shape(pair, nodes), own, retry_s=_RETRY_S)
    # Without a promise, so that the room alone decides.
    workload = Workload(pair[2], spot, SPOT_DELAY_S, None, (pair[0],))
    report = replay(Federation((member,), (workload,)), seed=0, births=1)
    users, guests = report["clouds"][pair[0]]["on_demand"], report["origins"][pair[2]]
    return [
        {"pair": pair, "nodes": member.nodes, "blocks": blocks, "block_cores": block}
        | users
        | {
            "delayed_share": round(users["delayed"] / users["requests"], 6),
            "spot_admitted": guests["admitted"],
        }
        | {name: guests[name] for name in ("evicted", "evicted_share")}
        | {
            "spot_core_hours": guests["spot_core_hours"]["completed"],
            "lost": guests["spot_core_hours"]["lost"],
        }
    ]


def _cases(quick: bool) -> list[Case]:
    return [
        Case(
            f"{pair}, {blocks} blocks", run,
            {"pair": pair, "nodes": nodes, "blocks": blocks, "most": _QUICK_REQUESTS if quick else None},
            needs(pair),
        )
        for pair, nodes in PLATFORMS.items()
        for blocks in (BLOCKS[:2] if quick else BLOCKS)
    ]  # fmt: skip


def _of(rows: Sequence[Row], pair: str) -> list[Row]:
    return sorted(where(rows, pair=pair), key=lambda row: row["blocks"])


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{pair} on {row['nodes']}, {row['blocks']} blocks of {row['block_cores']} cores: {row['delayed']} "
        f"of {row['requests']} own requests came again ({row['delayed_share']:.4f}), {row['admitted']} were "
        f"admitted; spot completed {row['spot_core_hours']:,.0f} core-hours, {row['evicted']} of "
        f"{row['spot_admitted']} evicted."
        for pair in PLATFORMS
        for row in _of(rows, pair)
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    quantities: tuple[tuple[str, str, Any], ...] = (
        ("delayed", "own requests that came again", LINES[3][0]),
        ("spot_core_hours", "spot core-hours completed", LINES[0][0]),
        ("evicted", "spot instances evicted", LINES[1][0]),
    )
    pairs = [pair for pair in PLATFORMS if _of(rows, pair)]
    title = "Room kept free for users who call their cloud directly"
    with panels(title, len(pairs), len(quantities), size=(9, 0.9 + 2.4 * len(pairs))) as (figure, axes):
        for line, pair in enumerate(pairs):
            own = _of(rows, pair)
            for panel, (column, label, colour) in zip(axes[line], quantities, strict=True):
                names = [str(row["blocks"]) for row in own]
                panel.bar(names, [row[column] for row in own], color=colour, zorder=2)
                panel.set_title(f"{pair} on {own[0]['nodes']}", loc="left")
                share_axis(panel, label)
                panel.yaxis.set_major_locator(MaxNLocator(5, integer=True))
                panel.set_xlabel(f"blocks of {own[0]['block_cores']} cores")
    return figure


EXPERIMENT = Experiment(
    name="headroom",
    title="Headroom: room kept free for users who call their cloud directly",
    source="our own question",
    cases=_cases,
    pictures=(
        Picture(
            "headroom",
            "Clouds A and B on five nodes each, the other's trace offered as spot without a promise: own "
            "requests that the cloud refused at first, what spot completed and how many were evicted, by the "
            "number of blocks of half a node that are kept free.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
