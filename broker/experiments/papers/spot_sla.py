"""P1 and P2: the printed numbers of spot instances with an SLA; most stand in both papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.experiments.papers.number import (
    NotComputed,
    Ours,
    PrintedNumber,
    Rows,
    about,
    at_least,
    at_most,
    runs,
    select,
    share,
)
from cloudsim.experiments.promise.published_numbers import (
    ADMITTED,
    DESIGN,
    EVICTED,
    FIGURES,
    LIFETIME_S,
    LITERAL,
    ON_DEMAND,
    PAIRS,
    POPULATION,
    QUANTITIES,
    SAMPLES,
    STRICT,
    UNAWARE,
    PublishedNumber,
    quantity,
)

_FIGURE_1, _FIGURES_2_3, _TABLES, _SCALING = "figure-1", "figures-2-3", "tables-3-4", "scaling"
_TIGHTEST = 0.01
#: Columns of ``PublishedNumber.of`` that are our readings, not the paper's conditions.
_READINGS = {
    STRICT: "ours, strict",
    POPULATION: "ours, by population",
    LITERAL: "their text, literally",
    UNAWARE: "",
    "exact": "the virtual instance ages",
    "always youngest": "it is always the youngest",
}


def _ours(number: PublishedNumber) -> Callable[[Rows], Ours]:
    def ours(rows: Rows) -> Ours:
        return _quantity(select(rows, **number.of), number.quantity)

    return ours


def _quantity(rows: Rows, name: str) -> Ours:
    """Return a quantity of runs: over their seeds, or of one run with its exact interval where it counts."""
    if len(rows) > 1:
        return runs([value for row in rows if (value := quantity(row, name)) is not None], "seeds")
    (row,) = rows
    columns = QUANTITIES[name]
    if name in {ADMITTED, EVICTED, ON_DEMAND}:
        return share(row[columns[0]], row[columns[1]])
    value = quantity(row, name)
    return Ours("none") if value is None else Ours(value)


def _condition(number: PublishedNumber) -> str:
    parts = []
    for name, value in number.of.items():
        match name:
            case "pair":
                parts.append(value)
            case "sla":
                parts.append("no SLA" if value is None else f"SLA {value:g}")
            case "free_slots":
                parts.append(f"{value} free slots")
            case "quantile" if number.quantity == LIFETIME_S:
                parts.append(f"quantile {value:g}")
            case "nodes":
                parts.append("{} nodes of {} cores".format(*value.split("x")))
    return ", ".join(parts)


def _reading(number: PublishedNumber) -> str:
    at_sla = number.experiment in {_TABLES, _SCALING} and number.of["sla"] is not None
    rule = number.of.get("rule", number.of.get("rank", STRICT if at_sla else UNAWARE))
    return _READINGS[str(rule)]


def _from_experiments() -> list[PrintedNumber]:
    """Return the numbers that the experiments draw beside their own."""
    return [
        PrintedNumber(
            number.where,
            f"{_condition(number)}: {number.quantity}",
            number.value,
            number.experiment,
            _ours(number),
            about(number.number) if number.quantity in {SAMPLES, LIFETIME_S} else None,
            reading=_reading(number),
        )
        for number in FIGURES
        if number.where != DESIGN
    ]


def _sla_is_kept(sla: float) -> PrintedNumber:
    return PrintedNumber(
        "P1 Fig. 1 (§III-A), P2 Fig. 1 (§3.1)", f"SLA {sla:g}: largest share evicted", f"≤ {sla:.2f}",
        _FIGURE_1,
        lambda rows: _quantity(select(rows, rule=STRICT, sla=sla), EVICTED), within=at_most(sla),
        reading=_READINGS[STRICT],
    )  # fmt: skip


def _utilisation(rows: Rows) -> Ours:
    """Return the busy cores of the on-demand load by itself."""
    own = select(rows, rule=UNAWARE, sla=None)
    return runs([32 * row["utilisation_without_spot"] for row in own], "seeds")


def _spot_load(rows: Rows) -> Ours:
    """Return the cores that the spot requests would keep busy in the nine days in which they come."""
    own = select(rows, rule=UNAWARE, sla=None)
    return runs([row["spot_core_hours_requested"] / 216 for row in own], "seeds")


def _fewest_samples(slots: range, pick: Callable[[Sequence[float]], float]) -> Callable[[Rows], Ours]:
    def ours(rows: Rows) -> Ours:
        own = [row for row in select(rows, rank="exact", quantile=0.01) if row["free_slots"] in slots]
        seeds = sorted({row["seed"] for row in own})
        return runs([pick([row["samples"] for row in own if row["seed"] == seed]) for seed in seeds], "seeds")

    return ours


def _sizes(pick: Callable[[Sequence[int]], int], *origins: str) -> Callable[[Rows], Ours]:
    """Pick from the sizes that are asked for in traces, each seen as the spot of a pair."""

    def ours(rows: Rows) -> Ours:
        own = [row for pair in origins for row in select(rows, pair=pair, sla=None)[:1]]
        return Ours(pick([size["cores"] for row in own for size in row["by_size"]]))

    return ours


def _combined(rows: Rows) -> Ours:
    row = select(rows, pair="A-B", sla=None)[0]
    nodes, cores = map(int, row["nodes"].split("x"))
    return Ours(row["utilisation"] * nodes * cores)


def _of_pairs(
    name: str, sla: float | None, pick: Callable[[Sequence[float]], float], pairs: Sequence[str] = PAIRS
) -> Callable[[Rows], Ours]:
    """Pick from a quantity of pairs on their full platforms, of the first seed."""

    def ours(rows: Rows) -> Ours:
        values = [quantity(select(rows, pair=pair, sla=sla)[0], name) for pair in pairs]
        return Ours(pick([value for value in values if value is not None]))

    return ours


def _one(name: str, sla: float | None, **columns: str) -> Callable[[Rows], Ours]:
    return lambda rows: _quantity(select(rows, sla=sla, **columns), name)


def _refused(sla: float | None) -> Callable[[Rows], Ours]:
    def ours(rows: Rows) -> Ours:
        row = select(rows, pair="A-B", sla=sla)[0]
        whole = row["on_demand_requests"]
        return share(whole - row["on_demand_admitted"], whole)

    return ours


def _platforms_that_keep(rows: Rows) -> Ours:
    own = {(row["pair"], row["nodes"]): row for row in reversed(select(rows, sla=_TIGHTEST))}
    if len(own) != 16:
        return Ours("not all platforms")
    return Ours(sum(row["evicted"] <= _TIGHTEST * row["spot_admitted"] for row in own.values()))


_TABLE_2, _SECTION_4 = "P1 Table II, P2 Table 2", "P1 §III-D, P2 §3.4"

NUMBERS: tuple[PrintedNumber, ...] = (
    PrintedNumber(
        "P1 Table I, P2 Table 1", "mean utilisation of the on-demand load, cores", "21.77", _FIGURE_1,
        _utilisation, reading="gaps of μ = 3.5: with the printed 4 it would be 13.8",
    ),
    PrintedNumber(
        "P1 Table I, P2 Table 1", "mean utilisation of the spot load, cores", "21.95", _FIGURE_1, _spot_load,
        reading="gaps of μ = 3.5",
    ),
    *_from_experiments(),
    *(_sla_is_kept(sla) for sla in (0.25, 0.10, 0.05, 0.01)),
    PrintedNumber(
        "P1 Fig. 2 (§III-B), P2 Fig. 2 (§3.2)", "fewest samples of 1 to 14 free slots", "over 1000",
        _FIGURES_2_3, _fewest_samples(range(1, 15), min), within=at_least(1000),
    ),
    PrintedNumber(
        "P1 Fig. 2 (§III-B), P2 Fig. 2 (§3.2)", "fewest samples of 15 to 20 free slots", "over 200",
        _FIGURES_2_3, _fewest_samples(range(15, 21), min), within=at_least(200),
    ),
    PrintedNumber(
        "P1 Fig. 2 (§III-B), P2 Fig. 2 (§3.2)", "most samples of 21 free slots and more", "below 200",
        _FIGURES_2_3, _fewest_samples(range(21, 33), max), within=at_most(200),
    ),
    PrintedNumber(
        _TABLE_2, "cores of a node of A, at least its largest instance", "8", _TABLES, _sizes(max, "B-A"),
        within=at_most(8),
    ),
    PrintedNumber(
        _TABLE_2, "cores of a node of B, at least its largest instance", "12", _TABLES, _sizes(max, "A-B"),
        within=at_most(12), reading="the text says 8; B's largest instance does not decide",
    ),
    PrintedNumber(
        "P1 §III-C, P2 §3.3", "smallest instance of the four traces, cores", "1", _TABLES,
        _sizes(min, *PAIRS),
    ),
    PrintedNumber(
        "P1 §III-C, P2 §3.3", "largest instance of the four traces, cores", "30", _TABLES,
        _sizes(max, *PAIRS),
    ),
    PrintedNumber(
        _SECTION_4, "instances of A need cores", "12", _TABLES, _sizes(max, "B-A"),
    ),
    PrintedNumber(
        _SECTION_4, "nodes of B have cores, at least its largest instance", "8", _TABLES, _sizes(max, "A-B"),
        within=at_most(8),
    ),
    PrintedNumber(_SECTION_4, "mean utilisation of A and B together, cores", "26.62", _TABLES, _combined),
    PrintedNumber(
        "P1 Table III, P2 Table 3", "least evicted of the four pairs without an SLA", "> 0.01", _TABLES,
        _of_pairs(EVICTED, None, min), within=at_least(_TIGHTEST),
    ),
    PrintedNumber(
        "P1 Table IV, P2 Table 4", "most evicted of the four pairs at SLA 0.01", "≤ 0.01", _TABLES,
        _of_pairs(EVICTED, _TIGHTEST, max), within=at_most(_TIGHTEST),
    ),
    PrintedNumber(
        "P2 §3.5", "least on-demand admitted at SLA 0.01 on full platforms but A's", "0.997", _TABLES,
        _of_pairs(ON_DEMAND, _TIGHTEST, min, PAIRS[1:]), within=at_least(0.997),
    ),
    PrintedNumber("P2 §3.5", "A-B: on-demand refused without an SLA", "2.3 %", _TABLES, _refused(None)),
    PrintedNumber("P2 §3.5", "A-B: on-demand refused at SLA 0.01", "2.3 %", _TABLES, _refused(_TIGHTEST)),
    PrintedNumber("P2 §3.5", "platforms of 16 that keep SLA 0.01", "15", _SCALING, _platforms_that_keep),
    PrintedNumber(
        "P2 §3.5", "B-A on 6 nodes, SLA 0.01: evictions, a number of one digit", "below 10", _SCALING,
        lambda rows: Ours(select(rows, pair="B-A", nodes="6x8", sla=_TIGHTEST)[0]["evicted"]),
        within=at_most(9),
    ),
    PrintedNumber(
        "P2 §3.6", "most evicted of the four pairs without an SLA", "0.05", _TABLES,
        _of_pairs(EVICTED, None, max), within=at_most(0.05),
    ),
    PrintedNumber("P2 §3.6", "D-C, no SLA: spot admitted", "0.96", _TABLES, _one(ADMITTED, None, pair="D-C")),
    PrintedNumber("P2 §3.6", "D-C, no SLA: spot evicted", "0.02", _TABLES, _one(EVICTED, None, pair="D-C")),
    PrintedNumber(
        "P2 §3.6", "D-C, SLA 0.01: spot admitted", "0.28", _TABLES, _one(ADMITTED, _TIGHTEST, pair="D-C")
    ),
)  # fmt: skip

NOT_COMPUTED: tuple[NotComputed, ...] = (
    NotComputed(
        "P1 Fig. 1, P2 Fig. 1", "admitted and evicted at SLA 0.10, 0.05 and 0.01", 6,
        "bars without numbers; that the SLA is kept is in the list",
    ),
    NotComputed(
        "P1 Fig. 6, P2 Figs. 7, 8 and 10", "admitted and evicted of A-B, B-A and D-C on fewer nodes", 26,
        "bars whose numbers cannot be read; those of C-D are in the list, and experiment scaling has ours",
    ),
    NotComputed(
        "P1 §III, P2 §3", "nodes, hours, refreshes, births and the delay of spot", 0,
        "settings, which are our inputs"
    ),
    NotComputed("P1 Figs. 4 and 5, P2 Figs. 4 to 6", "load by day", 0, "curves without numbers"),
    NotComputed(
        "P2 §3.1, P1 §III-C, P2 §3.3", "30 s and 300 s for a refresh", 2, "times of the authors' machine"
    ),
)  # fmt: skip
