"""What a paper states, held against our rows: whether it holds, and the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cloudsim.experiments.experiment import Row


class Verdict(NamedTuple):
    """Whether a statement holds, and the figures that say so."""

    holds: bool
    figures: str


class Claim(NamedTuple):
    """A statement of the paper. check: on the rows of an experiment."""

    where: str
    text: str
    check: Callable[[Sequence[Row]], Verdict]


def judged(claims: Sequence[Claim], rows: Sequence[Row]) -> list[str]:
    """A sentence for each claim."""
    found = []
    for claim in claims:
        verdict = claim.check(rows)
        word = "holds here" if verdict.holds else "does not hold here"
        found.append(f"{claim.where}: {claim.text}: {word} ({verdict.figures}).")
    return found
