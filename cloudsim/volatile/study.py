"""What users get out of a pool under each policy, by what they are told (paper §4.3, §5; VOLATILE.md
"Information, targeting, value").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudsim.disclosure.levels import Disclosed, Disclosure, disclose
from cloudsim.disclosure.targeting import HOUR_S, LINEAR, POLYNOMIAL, Value, expected_value, find_target_s
from cloudsim.model.lengths import LengthHistogram
from cloudsim.volatile.managers import Renewal, RevocationPolicy, count_intervals


class InformationModel(StrEnum):
    """What users know when they choose a target."""

    MTTR = "mttr"
    P10 = "p10"
    P90 = "p90"
    FULL = "full"
    ORACLE = "oracle"  # each interval's own length, in advance


@dataclass(frozen=True)
class StudyOutcome:
    """Of one policy, model and value function.

    targets_s: of each pool, None where none is told, empty for the Oracle. value: of all intervals, in hours.
    of_oracle: share of what the Oracle gets under the same policy. success_rate: share of the intervals that
    reach their target. per_unit_hour: value by hour of a unit that is up. Shares of nothing are 0.
    """

    policy: RevocationPolicy
    model: InformationModel
    value_name: str
    targets_s: tuple[float | None, ...]
    value: float
    of_oracle: float
    success_rate: float
    per_unit_hour: float


@dataclass(frozen=True)
class Study:
    """lengths: of each policy, one histogram for each of its pools. outcomes: by policy, by model and by
    value function.
    """

    lengths: Mapping[RevocationPolicy, tuple[LengthHistogram, ...]]
    outcomes: tuple[StudyOutcome, ...]


def run_study(
    units: NDArray[np.integer[Any]],
    generator: np.random.Generator,
    *,
    informed_by: NDArray[np.integer[Any]] | None = None,
    renewal: Renewal = Renewal.SLOT,
    values: Sequence[Value] = (LINEAR, POLYNOMIAL),
) -> Study:
    """All policies under all models on the units of one pool, a number for each sample of 5 minutes.

    informed_by: units of an earlier part of the trace, whose intervals users are told of; None tells them of
    those on which they are judged, as the paper does.

    Raises SpecError naming the field when units are none or negative, or more than LIFO-pools hold.
    """
    lengths: dict[RevocationPolicy, tuple[LengthHistogram, ...]] = {}
    outcomes: list[StudyOutcome] = []
    for policy in RevocationPolicy:
        lengths[policy] = told = count_intervals(units, policy, generator, renewal)
        if informed_by is not None:
            told = count_intervals(informed_by, policy, generator, renewal)
        for model in InformationModel:
            pools = _disclosed(told, model)
            outcomes += [_outcome(policy, model, value, lengths[policy], pools) for value in values]
    return Study(lengths, tuple(outcomes))


def _disclosed(pools: Sequence[LengthHistogram], model: InformationModel) -> list[Disclosed]:
    """What is told of each pool; the Oracle is told nothing that holds for all intervals."""
    if model is InformationModel.ORACLE:
        return []
    return [disclose(one, Disclosure(model)) for one in pools]


def _outcome(
    policy: RevocationPolicy,
    model: InformationModel,
    value: Value,
    pools: Sequence[LengthHistogram],
    told: Sequence[Disclosed],
) -> StudyOutcome:
    perfect = float(sum(one.counts @ value.perfect(one.lengths_s) for one in pools))
    count = sum(one.count for one in pools)
    hours = sum(one.total_s for one in pools) / HOUR_S
    if model is InformationModel.ORACLE:
        targets: tuple[float | None, ...] = ()
        total, reached = perfect, float(count)
    else:
        targets = tuple(find_target_s(one, value) for one in told)
        aimed = list(zip(targets, pools, strict=True))
        total = sum(one.count * expected_value(value, target, one) for target, one in aimed)
        reached = sum(one.count * _success(target, one) for target, one in aimed)
    return StudyOutcome(
        policy,
        model,
        value.name,
        targets,
        total,
        total / perfect if perfect else 0.0,
        reached / count if count else 0.0,
        total / hours if hours else 0.0,
    )


def _success(target: float | None, lengths: LengthHistogram) -> float:
    return 0.0 if target is None else float(lengths.survival(np.array([target]))[0])
