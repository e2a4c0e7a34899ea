"""All markets of 2021, when prices were smoothed: the paper's Figures 8, 14 and 18 to 21 and the table of its
§5.6 at scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.volatile.drawing import of_oracle, ordinal_shares, places
from cloudsim.experiments.volatile.ordinal import least_volatile, ordinal, sentences
from cloudsim.experiments.volatile.runs import (
    MARKETS_2021,
    MODELS,
    POLICY_NAMES,
    VALUE,
    names,
    of,
    over_pools,
    pool_rows,
    pools_2021,
)

EXCLUDED = "excluded"


def measure(data: Path | None, *, file: str, most: int | None) -> list[Row]:
    """A case: the value rows of all pools of a file, or of its first ``most``, and a row with the number of
    markets whose price never changed."""
    assert data is not None, "the case needs files"
    pools, excluded = pools_2021(data / file)
    rows = [row for pool in pools[:most] for row in of(pool_rows(pool), row=VALUE)]
    return [*rows, {"row": EXCLUDED, "source": "2021", "markets": len(excluded)}]


def _cases(quick: bool) -> list[Case]:
    most = 5 if quick else None
    return [Case(file, measure, {"file": file, "most": most}, (file,)) for file in MARKETS_2021]


def _values(rows: Sequence[Row]) -> list[Row]:
    return of(rows, row=VALUE)


def _findings(rows: Sequence[Row]) -> list[str]:
    own = _values(rows)
    silent = sum(row["markets"] for row in of(rows, row=EXCLUDED))
    found = [f"{len(names(own))} markets; {silent} more whose price never changed in 90 days are left out."]
    for policy, shares in over_pools(own).items():
        cells = " / ".join(f"{shares[model]:.3f}" for model in MODELS)
        found.append(
            f"{POLICY_NAMES[policy]}: {cells} of the Oracle's linear value, mean of all, under MTTR / "
            "10pctile / 90pctile / full."
        )
    found += sentences(ordinal(own))
    found += [f"Of the 80 % least volatile: {line}" for line in sentences(ordinal(least_volatile(own)))]
    found.append(
        "These prices were smoothed by the provider (after November 2017): most pools hardly move, most "
        "intervals reach 48 hours, and policies and models differ little. They serve for scale, not to judge "
        "the paper's statements."
    )
    return found


def _own_keys(rows: Sequence[Row]) -> dict[str, Any]:
    return {"mean_value_over_oracle": over_pools(_values(rows)), "ordinal": ordinal(_values(rows))}


EXPERIMENT = Experiment(
    name="volatile-markets",
    title="Volatile resources: all markets of 2021",
    source="paper 002, Figures 8, 14 and 18 to 21, §5.6; VOLATILE.md",
    cases=_cases,
    pictures=(
        Picture(
            "volatile-markets",
            "Share of the Oracle's value under each policy and information model: mean over the markets of "
            "2021 and standard deviation.",
            lambda rows: of_oracle(_values(rows), "Markets of 2021", (LINEAR.name, POLYNOMIAL.name)),
        ),
        Picture(
            "volatile-markets-pools",
            "The markets of 2021 by volatility and by how daily they are, zone by zone (Figures 18 to 21).",
            lambda rows: places(_values(rows), "Markets of 2021"),
        ),
        Picture(
            "volatile-markets-ordinal",
            "How often a policy with an information model does so well: here and in the paper (§5.6).",
            lambda rows: ordinal_shares(ordinal(_values(rows)), "Who does best, market by market"),
        ),
    ),
    findings=_findings,
    own_keys=_own_keys,
)
