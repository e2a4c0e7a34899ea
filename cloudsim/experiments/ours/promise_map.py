"""The map of the promise: promised against realised, wherever requests come from, however long they last.

One table (``map`` of the result) and one picture of every bed, pair of traces, door and rule, each with its
bar and what was measured before. A door is the way in which a request comes: ``user`` asks for its lifetime
at once, ``renewable`` begins with an hour, ``overflow`` comes from a cloud that is full. Each promise of a
renewable request counts, so its rows tell two shares: evicted of the promises, and of the admitted. Rows of a
bed's seeds are pooled; evictions come in peaks, so that the number of seeds that keep the promise says more
than the interval of all seeds together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cloudsim.admission.rule import AdmissionRule
from cloudsim.experiments.drawing import LINES, Axes, Figure, figure_of, legend_below, styled
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, total, where
from cloudsim.experiments.ours import overflow, overflow_beds
from cloudsim.experiments.promise import outcomes
from cloudsim.experiments.promise.pairs import needs, read_pair, shape
from cloudsim.experiments.promise.published_numbers import BASELINE_COUNTS
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.federation.file_schema import PriceTrace
from cloudsim.federation.report import realised_rate
from cloudsim.federation.traces import Traces
from cloudsim.model.requests import LEAST_S, Mode
from cloudsim.plots import GREY, PALE
from cloudsim.prediction.rule import rule_for
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats import read
from cloudsim.traces.trace import Trace

USER, RENEWABLE, OVERFLOW = "user", "renewable", "overflow"
STRICT, POPULATION = Mode.STRICT.value, Mode.POPULATION.value
SLAS = (0.01, 0.05)
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_QUICK_REQUESTS, _QUICK_BIRTHS, _QUICK_HOURS, _QUICK_SEEDS = 300, 200, 60.0, 2

#: Bed and rule → number of seeds. The bars of bursts speak of forty.
BEDS = {
    ("bursts", POPULATION): 40, ("mixed-bursts", POPULATION): 40, ("synthetic", POPULATION): 5,
    ("mixed", POPULATION): 5, ("long-lived", POPULATION): 5, ("bursts", STRICT): 5,
    ("mixed-bursts", STRICT): 3, ("synthetic", STRICT): 5, ("mixed", STRICT): 3, ("long-lived", STRICT): 5,
}  # fmt: skip
#: Federation → number of seeds; one of the batch logs takes as long as seven of A to D.
OVERFLOW_SEEDS = {
    "A to D, reduced": 40, "KTH, SDSC, NASA": 8,
    **{f"common cycle, {hours} h apart": 8 if hours else 40 for hours in overflow_beds.APART_H},
}  # fmt: skip
_OVERFLOW_BIRTHS = 1_000
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
_LOG_BIRTHS = 2_000

#: The directory of price histories, and its markets with an on-demand price as bid.
PRICES = "spot-prices-2015"
MARKETS = tuple(
    f"{kind}/us-east-1{zone}"
    for zone in "ab"
    for kind in ("c3.xlarge", "d2.8xlarge", "g2.2xlarge", "m3.medium", "r3.large")
)
_PRICED, _PRICED_NODES, _PRICED_REQUESTS, _PRICED_BIRTHS = "price history", "4x4", 1_500, 2_000


class Before(NamedTuple):
    """Figures of a row before: shares of the requests, of the admitted and of the core-hours; seeds kept."""

    source: str
    admitted: float | None = None
    evicted: float | None = None
    completed: float | None = None
    kept: str | None = None


class Bar(NamedTuple):
    """The bar of a row beside its promise: least share of the requests admitted, of core-hours completed."""

    admitted: float | None = None
    completed: float | None = None


_AT_ONCE = "strict promises of all at once, 10,000 births"
#: Strict promises at .01 of the whole lifetime: admitted, evicted, share of the core-hours completed.
_BEFORE_RENEWALS: dict[tuple[str, str], tuple[int, int, float]] = {
    ("A-B", "7x12"): (2386, 5, 0.487), ("A-B", "6x12"): (2137, 1, 0.246),
    ("A-B", "5x12"): (2170, 7, 0.301), ("A-B", "4x12"): (1966, 7, 0.137),
    ("B-A", "7x8"): (757, 0, 0.244), ("B-A", "6x8"): (735, 1, 0.168),
    ("B-A", "5x8"): (682, 5, 0.062), ("B-A", "4x8"): (599, 2, 0.049),
    ("C-D", "31x32"): (3473, 0, 0.078), ("C-D", "26x32"): (3388, 0, 0.051),
    ("C-D", "21x32"): (2700, 4, 0.003), ("C-D", "16x32"): (2290, 0, 0.002),
    ("D-C", "31x32"): (8077, 8, 0.112), ("D-C", "26x32"): (7889, 1, 0.034),
    ("D-C", "21x32"): (7299, 3, 0.016), ("D-C", "16x32"): (5242, 2, 0.005),
}  # fmt: skip
#: Bed, platform, door, rule and SLA → figures of issue 19.
BEFORE: dict[tuple[str, str, str, str, float], Before] = {
    ("bursts", "all seeds", USER, POPULATION, 0.01): Before("issue 19, 4", 0.297, kept="34 of 40"),
    ("mixed-bursts", "all seeds", USER, POPULATION, 0.01): Before("issue 19, 4", 0.590, kept="32 of 40"),
    ("A to D, reduced", "whole traces", OVERFLOW, STRICT, 0.01): Before("issue 19, 3", evicted=9 / 245),
}
BARS: dict[tuple[str, str, str, str, float], Bar] = {
    ("bursts", "all seeds", USER, POPULATION, 0.01): Bar(admitted=0.30),
    ("mixed-bursts", "all seeds", USER, POPULATION, 0.01): Bar(admitted=0.59),
    **{
        (pair, shape(pair), USER, STRICT, 0.01): Bar(admitted=least)
        for pair, least in (("A-B", 0.93), ("B-A", 0.85), ("C-D", 0.93), ("D-C", 0.96))
    },
    **{
        (pair, shape(pair), RENEWABLE, STRICT, 0.01): Bar(completed=least)
        for pair, least in (("A-B", 0.84), ("B-A", 0.40), ("C-D", 0.26), ("D-C", 0.28))
    },
}
#: Of the overflow that is admitted as any other request, where that keeps the promise.
OVERFLOW_LEFT = 0.90


def _row(bed: str, platform: str, door: str, rule: str, sla: float, found: Mapping[str, Any]) -> Row:
    """Return a row of the map.

    Columns: bed, platform, door, rule, sla; requests, admitted, evicted, evicted_share, evicted_low,
    evicted_high (exact 95 %); promises, broken_share, not_renewed; core_hours_requested,
    core_hours_completed; where the rule leaves room for a peak more than the history has shown, bare_admitted
    and bare_evicted are those without it.
    """
    admitted, evicted = int(found["admitted"]), int(found["evicted"])
    promises = int(found.get("promises") or admitted)
    return {
        "bed": bed, "platform": platform, "door": door, "rule": rule, "sla": sla,
        "requests": int(found["requests"]), "admitted": admitted, "evicted": evicted,
        **realised_rate(admitted, evicted),
        "promises": promises, "broken_share": evicted / promises if promises else None,
        "not_renewed": int(found.get("not_renewed") or 0),
        "core_hours_requested": found["core_hours_requested"],
        "core_hours_completed": found["core_hours_completed"],
        "bare_admitted": found.get("bare_admitted"), "bare_evicted": found.get("bare_evicted"),
    }  # fmt: skip


def _of_single(row: Row) -> dict[str, Any]:
    return {
        "requests": row["spot_requests"], "admitted": row["spot_admitted"], "evicted": row["evicted"],
        "promises": row.get("promises"), "not_renewed": row.get("not_renewed"),
        "core_hours_requested": row["spot_core_hours_requested"],
        "core_hours_completed": row["spot_core_hours_completed"],
    }  # fmt: skip


def measure_pair(
    data: Path, *, pair: str, nodes: str, ways: Sequence[Sequence[str]], births: int
) -> list[Row]:
    """Run a production pair on a platform at each SLA; a way is a door and a rule."""
    on_demand, spot = read_pair(data, pair)
    rows = []
    for door, rule in ways:
        mode = Mode(rule)
        for sla in SLAS:
            row = single_cloud_row(
                pair=pair, nodes=nodes, on_demand=on_demand, spot=spot, sla=sla,
                admission=AdmissionRule(mode), prediction=rule_for(mode), births=births,
                least_s=LEAST_S if door == RENEWABLE else None,
            )  # fmt: skip
            rows.append(_row(pair, nodes, door, rule, sla, _of_single(row)))
    return rows


def measure_log(
    data: Path, *, own: str, spot: str, node_cores: int, slas: Sequence[float], births: int
) -> list[Row]:
    """Run a batch log on its machine, cut into nodes, with spot of another log.

    Jobs wider than a node are gangs of the own load; as spot they fit on no node.
    """
    (own_file, cores), (spot_file, _) = LOGS[own], LOGS[spot]
    on_demand, asked = read(data / own_file)[0], read(data / spot_file)[0]
    nodes = f"{cores // node_cores}x{node_cores}" + (f",1x{rest}" if (rest := cores % node_cores) else "")
    pair = f"{own}-{spot}"
    rows = []
    for sla in slas:
        row = single_cloud_row(
            pair=pair, nodes=nodes, on_demand=on_demand, spot=asked, sla=sla, births=births
        )
        rows.append(_row(pair, nodes, USER, STRICT, sla, _of_single(row)))
    return rows


def measure_whole_overflow(data: Path, *, platform: str, sla: float, births: int) -> list[Row]:
    """Run clouds that offer each other what they must turn away, with their whole traces."""
    nodes = overflow.PLATFORMS[platform]
    rows = overflow.run(data, platform=platform, way=f"{sla:g}", births=births, most=None, nodes=nodes)
    found = {
        "requests": total(rows, "offers"), "admitted": total(rows, "offers_admitted"),
        "evicted": total(rows, "evicted"),
        "core_hours_requested": total(rows, "core_hours_offered"),
        "core_hours_completed": total(rows, "on_demand_core_hours_elsewhere"),
    }  # fmt: skip
    return [_row(platform, "whole traces", OVERFLOW, STRICT, sla, found)]


def measure_overflow(
    data: Path | None, *, bed: str, seed: int, slas: Sequence[float], births: int, days: float
) -> list[Row]:
    """Run one seed of a federation whose spot is all overflow, also as if it were any other request."""
    found = overflow_beds.run(data, bed=bed, seed=seed, slas=slas, births=births, days=days)
    rows = []
    for sla in slas:
        (after,), (other,) = (
            where(found, sla=sla, rule=rule) for rule in (overflow_beds.AFTER, overflow_beds.BEFORE)
        )
        as_other = {"bare_admitted": other["admitted"], "bare_evicted": other["evicted"]}
        told = {**after, "requests": after["offers"], **as_other}
        rows.append(_row(bed, f"seed {seed}", OVERFLOW, STRICT, sla, told))
    return rows


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


def measure_market(data: Path, *, market: str, slas: Sequence[float], births: int) -> list[Row]:
    """Run a cloud that takes all spot back while a recorded price is above that of on-demand.

    Its requests come evenly and ask for an hour to a day; they are also run without room for a peak more.
    """
    source = PriceTrace(prices=PRICES, market=market)
    load = Traces(data, data, lambda _file, _warning: None).of(source, "trace", parse_nodes(_PRICED_NODES))
    rng = np.random.default_rng(1)
    start_s = np.sort(rng.uniform(0, load.last_stop_s, _PRICED_REQUESTS))
    stop_s = start_s + rng.uniform(_HOUR_S, _DAY_S, _PRICED_REQUESTS)
    ids = [f"s{number}" for number in range(_PRICED_REQUESTS)]
    spot = Trace.checked("spot", ids, start_s, stop_s, np.ones(_PRICED_REQUESTS))
    rows = []
    for sla in slas:
        bare, row = (
            single_cloud_row(
                pair=market, nodes=_PRICED_NODES, on_demand=load, spot=spot, sla=sla, spot_delay_s=0,
                births=births, seed=1, admission=AdmissionRule(peaks=peaks),
            )
            for peaks in (0.0, 1.0)
        )  # fmt: skip
        without = {"bare_admitted": bare["spot_admitted"], "bare_evicted": bare["evicted"]}
        rows.append(_row(_PRICED, market, USER, STRICT, sla, _of_single(row) | without))
    return rows


def _bed_cases(quick: bool) -> list[Case]:
    return [
        Case(
            f"{bed}, {rule}, seed {seed}", measure_bed,
            {"bed": bed, "rule": rule, "seed": seed, "hours": _QUICK_HOURS if quick else None,
             "births": _QUICK_BIRTHS if quick else _MIXED_BIRTHS if bed.startswith("mixed") else 10_000},
        )
        for (bed, rule), seeds in BEDS.items()
        for seed in range(_QUICK_SEEDS if quick else seeds)
        if not quick or bed in {"bursts", "synthetic"}
    ]  # fmt: skip


def _overflow_cases(quick: bool) -> list[Case]:
    return [
        Case(
            f"{bed}, overflow, seed {seed}", measure_overflow,
            {"bed": bed, "seed": seed, "slas": list(SLAS),
             "births": _QUICK_BIRTHS if quick else _OVERFLOW_BIRTHS,
             "days": 1.5 if quick else overflow_beds.DAYS},
            overflow_beds.NEEDS.get(bed, ()),
        )
        for bed, seeds in (
            {"common cycle, 12 h apart": 1} if quick else OVERFLOW_SEEDS
        ).items()
        for seed in (
            range(seeds) if bed in overflow_beds.NEEDS
            else range(overflow_beds.FIRST_SEED, overflow_beds.FIRST_SEED + seeds)
        )
    ]  # fmt: skip


def _cases(quick: bool) -> list[Case]:
    if quick:
        return [*_bed_cases(quick), *_overflow_cases(quick)]
    pairs = [
        Case(
            f"{pair} on {nodes}", measure_pair,
            {"pair": pair, "nodes": nodes, "births": 10_000,
             "ways": [[USER, STRICT], [RENEWABLE, STRICT],
                      *([[USER, POPULATION]] if nodes == shape(pair) else [])]},
            needs(pair),
        )
        for pair, nodes in BASELINE_COUNTS
    ]  # fmt: skip
    logs = [
        Case(
            f"{own} with spot of {spot}, nodes of {cores}", measure_log,
            {"own": own, "spot": spot, "node_cores": cores, "slas": list(SLAS), "births": _LOG_BIRTHS},
            (LOGS[own][0], LOGS[spot][0]),
        )
        for own, spot in LOG_PAIRS
        for cores in NODE_CORES
    ]  # fmt: skip
    federated = [
        Case(
            f"{platform}, whole traces, overflow, SLA {sla:g}", measure_whole_overflow,
            {"platform": platform, "sla": sla, "births": 10_000},
            tuple(name for cloud in overflow.PLATFORMS[platform] for name in needs(cloud)),
        )
        for platform in ("A to D, reduced", "A and B, reduced")
        for sla in SLAS
    ]  # fmt: skip
    priced = [
        Case(
            f"{_PRICED} of {market}", measure_market,
            {"market": market, "slas": list(SLAS), "births": _PRICED_BIRTHS},
            (f"{PRICES}/markets.csv", *(_price_file(market) for market in MARKETS)),
        )
        for market in MARKETS
    ]  # fmt: skip
    # Seed by seed, so that a run that is interrupted has something of each bed.
    drawn = [*_bed_cases(quick), *_overflow_cases(quick)]
    drawn.sort(key=lambda case: case.options["seed"] % overflow_beds.FIRST_SEED)
    return [*priced, *pairs, *logs, *federated, *drawn]


def _price_file(market: str) -> str:
    kind, zone = market.split("/")
    return f"{PRICES}/{zone}_{kind}.csv.gz"


def pooled(rows: Sequence[Row]) -> list[Row]:
    """Return the table of the map: the rows, with those of a bed's seeds as one, in the order of its parts.

    Columns beside those of a row: runs and kept, in which at most the SLA of the admitted and of the promises
    was evicted; admitted_share, completed (of the core-hours requested); before_source, before_admitted,
    before_evicted, before_completed (shares) and before_kept (text); bar and short, each a text: what the row
    is held to, and by what it falls short of it ("" if it holds).
    """
    groups: dict[tuple[str, str, str, str, float], list[Row]] = {}
    for row in rows:
        drawn = row["platform"].startswith("seed ")
        platform = "all seeds" if drawn else row["platform"]
        groups.setdefault((row["bed"], platform, row["door"], row["rule"], row["sla"]), []).append(row)
    return [_pool(key, own) for key, own in groups.items()]


_SUMS = (
    "requests", "admitted", "evicted", "promises", "not_renewed", "core_hours_requested",
    "core_hours_completed", "bare_admitted", "bare_evicted",
)  # fmt: skip


def _pool(key: tuple[str, str, str, str, float], rows: Sequence[Row]) -> Row:
    bed, platform, door, rule, sla = key
    found = {name: sum(row[name] for row in rows) for name in _SUMS if rows[0][name] is not None}
    row = _row(bed, platform, door, rule, sla, found)
    requested = row["core_hours_requested"]
    before = _before(key, row, rows)
    row |= {
        "runs": len(rows), "kept": _kept(rows, sla, "admitted", "evicted"),
        "admitted_share": row["admitted"] / row["requests"] if row["requests"] else None,
        "completed": row["core_hours_completed"] / requested if requested else None,
        **{f"before_{name}": value for name, value in before._asdict().items()},
    }  # fmt: skip
    return row | dict(zip(("bar", "short"), _judge(key, row, rows), strict=True))


def _kept(rows: Sequence[Row], sla: float, admitted: str, evicted: str) -> int:
    return sum(row[evicted] <= sla * row[admitted] for row in rows)


def _before(key: tuple[str, str, str, str, float], row: Row, rows: Sequence[Row]) -> Before:
    bed, platform, _door, rule, sla = key
    if row["bare_admitted"]:
        kept = _kept(rows, sla, "bare_admitted", "bare_evicted")
        return Before(
            "no room for a peak more, same run", row["bare_admitted"] / row["requests"],
            row["bare_evicted"] / row["bare_admitted"], kept=f"{kept} of {len(rows)}",
        )  # fmt: skip
    if sla == 0.01 and rule == STRICT and (found := _BEFORE_RENEWALS.get((bed, platform))):
        admitted, evicted, completed = found
        return Before(_AT_ONCE, admitted / row["requests"], evicted / admitted, completed)
    return BEFORE.get(key, Before(""))


def _judge(key: tuple[str, str, str, str, float], row: Row, rows: Sequence[Row]) -> tuple[str, str]:
    """Return what a row is held to, and by what it falls short ("" if it holds)."""
    door, sla, runs, bar = row["door"], row["sla"], row["runs"], BARS.get(key, Bar())
    least = int(np.ceil(outcomes.ENOUGH * runs))
    bars = [f"kept in {least} of {runs}" if runs > 1 else f"evicted at most {sla:g}"]
    short = []
    if row["kept"] < least:
        short.append(
            f"kept in {row['kept']} of {runs}" if runs > 1 else f"{row['evicted_share']:.4f} evicted"
        )
    for name, limit in (("admitted_share", bar.admitted), ("completed", bar.completed)):
        if limit is not None:
            word = name.removesuffix("_share")
            bars.append(f"{limit:g} {word}")
            if row[name] < limit:
                short.append(f"{row[name]:.3f} {word}")
    if (
        door == OVERFLOW
        and row["bare_admitted"]
        and _kept(rows, sla, "bare_admitted", "bare_evicted") >= least
    ):
        left = row["admitted"] / row["bare_admitted"]
        bars.append(f"{OVERFLOW_LEFT:g} of the admissions")
        if left < OVERFLOW_LEFT:
            short.append(f"{left:.3f} of the admissions")
    return "; ".join(bars), "; ".join(short)


def _sentences(rows: Sequence[Row]) -> list[str]:
    own = pooled(rows)
    return [*(_about(row) for row in own), *_judgements(own)]


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
    parts = [
        f"{row[f'before_{name}']:.{digits}f} {name}"
        for name, digits in (("admitted", 3), ("evicted", 4), ("completed", 3))
        if row[f"before_{name}"] is not None
    ]
    if row["before_kept"]:
        parts.append(f"kept in {row['before_kept']}")
    if parts:
        text += f" – before ({row['before_source']}): {', '.join(parts)}"
    return f"{text} – bar: {row['bar']}: " + (f"short: {row['short']}." if row["short"] else "holds.")


def _name(row: Row) -> str:
    return f"{row['bed']} ({row['platform']}), {row['door']}, {row['rule']}, SLA {row['sla']:g}"


def _judgements(rows: Sequence[Row]) -> list[str]:
    texts = []
    for sla in distinct(rows, "sla"):
        own = where(rows, sla=sla)
        short = [f"{_name(row)} ({row['short']})" for row in own if row["short"]]
        text = f"At SLA {sla:g} {len(own) - len(short)} of {len(own)} rows hold their bar"
        texts.append(f"{text}; short are {'; '.join(short)}." if short else f"{text}.")
    return texts


#: Door and rule → colour and marker.
_LOOKS = dict(
    zip(((USER, STRICT), (RENEWABLE, STRICT), (OVERFLOW, STRICT), (USER, POPULATION)), LINES, strict=False)
)


def _draw(rows: Sequence[Row]) -> Figure:
    own = pooled(rows)
    slas = distinct(own, "sla")
    places = {name: -at for at, name in enumerate(dict.fromkeys(_place(row) for row in own))}
    with styled():
        figure = figure_of(6.5 + 4 * len(slas), 1.6 + 0.2 * len(places))
        figure.suptitle("Promised and realised, wherever requests come from", fontsize=11)
        axes = figure.subplots(1, 3 * len(slas), squeeze=False, width_ratios=(2, 1, 1) * len(slas))[0]
        for number, sla in enumerate(slas):
            evicted, admitted, completed = axes[3 * number : 3 * number + 3]
            part = where(own, sla=sla)
            most = 12 * sla
            _draw_dots(evicted, part, places, ("evicted_share", "before_evicted"), most)
            evicted.axvline(sla, ls=":", color=GREY, lw=1.4, zorder=0)
            evicted.set_xscale("symlog", linthresh=sla, linscale=1.5)
            marks = [0, sla / 2, sla, 3 * sla, 10 * sla]
            evicted.set_xticks(marks, [f"{mark:g}".removeprefix("0") or "0" for mark in marks], minor=False)
            evicted.set_xticks([], minor=True)
            evicted.set_xlim(0, most)
            evicted.set_title(f"SLA {sla:g}: evicted ÷ admitted", loc="left", fontsize=9)
            for panel, name in ((admitted, "admitted"), (completed, "completed")):
                column = "admitted_share" if panel is admitted else name
                _draw_dots(panel, part, places, (column, f"before_{name}"), 1.0)
                panel.set_xlim(0, 1)
                panel.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
                panel.set_title(name, loc="left", fontsize=9)
        for panel in axes:
            panel.set_yticks(list(places.values()), list(places) if panel is axes[0] else [], fontsize=7.5)
            panel.set_ylim(-len(places) + 0.4, 0.6)
            panel.grid(axis="y", color=PALE, lw=0.7, zorder=0)
        legend_below(figure, *axes)
    return figure


def _place(row: Row) -> str:
    return f"{row['bed']} · {row['platform']}"


def _draw_dots(
    axes: Axes, rows: Sequence[Row], places: Mapping[str, int], columns: tuple[str, str], most: float
) -> None:
    """Draw a column and what it was before, a mark a row, those above ``most`` there.

    Hollow marks fall short of their bar.
    """
    column, before = columns
    for number, ((door, rule), (colour, marker)) in enumerate(_LOOKS.items()):
        shift = 0.24 - 0.16 * number
        for row in where(rows, door=door, rule=rule):
            y, value = places[_place(row)] + shift, row[column]
            if row[before] is not None:
                axes.plot(
                    min(row[before], most), y, "|", color=colour, ms=6, mew=1.2, clip_on=False, label="before"
                )
            if value is None:
                continue
            if column == "evicted_share":
                axes.plot([row["evicted_low"], row["evicted_high"]], [y, y], color=colour, lw=1, zorder=2)
            axes.plot(
                min(value, most), y, marker, color=colour, ms=4.5, mew=1, zorder=3, clip_on=False,
                mfc="white" if row["short"] else colour, label=f"{door}, {rule}",
            )  # fmt: skip


EXPERIMENT = Experiment(
    name="promise-map",
    title="Where the promise holds, by bed, door and rule",
    source="our own question, on all traces and beds",
    cases=_cases,
    pictures=(
        Picture(
            "promise-map",
            "Spot evicted of the admitted with exact 95 % intervals, requests admitted, and core-hours "
            "completed of those requested, by bed and platform, door and rule. Dotted: the promise. Lines "
            "across: before. Hollow marks: rows that fall short of their bar.",
            _draw,
        ),
    ),
    sentences=_sentences,
    own_keys=lambda rows: {"map": pooled(rows)},
)
