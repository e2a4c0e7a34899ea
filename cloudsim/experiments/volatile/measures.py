"""Measures of P3 on four pools that stand for its exemplars: each reads one number off their rows.

Statements (``exemplars``) and printed numbers (``broker.experiments.papers``) share them. The rows are those
of ``runs.pool_rows`` of one set of four pools, named as the exemplars are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL
from cloudsim.experiments.experiment import Row, where
from cloudsim.experiments.volatile.runs import INTERVALS, MODELS, POLICIES, VALUE
from cloudsim.volatile.synthetic import EXEMPLARS

Rows = Sequence[Row]
Measure = Callable[[Rows], float]

LIFO_POOLS = "lifo-pools"
#: The policies that know no pools.
OTHERS = ("random", "fifo", "lifo")
STABLE, PERIODIC, UNSTABLE = ("stable-1", "stable-2"), "periodic", "unstable"
#: Models that disclose a statistic.
STATISTICS = ("p10", "p90")


def value(rows: Rows, pool: str, policy: str, function: str = LINEAR.name) -> Row:
    """Return the row of value to users of a pool under a policy."""
    return where(rows, row=VALUE, pool=pool, policy=policy, value_function=function)[0]


def of_oracle(rows: Rows, pool: str, policy: str, model: str, function: str = LINEAR.name) -> float:
    """Return the share of the Oracle's value that users of a model get."""
    return float(value(rows, pool, policy, function)[f"of_oracle_{model}"])


def length(rows: Rows, pool: str, policy: str, column: str) -> float:
    """Return a column of the lengths of all intervals of a pool under a policy."""
    return float(where(rows, row=INTERVALS, pool=pool, policy=policy, band=None)[0][column])


def length_ratio(pool: str, column: str, above: str, below: str) -> Measure:
    """Return a column of lengths under one policy over that under another."""
    return lambda rows: length(rows, pool, above, column) / max(length(rows, pool, below, column), 1)


def pools_over_others(pool: str, column: str) -> Measure:
    """Return a column under LIFO-pools over that of the best other policy."""
    return lambda rows: (
        float(value(rows, pool, LIFO_POOLS)[column])
        / max(float(value(rows, pool, policy)[column]) for policy in OTHERS)
    )


def gain(measure: Measure) -> Measure:
    """Return a ratio less 1."""
    return lambda rows: measure(rows) - 1


def best_model(pool: str, policy: str) -> Measure:
    """Return the share of the Oracle's value under the best model."""
    return lambda rows: max(of_oracle(rows, pool, policy, model) for model in MODELS)


def share_of_oracle(pool: str, policy: str, model: str) -> Measure:
    """Return the share of the Oracle's value under one model."""
    return lambda rows: of_oracle(rows, pool, policy, model)


def over_cases(
    pick: Callable[[Sequence[float]], float],
    above: Sequence[str],
    below: Sequence[str],
    *,
    pools: Sequence[str] = tuple(EXEMPLARS),
    policies: Sequence[str] = POLICIES,
) -> Measure:
    """Pick from the best of some models over the best of others, in cases of a pool and a policy."""

    def measure(rows: Rows) -> float:
        return pick([
            max(of_oracle(rows, pool, policy, model) for model in above)
            / max(of_oracle(rows, pool, policy, model) for model in below)
            for pool in pools
            for policy in policies
        ])  # fmt: skip

    return measure


def over_statistics(pick: Callable[[Sequence[float]], float]) -> Measure:
    """Pick from the gains of LIFO and LIFO-pools on Stable 1 with one statistic over MTTR."""
    cases = [
        over_cases(pick, (model,), ("mttr",), pools=("stable-1",), policies=("lifo", LIFO_POOLS))
        for model in STATISTICS
    ]
    return lambda rows: pick([case(rows) for case in cases])


def largest_over_least(rows: Rows) -> float:
    """Return the largest ratio of two information models under one policy."""
    return max(
        max(values) / min(values)
        for pool in EXEMPLARS
        for policy in POLICIES
        for values in [[of_oracle(rows, pool, policy, model) for model in MODELS]]
    )


def policy_ratio(
    pick: Callable[[Sequence[float]], float],
    above: Sequence[str],
    below: Sequence[str],
    *,
    pools: Sequence[str] = tuple(EXEMPLARS),
    models: Sequence[str] = MODELS,
) -> Measure:
    """Pick from the ratios of two policies' values under one model of one pool."""

    def measure(rows: Rows) -> float:
        return pick([
            of_oracle(rows, pool, one, model) / of_oracle(rows, pool, other, model)
            for pool in pools
            for model in models
            for one in above
            for other in below
        ])  # fmt: skip

    return measure


def polynomial_share(pick: Callable[[Sequence[float]], float]) -> Measure:
    """Pick from the shares of the Oracle's value when hours^1.5 count, with 90pctile and full."""
    return lambda rows: pick([
        of_oracle(rows, pool, policy, model, POLYNOMIAL.name)
        for pool in EXEMPLARS
        for policy in POLICIES
        for model in ("p90", "full")
    ])  # fmt: skip


def longest_target(pool: str) -> Measure:
    """Return the longest target of LIFO-pools over that of the other policies, under the best model."""

    def longest(rows: Rows, policy: str, model: str) -> float:
        return max(target or 0.0 for target in value(rows, pool, policy)[f"targets_minutes_{model}"])

    return lambda rows: max(
        longest(rows, LIFO_POOLS, model) / max(longest(rows, policy, model) for policy in OTHERS)
        for model in MODELS
    )


def worth_by_hour(pool: str) -> Measure:
    """Return the value by hour of a unit under Random with full information, over that of the best pool."""

    def worth(rows: Rows, of: str) -> float:
        return float(value(rows, of, "random")["per_unit_hour_full"])

    return lambda rows: worth(rows, pool) / max(worth(rows, of) for of in EXEMPLARS)


def p90_wins(rows: Rows) -> float:
    """Count the pools where 90pctile makes an hour of a unit worth most, full aside."""
    others = [model for model in MODELS if model != "full"]
    return sum(
        max(others, key=lambda model: float(value(rows, pool, "random")[f"per_unit_hour_{model}"])) == "p90"
        for pool in EXEMPLARS
    )


def unit_hours(pool: str) -> Measure:
    """Return the hours of all units, which are those of the intervals of any policy."""
    return lambda rows: length(rows, pool, "fifo", "unit_hours")


def intervals(pool: str, policy: str) -> Measure:
    """Return the number of intervals."""
    return lambda rows: length(rows, pool, policy, "intervals")
