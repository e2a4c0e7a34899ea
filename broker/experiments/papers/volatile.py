"""P3: the printed numbers of the study of volatile resources.

The prices of its four exemplars are gone. What it prints of them is judged on pools that are made in their
shapes, over several draws; what it prints of all pools, on the pools recorded in 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

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
from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL
from cloudsim.experiments.experiment import Row, distinct, where
from cloudsim.experiments.volatile.ordinal import ordinal
from cloudsim.experiments.volatile.recorded_pools import paper_way
from cloudsim.experiments.volatile.runs import INTERVALS, MODELS, POLICIES, VALUE, names
from cloudsim.volatile.synthetic import EXEMPLARS, PUBLISHED

_SIMPLE, _EXEMPLARS, _RECORDED = "volatile-simple", "volatile-exemplars", "volatile-policies"
_POOLS, _OTHERS, _STABLE = "lifo-pools", ("random", "fifo", "lifo"), ("stable-1", "stable-2")
_MADE = "made pools"
#: Name of an exemplar here → in the paper.
_TITLES = {"stable-1": "Stable 1", "stable-2": "Stable 2", "periodic": "Periodic", "unstable": "Unstable"}
#: Models that disclose a statistic.
_STATISTICS = ("p10", "p90")

#: A number of one draw of the made pools.
_OfDraw = Callable[[Rows], float]


def _draws(measure: _OfDraw) -> Callable[[Rows], Ours]:
    """Return a number over the draws of the made pools."""

    def ours(rows: Rows) -> Ours:
        return runs(
            [measure(where(rows, window=draw)) for draw in distinct(select(rows, row=VALUE), "window")],
            "draws",
        )

    return ours


def _value(rows: Rows, pool: str, policy: str, function: str = LINEAR.name) -> Row:
    return select(rows, row=VALUE, pool=pool, policy=policy, value_function=function)[0]


def _of_oracle(rows: Rows, pool: str, policy: str, model: str, function: str = LINEAR.name) -> float:
    return float(_value(rows, pool, policy, function)[f"of_oracle_{model}"])


def _length(rows: Rows, pool: str, policy: str, column: str) -> float:
    return float(select(rows, row=INTERVALS, pool=pool, policy=policy, band=None)[0][column])


def _length_ratio(pool: str, column: str, above: str, below: str) -> _OfDraw:
    return lambda rows: _length(rows, pool, above, column) / max(_length(rows, pool, below, column), 1)


def _pools_over_others(pool: str, column: str) -> _OfDraw:
    """Return a column under LIFO-pools over that of the best other policy."""
    return lambda rows: (
        float(_value(rows, pool, _POOLS)[column])
        / max(float(_value(rows, pool, policy)[column]) for policy in _OTHERS)
    )


def _gain(measure: _OfDraw) -> _OfDraw:
    return lambda rows: measure(rows) - 1


def _best_model(pool: str, policy: str) -> _OfDraw:
    return lambda rows: max(_of_oracle(rows, pool, policy, model) for model in MODELS)


def _one(pool: str, policy: str, model: str) -> _OfDraw:
    return lambda rows: _of_oracle(rows, pool, policy, model)


def _over_cases(
    pick: Callable[[Sequence[float]], float],
    above: Sequence[str],
    below: Sequence[str],
    *,
    pools: Sequence[str] = tuple(EXEMPLARS),
    policies: Sequence[str] = POLICIES,
) -> _OfDraw:
    """Pick from the best of some models over the best of others, in cases of a pool and a policy."""

    def measure(rows: Rows) -> float:
        return pick([
            max(_of_oracle(rows, pool, policy, model) for model in above)
            / max(_of_oracle(rows, pool, policy, model) for model in below)
            for pool in pools
            for policy in policies
        ])  # fmt: skip

    return measure


def _over_statistics(pick: Callable[[Sequence[float]], float]) -> _OfDraw:
    """Pick from the gains of LIFO and LIFO-pools on Stable 1 with one statistic over MTTR."""
    cases = [
        _over_cases(pick, (model,), ("mttr",), pools=("stable-1",), policies=("lifo", _POOLS))
        for model in _STATISTICS
    ]
    return lambda rows: pick([case(rows) for case in cases])


def _largest_over_least(rows: Rows) -> float:
    """Return the largest ratio of two information models under one policy."""
    return max(
        max(values) / min(values)
        for pool in EXEMPLARS
        for policy in POLICIES
        for values in [[_of_oracle(rows, pool, policy, model) for model in MODELS]]
    )


def _policy_ratio(
    pick: Callable[[Sequence[float]], float],
    above: Sequence[str],
    below: Sequence[str],
    *,
    pools: Sequence[str] = tuple(EXEMPLARS),
    models: Sequence[str] = MODELS,
) -> _OfDraw:
    """Pick from the ratios of two policies' values under one model of one pool."""

    def measure(rows: Rows) -> float:
        return pick([
            _of_oracle(rows, pool, one, model) / _of_oracle(rows, pool, other, model)
            for pool in pools
            for model in models
            for one in above
            for other in below
        ])  # fmt: skip

    return measure


def _polynomial(pick: Callable[[Sequence[float]], float]) -> _OfDraw:
    return lambda rows: pick([
        _of_oracle(rows, pool, policy, model, POLYNOMIAL.name)
        for pool in EXEMPLARS
        for policy in POLICIES
        for model in ("p90", "full")
    ])  # fmt: skip


def _targets(pool: str) -> _OfDraw:
    """Return the longest target of LIFO-pools over that of the other policies, under the best model."""

    def longest(rows: Rows, policy: str, model: str) -> float:
        return max(target or 0.0 for target in _value(rows, pool, policy)[f"targets_minutes_{model}"])

    return lambda rows: max(
        longest(rows, _POOLS, model) / max(longest(rows, policy, model) for policy in _OTHERS)
        for model in MODELS
    )


def _worth(rows: Rows) -> dict[str, float]:
    """Return pool → value by hour of a unit under Random with full information, over that of the best."""
    worth = {pool: float(_value(rows, pool, "random")["per_unit_hour_full"]) for pool in EXEMPLARS}
    return {pool: value / max(worth.values()) for pool, value in worth.items()}


def _p90_wins(rows: Rows) -> float:
    others = [model for model in MODELS if model != "full"]
    return sum(
        max(others, key=lambda model: float(_value(rows, pool, "random")[f"per_unit_hour_{model}"])) == "p90"
        for pool in EXEMPLARS
    )


def _made(
    where: str, what: str, text: str, measure: _OfDraw, *, within: Bounds | None = None, fitted: bool = False
) -> PrintedNumber:
    return PrintedNumber(
        where, what, text, _EXEMPLARS, _draws(measure), reading=_MADE, within=within, fitted=fitted
    )


def _hours(pool: str) -> _OfDraw:
    """Return the hours of all units, which are those of the intervals of any policy."""
    return lambda rows: _length(rows, pool, "fifo", "unit_hours")


def _intervals(pool: str, policy: str) -> _OfDraw:
    return lambda rows: _length(rows, pool, policy, "intervals")


def _table_3() -> list[PrintedNumber]:
    numbers = []
    for pool, printed in PUBLISHED.items():
        hours = f"{printed.total_volatile_hours:.2e}".replace("e+0", "e")
        numbers.append(
            _made(
                "P3 Table 3", f"{_TITLES[pool]}: volatile hours", hours,
                _hours(pool),
                fitted=True, within=about(printed.total_volatile_hours),
            )
        )  # fmt: skip
        numbers += [
            _made(
                "P3 Table 3",
                f"{_TITLES[pool]}: intervals of {policy.upper() if policy != 'random' else 'Random'}",
                f"{count:,}",
                _intervals(pool, policy),
                fitted=True, within=about(count),
            )
            for policy, count in zip(_OTHERS, printed.intervals, strict=True)
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
            (float(row[f"of_oracle_{model}"]), row["policy"] in {"lifo", _POOLS})
            for row in where(own, pool=pool, window=window)
            for model in ("mttr", *_STATISTICS)
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
    _made(
        "P3 abstract", "Stable: gain of LIFO-pools over Random under MTTR, mean", "30 to 45 %",
        _gain(_policy_ratio(fmean, (_POOLS,), ("random",), pools=_STABLE, models=("mttr",))),
        within=Bounds(0.30, 0.45),
    ),
    _made(
        "P3 §1", "gain of LIFO-pools over Random under MTTR, largest of the exemplars", "80 %",
        _gain(_policy_ratio(max, (_POOLS,), ("random",), models=("mttr",))), within=about(0.8),
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
    _made(
        "P3 §5.1 and Figure 9", "Stable 1: deviation of LIFO over FIFO's", "1.3×",
        _length_ratio("stable-1", "std_minutes", "lifo", "fifo"),
    ),
    _made(
        "P3 §5.1 and Figure 9", "Stable 2: median of FIFO over LIFO's", "3×",
        _length_ratio("stable-2", "median_minutes", "fifo", "lifo"),
    ),
    _made(
        "P3 §5.1 and Figure 9", "Periodic: median of FIFO over LIFO's", "10×",
        _length_ratio("periodic", "median_minutes", "fifo", "lifo"), within=about(10),
    ),
    _made(
        "P3 §5.1 and Figure 9", "Periodic: mean minutes of Random, FIFO and LIFO", "∼1000",
        lambda rows: fmean(_length(rows, "periodic", policy, "mean_minutes") for policy in _OTHERS),
        within=about(1000),
    ),
    *(
        _made(
            "P3 §5.2 and Figure 10", f"{_TITLES[pool]}: gain of LIFO-pools over the best other, MTTR", "30 %",
            _gain(_pools_over_others(pool, "of_oracle_mttr")), within=about(0.3),
        )
        for pool in _STABLE
    ),
    *(
        _made(
            "P3 §5.3 and Figure 11", f"Stable 1: peak of {title}, of the Oracle", "0.55 to .67",
            _best_model("stable-1", policy), within=Bounds(0.55, 0.67),
        )
        for policy, title in (("random", "Random"), ("fifo", "FIFO"))
    ),
    _made(
        "P3 §5.3 and Figure 11", "Stable 1: LIFO, full over MTTR", "nearly 2×",
        _over_cases(max, ("full",), ("mttr",), pools=("stable-1",), policies=("lifo",)), within=about(2),
    ),
    *(
        _made(
            "P3 §5.3 and Figure 11", f"{_TITLES[pool]}: {title} with full, of the Oracle", text,
            _one(pool, policy, "full"), within=about(value),
        )
        for pool, policy, title, text, value in (
            ("stable-1", "lifo", "LIFO", "nearly 0.90", 0.9),
            ("stable-1", _POOLS, "LIFO-pools", "0.90", 0.9),
            ("stable-2", "lifo", "LIFO", "0.85", 0.85),
            ("stable-2", _POOLS, "LIFO-pools", "0.85", 0.85),
            ("periodic", _POOLS, "LIFO-pools", "nearly 0.90", 0.9),
        )
    ),
    _made(
        "P3 §5.3 and Figure 11", "Unstable: peak with full, of the Oracle", "0.67",
        lambda rows: max(_of_oracle(rows, "unstable", policy, "full") for policy in POLICIES),
        within=about(0.67),
    ),
    _made(
        "P3 §5.3 and Figure 11", "Unstable: 90pctile, of the Oracle, mean of policies", "around 0.45",
        lambda rows: fmean(_of_oracle(rows, "unstable", policy, "p90") for policy in POLICIES),
        within=about(0.45),
    ),
    _made(
        "P3 §5.3", "one model over another under one policy, largest", "more than 10-fold",
        _largest_over_least,
        within=at_least(10),
    ),
    _made(
        "P3 §5.3", "full over the next best model, largest", "up to 1.5×",
        _over_cases(max, ("full",), [model for model in MODELS if model != "full"]), within=about(1.5),
    ),
    _made(
        "P3 §5.3 and Figure 12", "hours^1.5: least of 90pctile and full, of the Oracle", "50 %",
        _polynomial(min), within=about(0.5),
    ),
    _made(
        "P3 §5.3 and Figure 12", "hours^1.5: most of 90pctile and full, of the Oracle", "as much as 90 %",
        _polynomial(max), within=about(0.9),
    ),
    _made(
        "P3 §5.4 and Figure 13", "Stable 1: a policy over Random, largest", "up to 1.7×",
        _policy_ratio(max, POLICIES[1:], ("random",), pools=("stable-1",)), within=about(1.7),
    ),
    _made(
        "P3 §5.4 and Figure 13", "Stable 1: LIFO-pools over Random, mean of models", "1.5×",
        _policy_ratio(fmean, (_POOLS,), ("random",), pools=("stable-1",)), within=about(1.5),
    ),
    *(
        _made(
            "P3 §5.4 and Figure 13", f"Stable 1: LIFO and LIFO-pools with a statistic over MTTR, {title}",
            text,
            _over_statistics(pick),
            within=about(value),
        )
        for pick, title, text, value in ((min, "least", "1.2×", 1.2), (max, "most", "1.45×", 1.45))
    ),
    _made(
        "P3 §5.4 and Figure 13", "Stable 1: gain of 90pctile over MTTR, largest", "up to 45 %",
        _gain(_over_cases(max, ("p90",), ("mttr",), pools=("stable-1",))), within=about(0.45),
    ),
    _made(
        "P3 §5.5", "LIFO or FIFO over Random, largest", "more than 2×",
        _policy_ratio(max, ("lifo", "fifo"), ("random",)), within=at_least(2),
    ),
    _made(
        "P3 §1, §5.5", "LIFO-pools over LIFO or FIFO, largest", "up to 2-10×",
        _policy_ratio(max, (_POOLS,), ("lifo", "fifo")), within=Bounds(2.0, 11.0),
    ),
    _made(
        "P3 §5.5", "gain of 90pctile over MTTR, least", "10 %", _gain(_over_cases(min, ("p90",), ("mttr",))),
        within=about(0.1),
    ),
    _made(
        "P3 §5.5", "90pctile over MTTR, largest", "as much as 5×", _over_cases(max, ("p90",), ("mttr",)),
        within=about(5),
    ),
    _made(
        "P3 §5.5", "full over MTTR, largest", "as much as 10×", _over_cases(max, ("full",), ("mttr",)),
        within=about(10),
    ),
    *_ordinals(),
    PrintedNumber(
        "P3 §5.6", "LIFO or LIFO-pools is best, full excluded", "more than 80 %", _RECORDED,
        _lifo_without_full,
        within=at_least(0.8), reading="recorded pools",
    ),
    *(
        _made(
            "P3 §6.1 and Figure 15", f"{_TITLES[pool]}: longest target of LIFO-pools over the others'", text,
            _targets(pool), within=about(value),
        )
        for pool, text, value in (("stable-1", "up to 1.6×", 1.6), ("stable-2", "1.75×", 1.75))
    ),
    *(
        _made(
            "P3 §6.2 and Figure 16", f"{_TITLES[pool]}: success of LIFO-pools over the best other, MTTR",
            text,
            _pools_over_others(pool, "success_mttr"), within=about(value),
        )
        for pool, text, value in (("stable-1", "nearly 2×", 2), ("stable-2", "approximately 1.5×", 1.5))
    ),
    _made(
        "P3 §6.3 and Figure 17", "Unstable: value by hour below the best pool's", "nearly 30 %",
        lambda rows: 1 - _worth(rows)["unstable"], within=about(0.3),
    ),
    _made(
        "P3 §6.3 and Figure 17", "the other three: value by hour below the best pool's, most", "< 10 %",
        lambda rows: 1 - min(worth for pool, worth in _worth(rows).items() if pool != "unstable"),
        within=at_most(0.1),
    ),
    _made("P3 §6.3 and Figure 17", "exemplars of 4 where 90pctile is the best but full", "4", _p90_wins),
    _made(
        "P3 §8", "one policy over another under one model, largest", "up to ∼2×",
        _policy_ratio(max, POLICIES, POLICIES), within=about(2),
    ),
    _made("P3 §8", "one model over another, largest", "up to ∼20×", _largest_over_least, within=about(20)),
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
