"""Four clouds that lend each other room for the on-demand requests that a cloud must turn away.

Clouds A to D each play their own production trace. Without overflow a request that fits nowhere at home is
lost; with it, it is offered at once to the others as a spot request, with one promise or none. An instance
evicted elsewhere is offered again for its remaining time (the rules of the live federation). There are no
other spot requests, so all evictions are of overflow. A federation ends with its shortest trace: after 33
days of C with all four clouds, and after 280 days with A and B, which are much quieter.

On the full platforms nothing is turned away; on reduced ones there is something to lend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.drawing import LINES, Figure, legend_below, panels, share_axis
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, total, where
from cloudsim.experiments.promise.pairs import FULL_NODES, TRACES, shape
from cloudsim.federation.model import FederatedCloud, Federation
from cloudsim.federation.replay import replay
from cloudsim.model.binomial import clopper_pearson
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats import read

#: Name of a federation → cloud → nodes.
PLATFORMS: dict[str, dict[str, int]] = {
    "A to D, reduced": {"A": 4, "B": 4, "C": 16, "D": 16},
    "A to D, full": FULL_NODES,
    "A and B, reduced": {"A": 4, "B": 4},
}

OFF = "off"
#: Column overflow → the SLA that is asked for.
WAYS: dict[str, float | None] = {OFF: None, "none": None, "0.05": 0.05, "0.01": 0.01}
BIRTHS, QUICK_BIRTHS, _QUICK_REQUESTS = 10_000, 100, 300


def run(
    data: Path, *, platform: str, way: str, births: int, most: int | None, nodes: Mapping[str, int]
) -> list[Row]:
    """Run the federation with one kind of overflow: a row a cloud. ``most``: first requests of each trace.

    Columns: platform, overflow (off, or the SLA asked for, or none), cloud, nodes, on_demand_requests,
    at_home, elsewhere (its own, completed on another cloud), lost (all other requests), taken (instances of
    others that it admitted), evicted_here (of these), utilisation; with overflow also offers,
    offers_admitted, evicted (its own, elsewhere), evicted_share, evicted_low, evicted_high,
    core_hours_offered, on_demand_core_hours_elsewhere and core_hours_lost (to these evictions).
    """
    clouds = []
    for cloud, count in nodes.items():
        load, _ = read(data / TRACES[cloud][0])
        platform_nodes = shape(cloud, count)
        clouds.append(
            FederatedCloud(
                CloudSpec(cloud, parse_nodes(platform_nodes)), platform_nodes,
                load if most is None else load.head(most), overflow=way != OFF, overflow_sla=WAYS[way],
            )
        )  # fmt: skip
    report = replay(Federation(tuple(clouds), ()), seed=0, births=births)
    return [
        {"platform": platform, "overflow": way, **_row(name, cloud, report.get("overflow", {}).get(name))}
        for name, cloud in report["clouds"].items()
    ]


def _row(name: str, cloud: Mapping[str, Any], overflow: Mapping[str, Any] | None) -> Row:
    own, elsewhere = cloud["on_demand"], overflow["own_requests"]["completed"] if overflow else 0
    row = {
        "cloud": name,
        "nodes": cloud["nodes"],
        "on_demand_requests": own["requests"],
        "at_home": own["admitted"],
        "elsewhere": elsewhere,
        "lost": own["requests"] - own["admitted"] - elsewhere,
        "taken": cloud["spot"]["admitted"],
        "evicted_here": cloud["spot"]["evicted"],
        "utilisation": cloud["utilisation"],
    }
    if overflow is not None:
        hours = overflow["spot_core_hours"]
        row |= {
            "offers": overflow["requests"],
            "offers_admitted": overflow["admitted"],
            **{key: overflow[key] for key in ("evicted", "evicted_share", "evicted_low", "evicted_high")},
            "core_hours_offered": hours["requested"],
            "on_demand_core_hours_elsewhere": hours["completed"],
            "core_hours_lost": hours["lost"],
        }
    return row


def _cases(quick: bool) -> list[Case]:
    births, most = (QUICK_BIRTHS, _QUICK_REQUESTS) if quick else (BIRTHS, None)
    ways = (OFF, "none", "0.05") if quick else tuple(WAYS)
    return [
        Case(
            f"{platform}, overflow {way}", run,
            {"platform": platform, "way": way, "births": births, "most": most, "nodes": nodes},
            tuple(TRACES[cloud][0] for cloud in nodes),
        )
        for platform, nodes in PLATFORMS.items()
        for way in ways
        if not quick or platform == "A to D, reduced"
    ]  # fmt: skip


def _of(rows: Sequence[Row], platform: str, way: str) -> list[Row]:
    return where(rows, platform=platform, overflow=way)


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for platform in PLATFORMS:
        alone = _of(rows, platform, OFF)
        if not alone:
            continue
        requests = total(alone, "on_demand_requests")
        lost = total(alone, "lost")
        texts.append(
            f"{platform}, each cloud alone: {lost:.0f} of "
            f"{requests:.0f} on-demand requests are lost ("
            + ", ".join(f"{row['cloud']} {row['lost']}" for row in alone)
            + ")."
        )
        for way in WAYS:
            own = [] if way == OFF else _of(rows, platform, way)
            if not own or not lost:
                continue
            admitted, evicted = int(total(own, "offers_admitted")), int(total(own, "evicted"))
            low, high = clopper_pearson(evicted, admitted)
            texts.append(
                f"{platform}, overflow with SLA {way}: {total(own, 'elsewhere'):.0f} of them complete "
                f"elsewhere, {total(own, 'lost'):.0f} are still lost; {evicted} of {admitted} placements "
                f"evicted ({evicted / max(admitted, 1):.4f}, 95 % {low:.4f} to {high:.4f}; by "
                + ", ".join(f"{row['cloud']} {row['evicted_here']} of {row['taken']}" for row in own)
                + "), utilisation "
                + ", ".join(
                    f"{row['cloud']} {before['utilisation']:.3f} → {row['utilisation']:.3f}"
                    for before, row in zip(alone, own, strict=True)
                )
                + "."
            )
    return texts


def _draw(rows: Sequence[Row]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    shown = [
        (platform, row["cloud"])
        for platform in PLATFORMS
        for row in _of(rows, platform, OFF)
        if row["lost"] or platform == next(iter(PLATFORMS))
    ]
    ways = [way for way in WAYS if any(row["overflow"] == way for row in rows)]
    title = "On-demand requests that find no room at home: with and without overflow"
    columns = min(len(shown), 3)
    lines = -(-len(shown) // columns)
    with panels(title, lines, columns, size=(9, 0.9 + 2.3 * lines)) as (figure, axes):
        for panel in axes.flat[len(shown) :]:
            panel.set_axis_off()
        for (platform, cloud), panel in zip(shown, axes.flat, strict=False):
            own = [row for way in ways for row in _of(rows, platform, way) if row["cloud"] == cloud]
            elsewhere = [row["elsewhere"] for row in own]
            panel.bar(ways, elsewhere, color=LINES[0][0], label="completed elsewhere", zorder=2)
            lost = [row["lost"] for row in own]
            panel.bar(ways, lost, bottom=elsewhere, color=LINES[3][0], label="lost", zorder=2)
            panel.set_title(f"{cloud}, {own[0]['nodes']} ({platform})", loc="left")
            share_axis(panel, "requests" if panel in axes[:, 0] else "")
            panel.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        for panel in axes[-1]:
            panel.set_xlabel("overflow: SLA")
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="overflow",
    title="Overflow: clouds that lend each other room",
    source='our own question; docs/design/prediction.md "Federations"',
    cases=_cases,
    pictures=(
        Picture(
            "overflow",
            "Clouds A to D for 33 days, and A and B for 280, each with its own production trace on a reduced "
            "platform: on-demand requests without room at home that complete on another cloud or are lost; "
            "without overflow, and with offers that ask for no guarantee or for one.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
