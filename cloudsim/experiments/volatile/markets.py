"""Paper 002, Figures 8, 14 and 18 to 21 and the table of §5.6 at scale: all markets of 2021.

Prices were smoothed by the provider then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, total, where
from cloudsim.experiments.volatile.drawing import draw_ordinal, draw_pools, draw_shares
from cloudsim.experiments.volatile.ordinal import least_volatile, ordinal, sentences
from cloudsim.experiments.volatile.runs import (
    MARKETS_2021,
    MODELS,
    POLICY_NAMES,
    VALUE,
    names,
    over_pools,
    pool_rows,
    pools_2021,
)
from cloudsim.volatile.targeting import LINEAR, POLYNOMIAL

EXCLUDED = "excluded"


def measure(data: Path, *, file: str, most: int | None) -> list[Row]:
    """Study all pools of a file, or its first ``most``: the value rows of ``volatile.runs.pool_rows``.

    A row "excluded" has the number of markets whose price never changed.
    """
    pools, excluded = pools_2021(data / file)
    rows = [row for pool in pools[:most] for row in where(pool_rows(pool), row=VALUE)]
    return [*rows, {"row": EXCLUDED, "source": "2021", "markets": len(excluded)}]


def _cases(quick: bool) -> list[Case]:
    most = 5 if quick else None
    return [Case(file, measure, {"file": file, "most": most}, (file,)) for file in MARKETS_2021]


def _values(rows: Sequence[Row]) -> list[Row]:
    return where(rows, row=VALUE)


def _sentences(rows: Sequence[Row]) -> list[str]:
    own = _values(rows)
    silent = round(total(where(rows, row=EXCLUDED), "markets"))
    texts = [f"{len(names(own))} markets; {silent} more whose price never changed in 90 days are left out."]
    for policy, shares in over_pools(own).items():
        cells = " / ".join(f"{shares[model]:.3f}" for model in MODELS)
        texts.append(
            f"{POLICY_NAMES[policy]}: {cells} of the Oracle's linear value, mean of all, under MTTR / "
            "10pctile / 90pctile / full."
        )
    texts += sentences(ordinal(own))
    texts += [f"Of the 80 % least volatile: {line}" for line in sentences(ordinal(least_volatile(own)))]
    texts.append(
        "These prices were smoothed by the provider (after November 2017): most pools hardly move, most "
        "intervals reach 48 hours, and policies and models differ little. They serve for scale, not to judge "
        "the paper's statements."
    )
    return texts


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
            lambda rows: draw_shares(_values(rows), "Markets of 2021", (LINEAR.name, POLYNOMIAL.name)),
        ),
        Picture(
            "volatile-markets-pools",
            "The markets of 2021 by volatility and by how daily they are, zone by zone (Figures 18 to 21).",
            lambda rows: draw_pools(_values(rows), "Markets of 2021"),
        ),
        Picture(
            "volatile-markets-ordinal",
            "How often a policy with an information model does so well: here and in the paper (§5.6).",
            lambda rows: draw_ordinal(ordinal(_values(rows)), "Who does best, market by market"),
        ),
    ),
    sentences=_sentences,
    own_keys=_own_keys,
)
