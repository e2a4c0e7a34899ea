"""P3 §5.6: the ordinal table, which counts the pools where a policy and a model do best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cloudsim.disclosure.levels import Disclosure
from cloudsim.disclosure.targeting import LINEAR
from cloudsim.experiments.experiment import Row, where
from cloudsim.experiments.volatile.runs import MODEL_NAMES, MODELS, POLICIES, POLICY_NAMES, VALUE
from cloudsim.volatile.managers import RevocationPolicy

#: Names of a policy and of a model, as in rows.
Configuration = tuple[str, str]

#: "Within 10% of best is defined as greater than or equal to (90% * best value achieved)" (§5.6).
WITHIN = 0.9

#: Tolerance: equal shares are sums in different orders.
_EQUAL = 1e-9


def configured(policy: RevocationPolicy, model: Disclosure) -> Configuration:
    """Return the names of a policy and a model, as in rows."""
    return policy.value, model.value


class Relation(NamedTuple):
    """A line of the table.

    full: whether the full distribution is among the models compared. paper: share of the 475 pools nearest to
    the two stable exemplars.
    """

    who: Configuration
    relation: str
    full: bool
    paper: float


RELATIONS = (
    Relation(configured(RevocationPolicy.LIFO_POOLS, Disclosure.FULL), "top 1", True, 0.985),
    Relation(configured(RevocationPolicy.LIFO_POOLS, Disclosure.P90), "top 2", False, 0.77),
    Relation(configured(RevocationPolicy.LIFO, Disclosure.P90), "top 2", False, 0.82),
    Relation(configured(RevocationPolicy.LIFO_POOLS, Disclosure.P90), "within 10 % of best", False, 0.84),
    Relation(configured(RevocationPolicy.LIFO, Disclosure.P90), "within 10 % of best", False, 0.85),
    Relation(configured(RevocationPolicy.FIFO, Disclosure.P10), "within 10 % of best", False, 0.42),
    Relation(configured(RevocationPolicy.RANDOM, Disclosure.P10), "within 10 % of best", False, 0.47),
    Relation(configured(RevocationPolicy.FIFO, Disclosure.MTTR), "within 10 % of best", False, 0.032),
    Relation(configured(RevocationPolicy.RANDOM, Disclosure.MTTR), "within 10 % of best", False, 0.029),
)

_HOLDS: Mapping[str, Callable[[float, Sequence[float]], bool]] = {
    "top 1": lambda own, others: own >= max(others) - _EQUAL,
    "top 2": lambda own, others: sum(other > own + _EQUAL for other in others) < 2,
    "within 10 % of best": lambda own, others: own >= WITHIN * max(others) - _EQUAL,
}


def title(who: Configuration) -> str:
    """Return a configuration as the paper writes it, for example ``LIFO-pools + 90pctile``."""
    return f"{POLICY_NAMES[who[0]]} + {MODEL_NAMES[who[1]]}"


def least_volatile(rows: Sequence[Row], share: float = 0.8) -> list[Row]:
    """Return the rows of the least volatile pools, this share of all.

    The paper takes the 80 % that are nearest to its two stable exemplars. It does not print where these lie,
    only that they stand for the many pools of low volatility.
    """
    volatility = {(row["pool"], row["window"]): row["volatility"] for row in rows}
    kept = set(
        sorted(volatility, key=lambda pool: (volatility[pool], pool))[: round(share * len(volatility))]
    )
    return [row for row in rows if (row["pool"], row["window"]) in kept]


def ordinal(rows: Sequence[Row], value_function: str = LINEAR.name) -> list[Row]:
    """Return the table: configuration, relation, full, pools, count, share, paper.

    Configurations are compared by their share of the Oracle's value under the same policy. A tie with the
    best counts as best. The rows are those of ``volatile.runs``.
    """
    by_pool: dict[tuple[str, str], dict[Configuration, float]] = {}
    for row in where(rows, row=VALUE, value_function=value_function):
        shares = by_pool.setdefault((row["pool"], row["window"]), {})
        shares.update({(row["policy"], model): row[f"of_oracle_{model}"] for model in MODELS})
    table = []
    for line in RELATIONS:
        count = sum(_holds(line, shares) for shares in by_pool.values())
        share = count / len(by_pool) if by_pool else 0.0
        table.append(
            {"configuration": title(line.who), "relation": line.relation, "full": line.full}
            | {"pools": len(by_pool), "count": count, "share": share, "paper": line.paper}
        )
    return table


def _holds(line: Relation, shares: Mapping[Configuration, float]) -> bool:
    compared = [
        shares[policy, model]
        for policy in POLICIES
        for model in MODELS
        if line.full or model != Disclosure.FULL.value
    ]
    return _HOLDS[line.relation](shares[line.who], compared)


def sentences(table: Sequence[Row]) -> list[str]:
    """Return a sentence for each line."""
    return [
        f"§5.6: {line['configuration']} is {line['relation']}"
        f"{'' if line['full'] else ' without full information'} in {line['count']} of {line['pools']} pools, "
        f"{line['share']:.1%} (paper: {line['paper']:.1%})."
        for line in table
    ]
