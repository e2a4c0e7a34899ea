"""The map of the promise: promised against realised, wherever requests come from, however long they last.

One table and one picture of every bed, pair of traces, door and rule, beside the figures of the version
before renewable requests (``BEFORE``). A door is the way in which a request comes: ``user`` asks for its
lifetime at once, ``renewable`` begins with an hour, ``overflow`` comes from a cloud that is full. Each
promise of a renewable request counts, so its rows tell two shares: evicted of the promises, and of the
admitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cloudsim.admission.rule import AdmissionRule
from cloudsim.experiments.drawing import (
    Dot,
    Figure,
    dots_by_group,
    evicted_axis,
    figure_of,
    legend_below,
    share_axis,
    styled,
)
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, where
from cloudsim.experiments.ours import overflow
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.pairs import needs, read_pair, shape
from cloudsim.experiments.promise.published_numbers import BASELINE_COUNTS
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.federation.report import realised_rate
from cloudsim.model.requests import LEAST_S, Mode
from cloudsim.plots import GREY
from cloudsim.prediction.rule import rule_for
from cloudsim.traces.formats import read

USER, RENEWABLE, OVERFLOW = "user", "renewable", "overflow"
STRICT, POPULATION = Mode.STRICT.value, Mode.POPULATION.value
SLAS = (0.05, 0.01)
SEEDS, QUICK_SEEDS = range(40), range(2)
_QUICK_REQUESTS, _QUICK_BIRTHS, _QUICK_HOURS = 300, 200, 60.0
_BEDS = ("synthetic", "bursts", "mixed", "mixed-bursts")
#: Five sizes with a fourth of the births, as in the experiment ``mixed``.
_MIXED_BIRTHS = 2_500

#: Log of a batch system → file, cores of its machine.
LOGS = {
    "KTH": ("swf/KTH-SP2-1996-2.1-cln.swf.gz", 100),
    "SDSC": ("swf/SDSC-SP2-1998-4.2-cln.swf.gz", 128),
    "NASA": ("swf/NASA-iPSC-1993-3.1-cln.swf.gz", 128),
}
#: Own load and spot of the logs' pairs; cores of a node.
LOG_PAIRS = (("KTH", "SDSC"), ("SDSC", "NASA"), ("NASA", "KTH"))
NODE_CORES = (1, 2, 4, 16)


class Figures(NamedTuple):
    """Figures of a row before: requests admitted, evicted, core-hours completed of those requested."""

    admitted: int
    evicted: int
    completed: float | None = None


#: Strict promises at .01 and overflow, before renewable requests and before the exposure of overflow was
#: bound, by bed, platform and SLA (10,000 births a size).
BEFORE: dict[tuple[str, str, float], Figures] = {
    ("A-B", "7x12", 0.01): Figures(2386, 5, 0.487),
    ("A-B", "6x12", 0.01): Figures(2137, 1, 0.246),
    ("A-B", "5x12", 0.01): Figures(2170, 7, 0.301),
    ("A-B", "4x12", 0.01): Figures(1966, 7, 0.137),
    ("B-A", "7x8", 0.01): Figures(757, 0, 0.244),
    ("B-A", "6x8", 0.01): Figures(735, 1, 0.168),
    ("B-A", "5x8", 0.01): Figures(682, 5, 0.062),
    ("B-A", "4x8", 0.01): Figures(599, 2, 0.049),
    ("C-D", "31x32", 0.01): Figures(3473, 0, 0.078),
    ("C-D", "26x32", 0.01): Figures(3388, 0, 0.051),
    ("C-D", "21x32", 0.01): Figures(2700, 4, 0.003),
    ("C-D", "16x32", 0.01): Figures(2290, 0, 0.002),
    ("D-C", "31x32", 0.01): Figures(8077, 8, 0.112),
    ("D-C", "26x32", 0.01): Figures(7889, 1, 0.034),
    ("D-C", "21x32", 0.01): Figures(7299, 3, 0.016),
    ("D-C", "16x32", 0.01): Figures(5242, 2, 0.005),
    ("A to D, reduced", "all", 0.01): Figures(245, 9),
}


def _row(bed: str, platform: str, door: str, rule: str, sla: float, found: Mapping[str, Any]) -> Row:
    """Return a row of the map.

    Columns: bed, platform, door, rule, sla; requests, admitted, evicted, evicted_share, evicted_low,
    evicted_high (exact 95 %); promises, broken_share, not_renewed; completed (core-hours of those requested);
    before_admitted, before_evicted, before_completed.
    """
    admitted, evicted = int(found["admitted"]), int(found["evicted"])
    promises = int(found.get("promises") or admitted)
    before = BEFORE.get((bed, platform, sla)) if rule == STRICT else None
    return {
        "bed": bed, "platform": platform, "door": door, "rule": rule, "sla": sla,
        "requests": int(found["requests"]), "admitted": admitted, "evicted": evicted,
        **realised_rate(admitted, evicted),
        "promises": promises, "broken_share": evicted / promises if promises else None,
        "not_renewed": int(found.get("not_renewed") or 0), "completed": found.get("completed"),
        "before_admitted": before.admitted if before else None,
        "before_evicted": before.evicted if before else None,
        "before_completed": before.completed if before else None,
    }  # fmt: skip


def _of_single(row: Row) -> dict[str, Any]:
    return {
        "requests": row["spot_requests"], "admitted": row["spot_admitted"], "evicted": row["evicted"],
        "completed": row["completed_of_requested"], "promises": row.get("promises"),
        "not_renewed": row.get("not_renewed"),
    }  # fmt: skip


def measure_pair(
    data: Path, *, pair: str, nodes: str, door: str, rule: str, sla: float, most: int | None, births: int
) -> list[Row]:
    """Run a production pair on a platform through one door."""
    on_demand, spot = read_pair(data, pair, most)
    mode = Mode(rule)
    row = single_cloud_row(
        pair=pair, nodes=nodes, on_demand=on_demand, spot=spot, sla=sla, admission=AdmissionRule(mode),
        prediction=rule_for(mode), births=births, least_s=LEAST_S if door == RENEWABLE else None,
    )  # fmt: skip
    return [_row(pair, nodes, door, rule, sla, _of_single(row))]


def measure_log(data: Path, *, own: str, spot: str, node_cores: int, sla: float, births: int) -> list[Row]:
    """Run a batch log on its machine, cut into nodes, with spot of another log.

    Jobs wider than a node are gangs of the own load; as spot they fit on no node.
    """
    (own_file, cores), (spot_file, _) = LOGS[own], LOGS[spot]
    on_demand, asked = read(data / own_file)[0], read(data / spot_file)[0]
    nodes = f"{cores // node_cores}x{node_cores}" + (f",1x{rest}" if (rest := cores % node_cores) else "")
    row = single_cloud_row(
        pair=f"{own}-{spot}", nodes=nodes, on_demand=on_demand, spot=asked, sla=sla, births=births
    )
    return [_row(f"{own}-{spot}", nodes, USER, STRICT, sla, _of_single(row))]


def measure_overflow(data: Path, *, platform: str, sla: float, births: int, most: int | None) -> list[Row]:
    """Run four clouds that offer each other what they must turn away."""
    nodes = overflow.PLATFORMS[platform]
    rows = overflow.run(data, platform=platform, way=f"{sla:g}", births=births, most=most, nodes=nodes)
    found = {
        "requests": sum(row["offers"] for row in rows),
        "admitted": sum(row["offers_admitted"] for row in rows),
        "evicted": sum(row["evicted"] for row in rows),
    }
    return [_row(platform, "all", OVERFLOW, STRICT, sla, found)]


def measure_bed(
    _data: Path | None, *, bed: str, rule: str, seed: int, births: int, hours: float | None
) -> list[Row]:
    """Run one draw of a synthetic bed at each SLA."""
    return [
        _row(bed, f"seed {seed}", USER, rule, row["sla"], _of_single(row))
        for row in outcomes.measure(
            None, bed=bed, seed=seed, rules=(rule,), births=births, slas=SLAS, hours=hours
        )
    ]


def _cases(quick: bool) -> list[Case]:
    births, most = (_QUICK_BIRTHS, _QUICK_REQUESTS) if quick else (10_000, None)
    beds = [
        Case(
            f"{bed}, {rule}, seed {seed}", measure_bed,
            {"bed": bed, "rule": rule, "seed": seed, "hours": _QUICK_HOURS if quick else None,
             "births": min(births, _MIXED_BIRTHS) if bed.startswith("mixed") else births},
        )
        for bed in (_BEDS[:2] if quick else _BEDS)
        for rule in (STRICT, POPULATION)
        for seed in (QUICK_SEEDS if quick else SEEDS)
        if rule == POPULATION or seed < 4 or not bed.startswith("mixed")
    ]  # fmt: skip
    if quick:
        return beds
    pairs = [
        Case(
            f"{pair} on {nodes}, {door}, {rule}, SLA {sla:g}", measure_pair,
            {"pair": pair, "nodes": nodes, "door": door, "rule": rule, "sla": sla, "most": most,
             "births": births},
            needs(pair),
        )
        for pair, nodes in BASELINE_COUNTS
        for door in (USER, RENEWABLE)
        for rule in (STRICT, POPULATION)
        for sla in SLAS
        if rule == STRICT or (door == USER and nodes == shape(pair))
    ]  # fmt: skip
    logs = [
        Case(
            f"{own} with spot of {spot}, nodes of {cores}, SLA {sla:g}", measure_log,
            {"own": own, "spot": spot, "node_cores": cores, "sla": sla, "births": 2_000},
            (LOGS[own][0], LOGS[spot][0]),
        )
        for own, spot in LOG_PAIRS
        for cores in NODE_CORES
        for sla in SLAS
    ]  # fmt: skip
    federated = [
        Case(
            f"{platform}, overflow, SLA {sla:g}", measure_overflow,
            {"platform": platform, "sla": sla, "births": births, "most": most},
            tuple(name for cloud in overflow.PLATFORMS[platform] for name in needs(cloud)),
        )
        for platform in ("A to D, reduced", "A and B, reduced")
        for sla in SLAS
    ]  # fmt: skip
    return [*beds, *pairs, *logs, *federated]


def pooled(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with those of a bed's seeds as one, which has the number of seeds that kept it.

    Columns beside those of a row: runs and kept, in which at most the SLA of the admitted and of the promises
    was evicted.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        drawn = row["platform"].startswith("seed ")
        where_ = "all seeds" if drawn else row["platform"]
        groups.setdefault((row["bed"], where_, row["door"], row["rule"], row["sla"]), []).append(row)
    return [_pool(key, own) for key, own in groups.items()]


def _pool(key: tuple[Any, ...], rows: Sequence[Row]) -> Row:
    bed, platform, door, rule, sla = key
    added = {
        name: sum(row[name] for row in rows)
        for name in ("requests", "admitted", "evicted", "promises", "not_renewed")
    }
    completed = [row["completed"] for row in rows if row["completed"] is not None]
    found = {**added, "completed": sum(completed) / len(completed) if completed else None}
    kept = sum(row["evicted"] <= sla * min(row["admitted"], row["promises"]) for row in rows)
    return {**_row(bed, platform, door, rule, sla, found), "runs": len(rows), "kept": kept}


def _sentences(rows: Sequence[Row]) -> list[str]:
    own = pooled(rows)
    return [*(_about(row) for row in own), _judgement(own)]


def _about(row: Row) -> str:
    share = 0.0 if row["evicted_share"] is None else row["evicted_share"]
    text = (
        f"{_name(row)}: {row['admitted']} of {row['requests']} admitted, {row['evicted']} evicted "
        f"({share:.4f}, 95 % {row['evicted_low']:.4f} to {row['evicted_high']:.4f})"
    )
    if row["door"] == RENEWABLE:
        text += f", {row['broken_share'] or 0:.4f} of {row['promises']} promises"
        text += f"; {row['not_renewed']} not renewed"
    if row["completed"] is not None:
        text += f"; {row['completed']:.3f} of the core-hours complete"
    if row["runs"] > 1:
        text += f"; kept in {row['kept']} of {row['runs']} seeds"
    if row["before_admitted"] is not None:
        text += f" – before: {row['before_admitted']} admitted, {row['before_evicted']} evicted"
        if row["before_completed"] is not None:
            text += f", {row['before_completed']:.3f} complete"
    return text + "."


def _name(row: Row) -> str:
    return f"{row['bed']} ({row['platform']}), {row['door']}, {row['rule']}, SLA {row['sla']:g}"


def _judgement(rows: Sequence[Row]) -> str:
    broken = [_name(row) for row in rows if row["kept"] < outcomes.ENOUGH * row["runs"]]
    return f"The promise is kept in {len(rows) - len(broken)} of {len(rows)} rows" + (
        f"; not in {'; '.join(broken)}." if broken else "."
    )


def _draw(rows: Sequence[Row]) -> Figure:
    own = pooled(rows)
    with styled():
        figure = figure_of(max(9.0, 0.14 * len(own)), 9.0)
        figure.suptitle("Promised and realised, wherever requests come from", fontsize=11)
        slas = [sla for sla in SLAS if where(own, sla=sla)] or SLAS
        axes = figure.subplots(2 * len(slas), 1, squeeze=False, height_ratios=(2, 1) * len(slas))[:, 0]
        for number, sla in enumerate(slas):
            above, below = axes[2 * number : 2 * number + 2]
            part = where(own, sla=sla)
            names = list(dict.fromkeys(f"{row['bed']} {row['platform']}" for row in part))
            series = {
                f"{door}, {rule}": {
                    f"{row['bed']} {row['platform']}": row for row in where(part, door=door, rule=rule)
                }
                for door, rule in dict.fromkeys((row["door"], row["rule"]) for row in part)
            }
            evicted = {name: _dots(of) for name, of in series.items()}
            before = {
                f"{row['bed']} {row['platform']}": Dot.at(row["before_evicted"] / row["before_admitted"])
                for row in part
                if row["before_admitted"]
            }
            dots_by_group(above, names, {**evicted, **({"before": before} if before else {})})
            above.axhline(sla, ls=":", color=GREY, lw=1.4, zorder=0)
            evicted_axis(above, 0.25)
            above.set_title(f"SLA {sla:g}", loc="left")
            above.set_ylabel("evicted ÷ admitted")
            above.tick_params(labelbottom=False)
            dots_by_group(
                below, names,
                {
                    name: {
                        group: Dot.at(row["completed"])
                        for group, row in of.items()
                        if row["completed"] is not None
                    }
                    for name, of in series.items()
                },
            )  # fmt: skip
            share_axis(below, "completed")
            below.set_ylim(0, 1)
            below.tick_params(axis="x", labelrotation=90, labelsize=7)
        legend_below(figure, *axes[::2])
    return figure


def _dots(rows: Mapping[str, Row]) -> dict[str, Dot]:
    return {
        group: Dot(row["evicted_share"], row["evicted_low"], row["evicted_high"])
        for group, row in rows.items()
        if row["evicted_share"] is not None
    }


EXPERIMENT = Experiment(
    name="promise-map",
    title="Where the promise holds, by bed, door and rule",
    source="our own question, on all traces and beds",
    cases=_cases,
    pictures=(
        Picture(
            "promise-map",
            "Spot evicted of the admitted with exact 95 % intervals, and core-hours completed of those "
            "requested, by bed and platform, door and rule. Dotted: the promise. Before: strict promises "
            "of all at once, and overflow without a bound.",
            _draw,
        ),
    ),
    sentences=_sentences,
    own_keys=lambda rows: {"map": pooled(rows)},
)
