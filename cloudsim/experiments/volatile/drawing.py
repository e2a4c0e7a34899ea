"""Pictures that several experiments on volatile resources draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloudsim.experiments.drawing import (
    LINES,
    Dot,
    Figure,
    dots_by_group,
    grid,
    legend_below,
    panels,
    share_axis,
)
from cloudsim.experiments.experiment import Row, where
from cloudsim.experiments.volatile.runs import MODEL_NAMES, MODELS, POLICIES, POLICY_NAMES, VALUE, names
from cloudsim.plots import GREY, PALE

VALUE_NAMES = {
    "linear": "value: hours",
    "polynomial": "value: hours^1.5",
    "slices": "value: slices of 1 to 6 hours",
    "checkpointed": "value: saved every half hour",
}


def draw_shares(rows: Sequence[Row], title: str, value_functions: Sequence[str]) -> Figure:
    """Draw the share of the Oracle's value by policy and model, a panel a value function (P3 Figure 14).

    Dots are means over pools, with their standard deviation.
    """
    size = (1 + 4.3 * len(value_functions), 4.4)
    with panels(title, 1, len(value_functions), size=size, sharey=True) as (figure, axes):
        for axis, value_function in zip(axes.flat, value_functions, strict=True):
            by_policy = {
                policy: where(rows, row=VALUE, policy=policy, value_function=value_function)
                for policy in POLICIES
            }
            series = {
                MODEL_NAMES[model]: {
                    POLICY_NAMES[policy]: _deviation([row[f"of_oracle_{model}"] for row in own])
                    for policy, own in by_policy.items()
                }
                for model in MODELS
            }
            dots_by_group(axis, [POLICY_NAMES[policy] for policy in POLICIES], series)
            axis.set_title(VALUE_NAMES[value_function], loc="left")
            axis.set_ylim(0, 1.02)
            grid(axis)
        share_axis(axes[0, 0], "share of the Oracle's value")
        legend_below(figure, axes[0, 0])
    return figure


def _deviation(shares: Sequence[float]) -> Dot:
    mean, deviation = float(np.mean(shares)), float(np.std(shares))
    return Dot(mean, max(mean - deviation, 0.0), min(mean + deviation, 1.0))


def draw_pools(rows: Sequence[Row], title: str) -> Figure:
    """Draw volatility and periodicity of each pool, a panel a zone (P3 Figures 8 and 18 to 21)."""
    place = {
        (row["pool"], row["window"]): (row["volatility"], row["periodicity"])
        for row in where(rows, row=VALUE)
    }
    by_zone: dict[str, list[tuple[float, float]]] = {}
    for pool, window in names(rows):
        by_zone.setdefault(pool.split()[1], []).append(place[pool, window])
    across = min(len(by_zone), 3)
    down = -(-len(by_zone) // across)
    size = (3.6 * across, 0.6 + 2.8 * down)
    with panels(title, down, across, size=size, sharex=True, sharey=True) as (figure, axes):
        for axis, (zone, points) in zip(axes.flat, sorted(by_zone.items()), strict=False):
            at = zip(*points, strict=True)
            axis.plot(*at, "o", color=LINES[0][0], ms=4, mec="white", mew=0.4, alpha=0.8)
            axis.set_title(f"{zone}: {len(points)} pools", loc="left")
            axis.grid(color=PALE, lw=0.7, zorder=0)
        for axis in list(axes.flat)[len(by_zone) :]:
            axis.set_visible(False)
        for axis in axes[-1]:
            axis.set_xlabel("volatility")
        for axis in axes[:, 0]:
            axis.set_ylabel("periodicity")
    return figure


def draw_ordinal(table: Sequence[Row], title: str) -> Figure:
    """Draw the share of pools in which each line of the ordinal table holds: here and in the paper."""
    with panels(title, 1, 1, size=(8.5, 4.2)) as (figure, axes):
        axis = axes[0, 0]
        for place, line in enumerate(table):
            axis.plot([line["paper"], line["share"]], [place, place], color=PALE, lw=2, zorder=1)
        shares = {"here": [line["share"] for line in table], "paper": [line["paper"] for line in table]}
        for (name, at), colour, marker in zip(shares.items(), (LINES[0][0], GREY), ("o", "|"), strict=True):
            axis.plot(
                at, range(len(table)), marker, color=colour, ms=8, mew=2 if marker == "|" else 0,
                label=name, zorder=2, clip_on=False,
            )  # fmt: skip
        labels = [
            f"{line['configuration']}: {line['relation']}{'' if line['full'] else ' without full'}"
            for line in table
        ]
        axis.set_yticks(range(len(table)), labels)
        axis.invert_yaxis()
        axis.set_xlim(0, 1)
        axis.set_xlabel("share of pools")
        axis.grid(axis="x", color=PALE, lw=0.7, zorder=0)
        legend_below(figure, axis)
    return figure
