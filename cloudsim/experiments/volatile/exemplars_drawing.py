"""Pictures of ``volatile_exemplars``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudsim.experiments.drawing import LINES
from cloudsim.experiments.experiment import Picture, Row
from cloudsim.experiments.panels import Dot, dots_by_group, legend_below, panels, share_axis
from cloudsim.experiments.volatile.runs import (
    INTERVALS,
    MODEL_NAMES,
    MODELS,
    POLICIES,
    POLICY_NAMES,
    VALUE,
    of,
)
from cloudsim.plots import PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST_MINUTES = 2880


def _exemplars(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["pool"] for row in rows))


def _each(
    rows: Sequence[Row], title: str, draw: Callable[[Axes, str], None], **options: Any
) -> tuple[Figure, Any]:
    pools = _exemplars(rows)
    with panels(title, 2, 2, size=(10, 6.6), sharex=True, sharey=True, **options) as (figure, axes):
        for axis, pool in zip(axes.flat, pools, strict=False):
            draw(axis, pool)
            axis.set_title(pool, loc="left")
        legend_below(figure, axes.flat[0])
    return figure, axes


def _profiles(rows: Sequence[Row]) -> Figure:
    """Figure 3's blue lines."""

    def draw(axis: Axes, pool: str) -> None:
        units = of(rows, row="profile", pool=pool)[0]["units"]
        axis.plot(np.arange(len(units)) / 24, units, color=LINES[0][0], lw=0.7)

    figure, axes = _each(rows, "Idle units of the made exemplars", draw)
    for axis in axes[-1]:
        axis.set_xlabel("day")
    for line in axes:
        line[0].set_ylabel("idle units")
    return figure


def _lengths(rows: Sequence[Row]) -> Figure:
    """Figure 9: mean with deviation, and median, of each policy and of the pools of LIFO-pools."""

    def draw(axis: Axes, pool: str) -> None:
        groups: dict[str, Row] = {}
        for row in of(rows, row=INTERVALS, pool=pool):
            name = POLICY_NAMES[row["policy"]] if row["band"] is None else f"pool {row['band']}"
            groups[name] = row
        series = {
            "mean and deviation": {
                name: Dot(
                    row["mean_minutes"],
                    max(row["mean_minutes"] - row["std_minutes"], 0),
                    row["mean_minutes"] + row["std_minutes"],
                )
                for name, row in groups.items()
            },
            "median": {name: Dot(*(row["median_minutes"],) * 3) for name, row in groups.items()},
        }
        dots_by_group(axis, list(groups), series)
        axis.grid(axis="y", color=PALE, lw=0.7, zorder=0)

    figure, axes = _each(rows, "How long intervals are", draw)
    for line in axes:
        line[0].set_ylabel("minutes")
        line[0].set_ylim(0, 1.5 * _LONGEST_MINUTES)
    return figure


def _shares(column: str, title: str, label: str, value_function: str) -> Callable[[Sequence[Row]], Figure]:
    """A dot for each policy and model."""

    def picture(rows: Sequence[Row]) -> Figure:
        def draw(axis: Axes, pool: str) -> None:
            series = {
                MODEL_NAMES[model]: {
                    POLICY_NAMES[policy]: Dot(*(row[f"{column}_{model}"],) * 3)
                    for policy in POLICIES
                    for row in of(rows, row=VALUE, pool=pool, policy=policy, value_function=value_function)
                }
                for model in MODELS
            }
            dots_by_group(axis, [POLICY_NAMES[policy] for policy in POLICIES], series)
            axis.set_ylim(0, 1.02)
            axis.grid(axis="y", color=PALE, lw=0.7, zorder=0)

        figure, axes = _each(rows, title, draw)
        for line in axes:
            share_axis(line[0], label)
        return figure

    return picture


def _targets(rows: Sequence[Row]) -> Figure:
    """Figure 15: the target of each policy under each model, of LIFO-pools one for each pool."""

    def draw(axis: Axes, pool: str) -> None:
        for number, policy in enumerate(POLICIES):
            colour, marker = LINES[number]
            row = of(rows, row=VALUE, pool=pool, policy=policy, value_function="linear")[0]
            at, minutes = [], []
            for place, model in enumerate(MODELS):
                targets = row[f"targets_minutes_{model}"]
                offsets = np.linspace(-0.08, 0.08, len(targets)) if len(targets) > 1 else [0.0]
                at += [place + (number - 1.5) * 0.2 + offset for offset in offsets]
                minutes += [target or 0.0 for target in targets]
            axis.plot(
                at, minutes, marker, color=colour, ms=5, mec="white", mew=0.4, label=POLICY_NAMES[policy]
            )
        axis.set_xticks(range(len(MODELS)), [MODEL_NAMES[model] for model in MODELS])
        axis.grid(axis="y", color=PALE, lw=0.7, zorder=0)

    figure, axes = _each(rows, "What users aim at, linear value", draw)
    for line in axes:
        line[0].set_ylabel("target, minutes")
    return figure


def _by_hour(rows: Sequence[Row]) -> Figure:
    """Figure 17: value by hour of a unit under Random, with full information and the best of the others."""
    pools = _exemplars(rows)
    told: dict[str, dict[str, Dot]] = {"full": {}, "best of the others": {}}
    for pool in pools:
        row = of(rows, row=VALUE, pool=pool, policy="random", value_function="linear")[0]
        others = max(row[f"per_unit_hour_{model}"] for model in MODELS if model != "full")
        told["full"][pool] = Dot(*(row["per_unit_hour_full"],) * 3)
        told["best of the others"][pool] = Dot(*(others,) * 3)
    with panels("What an hour of a unit is worth under Random", 1, 1, size=(7, 4)) as (figure, axes):
        dots_by_group(axes[0, 0], pools, told)
        share_axis(axes[0, 0], "value by unit hour")
        axes[0, 0].set_ylim(0, 1)
        legend_below(figure, axes[0, 0])
    return figure


PICTURES = (
    Picture(
        "volatile-exemplars",
        "Idle units over 90 days of four pools made in the shapes of the paper's exemplars (Figure 3).",
        _profiles,
    ),
    Picture(
        "volatile-exemplars-lengths",
        "Lengths of intervals under each policy and in each pool of LIFO-pools (Figure 9).",
        _lengths,
    ),
    Picture(
        "volatile-exemplars-linear",
        "Share of the Oracle's value, which is that of all hours (Figures 10, 11 and 13).",
        _shares("of_oracle", "What users get: linear value", "share of the Oracle's value", "linear"),
    ),
    Picture(
        "volatile-exemplars-polynomial",
        "Share of what the Oracle gets under the same policy when hours^1.5 count (Figure 12).",
        _shares("of_oracle", "What users get: hours^1.5", "share of the Oracle's value", "polynomial"),
    ),
    Picture(
        "volatile-exemplars-targets",
        "What users aim at by what they are told; of LIFO-pools in each of its pools (Figure 15).",
        _targets,
    ),
    Picture(
        "volatile-exemplars-success",
        "Share of intervals that reach their target (Figure 16).",
        _shares("success", "How often the target is reached", "share of intervals", "linear"),
    ),
    Picture(
        "volatile-exemplars-hours",
        "Value by hour of a unit under the random policy (Figure 17).",
        _by_hour,
    ),
)
