"""Compute what users get out of a pool under each policy, by what they are told (P3 §4.3, §5).

docs/design/volatile-resources.md "Information, targeting, value" settles what the paper leaves open.
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
    """Knowledge of users when they choose a target (P3 §3.2)."""

    MTTR = "mttr"
    P10 = "p10"
    P90 = "p90"
    FULL = "full"
    ORACLE = "oracle"  # each interval's own length, in advance


@dataclass(frozen=True)
class StudyOutcome:
    """Outcome of one policy, information model and value function.

    Shares of nothing are 0.

    Attributes
    ----------
    targets_s
        Target of each pool in seconds, None where none is told; empty for the Oracle.
    value
        Value of all intervals, in hours.
    of_oracle
        Share of what the Oracle gets under the same policy.
    success_rate
        Share of the intervals that reach their target.
    per_unit_hour
        Value for each hour of a unit that is up.
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
    """Results of a study.

    Attributes
    ----------
    lengths
        One histogram for each pool of each policy.
    outcomes
        By policy, by information model and by value function.
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
    """Study all policies under all information models on the units of one pool.

    Parameters
    ----------
    units
        Units at each sample of 5 minutes.
    generator
        Draws the revocations of the random policy.
    informed_by
        Units of an earlier part of the trace, whose intervals users are told of; None tells them of those on
        which they are judged, as the paper does.

    Raises
    ------
    SpecError
        When there are no units, units are negative, or more than LIFO-pools hold. Names the field.
    """
    lengths: dict[RevocationPolicy, tuple[LengthHistogram, ...]] = {}
    outcomes: list[StudyOutcome] = []
    for policy in RevocationPolicy:
        lengths[policy] = known = count_intervals(units, policy, generator, renewal)
        if informed_by is not None:
            known = count_intervals(informed_by, policy, generator, renewal)
        for model in InformationModel:
            pools = _disclosed(known, model)
            outcomes += [_outcome(policy, model, value, lengths[policy], pools) for value in values]
    return Study(lengths, tuple(outcomes))


def _disclosed(pools: Sequence[LengthHistogram], model: InformationModel) -> list[Disclosed]:
    """Return the figures that users get of each pool; the Oracle gets none that hold for all intervals."""
    if model is InformationModel.ORACLE:
        return []
    return [disclose(lengths, Disclosure(model)) for lengths in pools]


def _outcome(
    policy: RevocationPolicy,
    model: InformationModel,
    value: Value,
    pools: Sequence[LengthHistogram],
    disclosed: Sequence[Disclosed],
) -> StudyOutcome:
    perfect = float(sum(lengths.counts @ value.perfect(lengths.lengths_s) for lengths in pools))
    count = sum(lengths.count for lengths in pools)
    hours = sum(lengths.total_s for lengths in pools) / HOUR_S
    if model is InformationModel.ORACLE:
        targets: tuple[float | None, ...] = ()
        total, reached = perfect, float(count)
    else:
        targets = tuple(find_target_s(figures, value) for figures in disclosed)
        aimed = list(zip(targets, pools, strict=True))
        total = sum(lengths.count * expected_value(value, target, lengths) for target, lengths in aimed)
        reached = sum(lengths.count * _success(target, lengths) for target, lengths in aimed)
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
