"""P3: the printed numbers of the study of volatile resources.

The prices of its four exemplars are gone. What it prints of them is judged on recorded pools of 2015 that
come nearest, and beside that on several draws of pools made in their shapes; what it prints of all pools, on
all pools recorded in 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from statistics import fmean, median

from broker.experiments.papers.number import (
    Bounds,
    NotComputed,
    Ours,
    PrintedNumber,
    Rows,
    about,
    at_least,
    at_most,
    mean,
    runs,
    select,
    share,
)
from cloudsim.disclosure.targeting import LINEAR
from cloudsim.experiments.experiment import distinct, where
from cloudsim.experiments.volatile.exemplars import MADE
from cloudsim.experiments.volatile.measures import (
    LIFO_POOLS,
    OTHERS,
    PERIODIC,
    STABLE,
    STATISTICS,
    UNSTABLE,
    Measure,
    best_model,
    gain,
    intervals,
    largest_over_least,
    length,
    length_ratio,
    longest_target,
    of_oracle,
    over_cases,
    over_statistics,
    p90_wins,
    policy_ratio,
    polynomial_share,
    pools_over_others,
    share_of_oracle,
    unit_hours,
    worth_by_hour,
)
from cloudsim.experiments.volatile.ordinal import ordinal
from cloudsim.experiments.volatile.recorded_pools import paper_way
from cloudsim.experiments.volatile.runs import MODELS, POLICIES, VALUE, names
from cloudsim.volatile.managers import Renewal
from cloudsim.volatile.synthetic import PUBLISHED

_SIMPLE, _EXEMPLARS, _RECORDED = "volatile-simple", "volatile-exemplars", "volatile-policies"
#: Name of an exemplar here → in the paper.
_TITLES = {"stable-1": "Stable 1", "stable-2": "Stable 2", "periodic": "Periodic", "unstable": "Unstable"}


def _on_made(measure: Measure) -> Callable[[Rows], Ours]:
    """Return a measure over the draws of the made pools."""

    def ours(rows: Rows) -> Ours:
        own = select(rows, source=MADE, renewal=Renewal.SLOT.value)
        return runs([measure(where(own, window=draw)) for draw in distinct(own, "window")], "draws")

    return ours


def _on_recorded(measure: Measure) -> Callable[[Rows], Ours]:
    """Return the median of a measure over the sets of recorded pools that stand for the exemplars."""

    def ours(rows: Rows) -> Ours:
        own = select(rows, source="2015", renewal=Renewal.SLOT.value)
        return Ours(median(measure(where(own, quartet=quartet)) for quartet in distinct(own, "quartet")))

    return ours


def _exemplars(
    where: str, what: str, text: str, measure: Measure, *, within: Bounds | None = None
) -> tuple[PrintedNumber, PrintedNumber]:
    """Return a number of the exemplars as the recorded pools have it, and as the made ones do."""
    recorded = PrintedNumber(where, what, text, _EXEMPLARS, _on_recorded(measure), within, "recorded sets")
    return recorded, replace(recorded, ours=_on_made(measure), reading="made pools")


def _fitted(what: str, text: str, measure: Measure, printed: float) -> PrintedNumber:
    return PrintedNumber(
        "P3 Table 3", what, text, _EXEMPLARS, _on_made(measure), about(printed), "made pools", fitted=True
    )


def _table_3() -> list[PrintedNumber]:
    numbers = []
    for pool, printed in PUBLISHED.items():
        hours = f"{printed.total_volatile_hours:.2e}".replace("e+0", "e")
        title = _TITLES[pool]
        numbers.append(
            _fitted(f"{title}: volatile hours", hours, unit_hours(pool), printed.total_volatile_hours)
        )
        numbers += [
            _fitted(
                f"{title}: intervals of {policy.upper() if policy != 'random' else 'Random'}",
                f"{count:,}", intervals(pool, policy), count,
            )
            for policy, count in zip(OTHERS, printed.intervals, strict=True)
        ]  # fmt: skip
    return numbers


def _simple(column: str, pick: Callable[[Rows], float]) -> Callable[[Rows], Ours]:
    return lambda rows: Ours(pick(select(rows, row=column)))


def _ordinal(line: int) -> Callable[[Rows], Ours]:
    def ours(rows: Rows) -> Ours:
        row = ordinal(select(paper_way(rows)))[line]
        return share(row["count"], row["pools"])

    return ours


def _ordinals() -> list[PrintedNumber]:
    texts = ("98.5 %", "77 %", "82 %", "84 %", "85 %", "42 %", "47 %", "3.2 %", "2.9 %")
    lines = ordinal([])
    return [
        PrintedNumber(
            "P3 §5.6",
            f"{row['configuration']} is {row['relation']}{'' if row['full'] else ', full excluded'}",
            text, _RECORDED, _ordinal(line), reading="recorded pools",
        )
        for line, (row, text) in enumerate(zip(lines, texts, strict=True))
    ]  # fmt: skip


def _lifo_without_full(rows: Rows) -> Ours:
    """Count the pools where LIFO or LIFO-pools is best when full information is excluded."""
    own = select(paper_way(rows), row=VALUE, value_function=LINEAR.name)
    best = [
        max(
            (float(row[f"of_oracle_{model}"]), row["policy"] in {"lifo", LIFO_POOLS})
            for row in where(own, pool=pool, window=window)
            for model in ("mttr", *STATISTICS)
        )[1]
        for pool, window in names(own)
    ]
    return share(sum(best), len(best))


def _success_of_mttr(rows: Rows) -> Ours:
    own = select(paper_way(rows), row=VALUE, value_function=LINEAR.name)
    return mean(
        [
            fmean(row["success_mttr"] for row in where(own, pool=pool, window=window))
            for pool, window in names(own)
        ],
        "pools",
    )


def _fifo_median(rows: Rows) -> float:
    return float(select(rows, policy="fifo")[0]["median_minutes"])


NUMBERS: tuple[PrintedNumber, ...] = (
    *_exemplars(
        "P3 abstract", "Stable: gain of LIFO-pools over Random under MTTR, mean", "30 to 45 %",
        gain(policy_ratio(fmean, (LIFO_POOLS,), ("random",), pools=STABLE, models=("mttr",))),
        within=Bounds(0.30, 0.45),
    ),
    *_exemplars(
        "P3 §1", "gain of LIFO-pools over Random under MTTR, largest of the exemplars", "80 %",
        gain(policy_ratio(max, (LIFO_POOLS,), ("random",), models=("mttr",))), within=about(0.8),
    ),
    PrintedNumber(
        "P3 §3.3 and Figure 6", "daily ramp: least units", "2,500", _SIMPLE,
        _simple("profile", lambda rows: min(row["units"] for row in rows)), fitted=True,
    ),
    PrintedNumber(
        "P3 §3.3 and Figure 6", "daily ramp: minutes of FIFO's intervals, median", "1,800", _SIMPLE,
        _simple("lengths", _fifo_median),
    ),
    PrintedNumber(
        "P3 §4.2", "success of a target of 0.9 × mean", "67 %", _RECORDED, _success_of_mttr,
        within=about(0.67),
        reading="recorded pools; by its own assumption it would be 84 %",
    ),
    *_table_3(),
    *_exemplars(
        "P3 §5.1 and Figure 9", "Stable 1: deviation of LIFO over FIFO's", "1.3×",
        length_ratio("stable-1", "std_minutes", "lifo", "fifo"),
    ),
    *_exemplars(
        "P3 §5.1 and Figure 9", "Stable 2: median of FIFO over LIFO's", "3×",
        length_ratio("stable-2", "median_minutes", "fifo", "lifo"),
    ),
    *_exemplars(
        "P3 §5.1 and Figure 9", "Periodic: median of FIFO over LIFO's", "10×",
        length_ratio("periodic", "median_minutes", "fifo", "lifo"), within=about(10),
    ),
    *_exemplars(
        "P3 §5.1 and Figure 9", "Periodic: mean minutes of Random, FIFO and LIFO", "∼1000",
        lambda rows: fmean(length(rows, "periodic", policy, "mean_minutes") for policy in OTHERS),
        within=about(1000),
    ),
    *chain.from_iterable(
        _exemplars(
            "P3 §5.2 and Figure 10", f"{_TITLES[pool]}: gain of LIFO-pools over the best other, MTTR", "30 %",
            gain(pools_over_others(pool, "of_oracle_mttr")), within=about(0.3),
        )
        for pool in STABLE
    ),
    *chain.from_iterable(
        _exemplars(
            "P3 §5.3 and Figure 11", f"Stable 1: peak of {title}, of the Oracle", "0.55 to .67",
            best_model("stable-1", policy), within=Bounds(0.55, 0.67),
        )
        for policy, title in (("random", "Random"), ("fifo", "FIFO"))
    ),
    *_exemplars(
        "P3 §5.3 and Figure 11", "Stable 1: LIFO, full over MTTR", "nearly 2×",
        over_cases(max, ("full",), ("mttr",), pools=("stable-1",), policies=("lifo",)), within=about(2),
    ),
    *chain.from_iterable(
        _exemplars(
            "P3 §5.3 and Figure 11", f"{_TITLES[pool]}: {title} with full, of the Oracle", text,
            share_of_oracle(pool, policy, "full"), within=about(value),
        )
        for pool, policy, title, text, value in (
            ("stable-1", "lifo", "LIFO", "nearly 0.90", 0.9),
            ("stable-1", LIFO_POOLS, "LIFO-pools", "0.90", 0.9),
            ("stable-2", "lifo", "LIFO", "0.85", 0.85),
            ("stable-2", LIFO_POOLS, "LIFO-pools", "0.85", 0.85),
            ("periodic", LIFO_POOLS, "LIFO-pools", "nearly 0.90", 0.9),
        )
    ),
    *_exemplars(
        "P3 §5.3 and Figure 11", "Unstable: peak with full, of the Oracle", "0.67",
        lambda rows: max(of_oracle(rows, "unstable", policy, "full") for policy in POLICIES),
        within=about(0.67),
    ),
    *_exemplars(
        "P3 §5.3 and Figure 11", "Unstable: 90pctile, of the Oracle, mean of policies", "around 0.45",
        lambda rows: fmean(of_oracle(rows, "unstable", policy, "p90") for policy in POLICIES),
        within=about(0.45),
    ),
    *_exemplars(
        "P3 §5.3", "one model over another under one policy, largest", "more than 10-fold",
        largest_over_least,
        within=at_least(10),
    ),
    *_exemplars(
        "P3 §5.3", "full over the next best model, largest", "up to 1.5×",
        over_cases(max, ("full",), [model for model in MODELS if model != "full"]), within=about(1.5),
    ),
    *_exemplars(
        "P3 §5.3 and Figure 12", "hours^1.5: least of 90pctile and full, of the Oracle", "50 %",
        polynomial_share(min), within=about(0.5),
    ),
    *_exemplars(
        "P3 §5.3 and Figure 12", "hours^1.5: most of 90pctile and full, of the Oracle", "as much as 90 %",
        polynomial_share(max), within=about(0.9),
    ),
    *_exemplars(
        "P3 §5.4 and Figure 13", "Stable 1: a policy over Random, largest", "up to 1.7×",
        policy_ratio(max, POLICIES[1:], ("random",), pools=("stable-1",)), within=about(1.7),
    ),
    *_exemplars(
        "P3 §5.4 and Figure 13", "Stable 1: LIFO-pools over Random, mean of models", "1.5×",
        policy_ratio(fmean, (LIFO_POOLS,), ("random",), pools=("stable-1",)), within=about(1.5),
    ),
    *chain.from_iterable(
        _exemplars(
            "P3 §5.4 and Figure 13", f"Stable 1: LIFO and LIFO-pools with a statistic over MTTR, {title}",
            text,
            over_statistics(pick),
            within=about(value),
        )
        for pick, title, text, value in ((min, "least", "1.2×", 1.2), (max, "most", "1.45×", 1.45))
    ),
    *_exemplars(
        "P3 §5.4 and Figure 13", "Stable 1: gain of 90pctile over MTTR, largest", "up to 45 %",
        gain(over_cases(max, ("p90",), ("mttr",), pools=("stable-1",))), within=about(0.45),
    ),
    *_exemplars(
        "P3 §5.5", "LIFO or FIFO over Random, largest", "more than 2×",
        policy_ratio(max, ("lifo", "fifo"), ("random",)), within=at_least(2),
    ),
    *_exemplars(
        "P3 §1, §5.5", "LIFO-pools over LIFO or FIFO, largest", "up to 2-10×",
        policy_ratio(max, (LIFO_POOLS,), ("lifo", "fifo")), within=Bounds(2.0, 11.0),
    ),
    *_exemplars(
        "P3 §5.5", "gain of 90pctile over MTTR, least", "10 %", gain(over_cases(min, ("p90",), ("mttr",))),
        within=about(0.1),
    ),
    *_exemplars(
        "P3 §5.5", "90pctile over MTTR, largest", "as much as 5×", over_cases(max, ("p90",), ("mttr",)),
        within=about(5),
    ),
    *_exemplars(
        "P3 §5.5", "full over MTTR, largest", "as much as 10×", over_cases(max, ("full",), ("mttr",)),
        within=about(10),
    ),
    *_ordinals(),
    PrintedNumber(
        "P3 §5.6", "LIFO or LIFO-pools is best, full excluded", "more than 80 %", _RECORDED,
        _lifo_without_full,
        within=at_least(0.8), reading="recorded pools",
    ),
    *chain.from_iterable(
        _exemplars(
            "P3 §6.1 and Figure 15", f"{_TITLES[pool]}: longest target of LIFO-pools over the others'", text,
            longest_target(pool), within=about(value),
        )
        for pool, text, value in (("stable-1", "up to 1.6×", 1.6), ("stable-2", "1.75×", 1.75))
    ),
    *chain.from_iterable(
        _exemplars(
            "P3 §6.2 and Figure 16", f"{_TITLES[pool]}: success of LIFO-pools over the best other, MTTR",
            text,
            pools_over_others(pool, "success_mttr"), within=about(value),
        )
        for pool, text, value in (("stable-1", "nearly 2×", 2), ("stable-2", "approximately 1.5×", 1.5))
    ),
    *_exemplars(
        "P3 §6.3 and Figure 17", "Unstable: value by hour below the best pool's", "nearly 30 %",
        lambda rows: 1 - worth_by_hour(UNSTABLE)(rows), within=about(0.3),
    ),
    *_exemplars(
        "P3 §6.3 and Figure 17", "the other three: value by hour below the best pool's, most", "< 10 %",
        lambda rows: 1 - min(worth_by_hour(pool)(rows) for pool in (*STABLE, PERIODIC)),
        within=at_most(0.1),
    ),
    *_exemplars("P3 §6.3 and Figure 17", "exemplars of 4 where 90pctile is the best but full", "4", p90_wins),
    *_exemplars(
        "P3 §8", "one policy over another under one model, largest", "up to ∼2×",
        policy_ratio(max, POLICIES, POLICIES), within=about(2),
    ),
    *_exemplars(
        "P3 §8", "one model over another, largest", "up to ∼20×", largest_over_least, within=about(20)
    ),
)  # fmt: skip

NOT_COMPUTED: tuple[NotComputed, ...] = (
    NotComputed(
        "P3 Table 2", "dynamic range, mean and deviation of the exemplars' prices", 12,
        "the prices of 2017 can no longer be had; pools in their shapes stand for them",
    ),
    NotComputed(
        "P3 abstract, §2.3, §5 and §5.6", "608, 603 and 475 pools, 15.8 million prices", 4,
        "the prices of 2017 can no longer be had; 18 pools of 2015 are judged instead",
    ),
    NotComputed(
        "P3 Figures 8, 14 and 18 to 21", "volatility and period of pools; their mean value", 0,
        "dots and bars without numbers",
    ),
    NotComputed(
        "P3 §2.3 and §3", "5,000 units, 25,920 samples of 5 minutes, 5 pools, 48 hours", 0,
        "settings, which are our inputs",
    ),
    NotComputed("P3 Table 1", "what clouds sold in 2017", 0, "the providers' terms, not a result"),
)  # fmt: skip
