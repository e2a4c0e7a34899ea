"""Further values of volatile resources (paper §8): products of a defined duration, and jobs that save what
they have done; on the pools of 2015, beside the paper's step of linear value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.disclosure.targeting import CHECKPOINTED, LINEAR, SLICES
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.volatile.drawing import VALUE_NAMES, of_oracle
from cloudsim.experiments.volatile.runs import (
    MARKETS_2015,
    MODELS,
    POLICY_NAMES,
    VALUE,
    of,
    over_pools,
    pool_rows,
    pools_2015,
)

VALUES = (LINEAR, SLICES, CHECKPOINTED)


def measure(data: Path | None, *, most: int | None) -> list[Row]:
    """A case: the value rows of all pools, or of the first ``most``."""
    assert data is not None, "the case needs files"
    pools, _ = pools_2015(data)
    return [row for pool in pools[:most] for row in of(pool_rows(pool, values=VALUES), row=VALUE)]


def _findings(rows: Sequence[Row]) -> list[str]:
    found = []
    for value in VALUES:
        for policy, shares in over_pools(rows, value.name).items():
            cells = " / ".join(f"{shares[model]:.2f}" for model in MODELS)
            found.append(
                f"{VALUE_NAMES[value.name]}, {POLICY_NAMES[policy]}: {cells} of the Oracle's under MTTR / "
                "10pctile / 90pctile / full."
            )
    gain = {
        value.name: over_pools(rows, value.name)["fifo"]["full"]
        - over_pools(rows, value.name)["fifo"]["mttr"]
        for value in VALUES
    }
    found.append(
        "What full information adds to MTTR under FIFO: "
        + ", ".join(f"{VALUE_NAMES[name]} {one:+.2f}" for name, one in gain.items())
        + ". Who saves his work or asks for short slices needs to know less."
    )
    return found


EXPERIMENT = Experiment(
    name="volatile-values",
    title="Volatile resources: defined durations and saved work",
    source="paper 002, §8; VOLATILE.md",
    cases=lambda quick: [Case("pools of 2015", measure, {"most": 2 if quick else None}, (MARKETS_2015,))],
    pictures=(
        Picture(
            "volatile-values",
            "Share of the Oracle's value under each policy and information model, for jobs that need one "
            "whole interval, for slices of a defined duration, and for jobs that save their work.",
            lambda rows: of_oracle(rows, "Jobs, slices, saved work", [value.name for value in VALUES]),
        ),
    ),
    findings=_findings,
)
