"""The numbers that the papers print and those that docs/design/prediction.md expects, to be put beside ours.

Only numbers that a text or table prints are here; bars and curves were not read off by eye. P1 is the paper
on co-scheduling, P2 that on federation (UCSB Technical Report 2015-02), both by Pucher, Wolski and Krintz.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloudsim.experiments.experiment import Row, where

#: Where numbers stand that no paper prints.
DESIGN = "docs/design/prediction.md"

ADMITTED, EVICTED, ON_DEMAND = "spot admitted", "spot evicted", "on-demand admitted"
WORK, WORK_OF_BASELINE = "spot work completed", "spot work completed, of the baseline's"
LIFETIME_S, SAMPLES = "quantile of the lifetime, s", "samples"

#: Quantity → its column, or the two columns whose ratio it is.
QUANTITIES: dict[str, tuple[str, ...]] = {
    ADMITTED: ("spot_admitted", "spot_requests"),
    EVICTED: ("evicted", "spot_admitted"),
    ON_DEMAND: ("on_demand_admitted", "on_demand_requests"),
    WORK: ("spot_core_hours_completed", "spot_core_hours_requested"),
    WORK_OF_BASELINE: ("spot_core_hours_completed", "spot_core_hours_baseline"),
    LIFETIME_S: ("quantile_s",),
    SAMPLES: ("samples",),
}

#: Rules of figure-1: no SLA at all, the papers' text taken literally, and ours.
UNAWARE, LITERAL, STRICT, POPULATION = "unaware", "papers", "strict", "population"


@dataclass(frozen=True)
class PublishedNumber:
    """One printed number.

    value: as printed, so that its digits say how exact it is. of: columns and values of the rows that it
    describes. spread: half the width of the interval printed with it, 0 where none is.
    """

    experiment: str
    where: str
    quantity: str
    value: str
    of: Mapping[str, Any]
    spread: float = 0.0

    @property
    def number(self) -> float:
        """Value as a number."""
        return float(self.value)

    @property
    def tolerance(self) -> float:
        """Largest distance of a number that would be printed like this one, or lies in its interval."""
        digits = len(self.value.partition(".")[2])
        return max(self.spread, 0.5 * 10.0**-digits)

    def values(self, rows: Sequence[Row]) -> list[float]:
        """Return the quantity in each row that this number describes."""
        own = [row for row in where(rows, **self.of) if self.of.keys() <= row.keys()]
        return [value for row in own if (value := quantity(row, self.quantity)) is not None]


def quantity(row: Row, name: str) -> float | None:
    """Return a quantity of a row; None where its denominator is 0."""
    above, *below = QUANTITIES[name]
    if not below:
        return None if row[above] is None else float(row[above])
    return float(row[above] / row[below[0]]) if row[below[0]] else None


def drawn(row: Row, name: str) -> float:
    """Return a quantity of a row for a picture: NaN where there is none."""
    value = quantity(row, name)
    return math.nan if value is None else value


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of independent runs and half the width of its normal 95 % interval (0 for one run)."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, 1.96 * math.sqrt(variance / len(values))


def of_experiment(experiment: str, quantity: str | None = None) -> list[PublishedNumber]:
    """Return the published numbers of an experiment, of all quantities or of one."""
    return [
        number
        for number in FIGURES
        if number.experiment == experiment and quantity in {None, number.quantity}
    ]


def beside(experiment: str, rows: Sequence[Row]) -> list[Row]:
    """Return each published number of an experiment that ``rows`` answer, beside ours.

    Columns: source, quantity, of, published (as printed), spread, ours (mean over the runs), ours_plus_minus
    (half the width of its 95 % interval), lowest, highest, runs.
    """
    comparisons: list[Row] = []
    for figure in of_experiment(experiment):
        values = figure.values(rows)
        if not values:
            continue
        mean, half = interval(values)
        comparisons.append({
            "source": figure.where, "quantity": figure.quantity,
            "of": ", ".join(f"{name} {_shown(value)}" for name, value in figure.of.items()),
            "published": figure.value, "spread": figure.spread, "ours": mean, "ours_plus_minus": half,
            "lowest": min(values), "highest": max(values), "runs": len(values),
        })  # fmt: skip
    return comparisons


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _figure_1() -> list[PublishedNumber]:
    """List P1 §III-A, P2 §3.1, and docs/design/prediction.md "On the papers' production traces"."""
    name, papers, expected = "figure-1", "P1 Fig. 1 (§III-A), P2 Fig. 1 (§3.1)", DESIGN
    unaware: Mapping[str, Any] = {"rule": UNAWARE, "sla": None}
    figures = [
        PublishedNumber(name, papers, ADMITTED, "0.70", unaware),
        PublishedNumber(name, papers, EVICTED, "0.39", unaware),
        PublishedNumber(name, expected, ADMITTED, "0.708", unaware, 0.009),
        PublishedNumber(name, expected, EVICTED, "0.386", unaware, 0.014),
    ]
    for rule in (LITERAL, STRICT, POPULATION):
        figures += [
            PublishedNumber(name, papers, ADMITTED, "0.60", {"rule": rule, "sla": 0.25}),
            PublishedNumber(name, papers, EVICTED, "0.09", {"rule": rule, "sla": 0.25}),
        ]
    for sla, admitted, evicted in (
        (0.25, "0.60", "0.065"),
        (0.10, "0.566", "0.020"),
        (0.05, "0.521", "0.008"),
        (0.01, "0.431", "0.0012"),
    ):
        figures.append(PublishedNumber(name, expected, ADMITTED, admitted, {"rule": STRICT, "sla": sla}))
        figures.append(PublishedNumber(name, expected, EVICTED, evicted, {"rule": STRICT, "sla": sla}))
    return figures


def _figures_2_3() -> list[PublishedNumber]:
    """List P1 §III-B, P2 §3.2: quantiles at 15 free slots, and the counts of samples."""
    name, where = "figures-2-3", "P1 Fig. 3 (§III-B), P2 Fig. 3 (§3.2)"
    figures = [
        PublishedNumber(
            name, where, LIFETIME_S, value, {"rank": rank, "free_slots": 15, "quantile": quantile}
        )
        for rank in ("exact", "always youngest")
        for quantile, value in ((0.01, "900"), (0.05, "1500"), (0.25, "3200"))
    ]
    figures += [
        PublishedNumber(
            name, "P1 Fig. 2 (§III-B), P2 Fig. 2 (§3.2)", SAMPLES, "10000",
            {"rank": "exact", "free_slots": slots, "quantile": 0.01},
        )
        for slots in (2, 3, 4)
    ]  # fmt: skip
    return figures


PAIRS = ("A-B", "B-A", "C-D", "D-C")
#: P1 Tables III and IV, P2 Tables 3 and 4: SLA → quantity → by pair.
_TABLES: dict[float | None, dict[str, tuple[str, str, str, str]]] = {
    None: {
        ON_DEMAND: ("0.977", "1.000", "1.000", "0.997"),
        ADMITTED: ("1.000", "0.850", "0.943", "0.963"),
        EVICTED: ("0.013", "0.024", "0.016", "0.013"),
    },
    0.01: {
        ON_DEMAND: ("0.977", "1.000", "1.000", "0.999"),
        ADMITTED: ("0.884", "0.757", "0.491", "0.278"),
        EVICTED: ("0.009", "0.000", "0.002", "0.006"),
    },
}


def _tables_3_4() -> list[PublishedNumber]:
    figures = [
        PublishedNumber("tables-3-4", where, what, value, {"pair": pair, "sla": sla})
        for sla, where in ((None, "P1 Table III, P2 Table 3"), (0.01, "P1 Table IV, P2 Table 4"))
        for what, values in _TABLES[sla].items()
        for pair, value in zip(PAIRS, values, strict=True)
    ]
    figures += [
        PublishedNumber("tables-3-4", "P2 §3.6", what, "0.54", {"pair": "D-C", "sla": 0.01})
        for what in (WORK, WORK_OF_BASELINE)  # "of the total spot work": of which total, it does not say
    ]
    return figures


#: P1 Figure 7, whose bars carry their numbers: nodes of C-D → on-demand admitted, spot admitted, evicted.
_FIGURE_7 = {
    ("31x32", None): ("1.000", "0.943", "0.016"),
    ("31x32", 0.01): ("1.000", "0.491", "0.002"),
    ("26x32", 0.01): ("1.000", "0.437", "0.002"),
    ("21x32", 0.01): ("0.968", "0.463", "0.004"),
    ("16x32", 0.01): ("0.938", "0.490", "0.002"),
}


def _scaling() -> list[PublishedNumber]:
    figures = [
        PublishedNumber("scaling", "P1 Fig. 7", what, value, {"pair": "C-D", "nodes": nodes, "sla": sla})
        for (nodes, sla), values in _FIGURE_7.items()
        for what, value in zip((ON_DEMAND, ADMITTED, EVICTED), values, strict=True)
    ]
    missed = {"pair": "B-A", "nodes": "6x8", "sla": 0.01}
    figures.append(PublishedNumber("scaling", "P2 Fig. 8 (§3.5)", EVICTED, "0.012", missed))
    return figures


FIGURES: tuple[PublishedNumber, ...] = (*_figure_1(), *_figures_2_3(), *_tables_3_4(), *_scaling())

#: docs/design/prediction.md "On the papers' production traces": on-demand requests in the trace.
REQUESTS = {"A": 900, "B": 2600, "C": 8456, "D": 4157}
#: docs/design/prediction.md "On the papers' production traces": (pair, nodes) → on-demand admitted, spot
#: admitted, evicted.
BASELINE_COUNTS: dict[tuple[str, str], tuple[int, int, int]] = {
    ("A-B", "7x12"): (899, 2600, 9),
    ("A-B", "6x12"): (879, 2599, 29),
    ("A-B", "5x12"): (833, 2568, 61),
    ("A-B", "4x12"): (763, 2483, 64),
    ("B-A", "7x8"): (2600, 760, 9),
    ("B-A", "6x8"): (2600, 731, 17),
    ("B-A", "5x8"): (2595, 704, 35),
    ("B-A", "4x8"): (2579, 680, 49),
    ("C-D", "31x32"): (8456, 3482, 48),
    ("C-D", "26x32"): (8453, 3405, 67),
    ("C-D", "21x32"): (8361, 3118, 53),
    ("C-D", "16x32"): (8110, 2847, 77),
    ("D-C", "31x32"): (4157, 8177, 96),
    ("D-C", "26x32"): (4143, 7989, 125),
    ("D-C", "21x32"): (4105, 7766, 121),
    ("D-C", "16x32"): (3913, 6030, 287),
}
