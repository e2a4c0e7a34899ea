"""Panels that several experiments draw: shares on a vertical axis, dots beside each other for each group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloudsim.experiments.drawing import LINES, figure_of, styled
from cloudsim.plots import PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Dot(NamedTuple):
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Dot:
    """The mean, from the smallest to the largest value."""
    return Dot(float(np.mean(values)), min(values), max(values))


@contextmanager
def panels(
    title: str, rows: int, columns: int, *, size: tuple[float, float], **options: Any
) -> Iterator[tuple[Figure, Any]]:
    """A figure of ``size`` inches and its axes, shape (rows, columns); options are those of ``subplots``."""
    with styled():
        figure = figure_of(*size)
        figure.suptitle(title, fontsize=11)
        yield figure, figure.subplots(rows, columns, squeeze=False, **options)


def share_axis(axes: Axes, label: str, *, log: bool = False) -> None:
    """Shares on the vertical axis, written as plain numbers, with grid lines."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    if log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylabel(label)
    axes.grid(axis="y", color=PALE, lw=0.7, zorder=0)


def dots_by_group(
    axes: Axes, groups: Sequence[str], series: Mapping[str, Mapping[str, Dot]], *, floor: float | None = None
) -> None:
    """Dots with their intervals for each group; ``series`` maps its name to dots by group.

    floor: what is below it sits on it, for logarithmic axes.
    """
    lowest = -np.inf if floor is None else floor
    for number, (name, dots) in enumerate(series.items()):
        colour, marker = LINES[number % len(LINES)]
        offset = (number - (len(series) - 1) / 2) * min(0.2, 0.8 / len(series))
        at = [groups.index(group) + offset for group in dots]
        values = np.maximum([dot.value for dot in dots.values()], lowest)
        axes.plot(
            at, values, marker, color=colour, ms=5.5, mec="white", mew=0.4, zorder=3, label=name,
            clip_on=False,
        )  # fmt: skip
        for x, dot in zip(at, dots.values(), strict=True):
            axes.plot([x, x], np.maximum([dot.low, dot.high], lowest), color=colour, lw=1.2, zorder=2)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlim(-0.6, len(groups) - 0.4)


def legend_below(figure: Figure, axes: Axes, columns: int | None = None) -> None:
    """One legend for all panels, of what ``axes`` shows."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(labels))
