"""Paper 002, §8: further value functions on the pools of 2015, beside the paper's linear one.

Products of a defined duration, and jobs that save their work.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, where
from cloudsim.experiments.volatile.drawing import VALUE_NAMES, draw_shares
from cloudsim.experiments.volatile.runs import (
    MARKETS_2015,
    MODELS,
    POLICY_NAMES,
    VALUE,
    over_pools,
    pool_rows,
    pools_2015,
)
from cloudsim.volatile.targeting import CHECKPOINTED, LINEAR, SLICES

VALUES = (LINEAR, SLICES, CHECKPOINTED)


def measure(data: Path, *, most: int | None) -> list[Row]:
    """Study all pools, or the first ``most``: the value rows of ``volatile.runs.pool_rows``."""
    pools, _ = pools_2015(data)
    return [row for pool in pools[:most] for row in where(pool_rows(pool, values=VALUES), row=VALUE)]


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for value in VALUES:
        for policy, shares in over_pools(rows, value.name).items():
            cells = " / ".join(f"{shares[model]:.2f}" for model in MODELS)
            texts.append(
                f"{VALUE_NAMES[value.name]}, {POLICY_NAMES[policy]}: {cells} of the Oracle's under MTTR / "
                "10pctile / 90pctile / full."
            )
    gain = {
        value.name: over_pools(rows, value.name)["fifo"]["full"]
        - over_pools(rows, value.name)["fifo"]["mttr"]
        for value in VALUES
    }
    texts.append(
        "What full information adds to MTTR under FIFO: "
        + ", ".join(f"{VALUE_NAMES[name]} {share:+.2f}" for name, share in gain.items())
        + ". Who saves his work or asks for short slices needs to know less."
    )
    return texts


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
            lambda rows: draw_shares(rows, "Jobs, slices, saved work", [value.name for value in VALUES]),
        ),
    ),
    sentences=_sentences,
)
