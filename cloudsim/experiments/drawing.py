"""The pictures of experiments: the house's style, and panels of shares with dots beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from cloudsim.experiments.experiment import Row
from cloudsim.plots import GREY, LEVELS, PALE, STYLE

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

#: For annotations: matplotlib is an extra, and imported only to draw.
Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"

#: Colour and marker of each line, told apart by colour-blind people and in print.
LINES = (LEVELS[3], LEVELS[1], LEVELS[2], LEVELS[0], LEVELS[4], LEVELS[5])


class Dot(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def at(cls, value: float) -> Dot:
        """Return a value without an interval."""
        return cls(value, value, value)

    @classmethod
    def of_mean(cls, row: Row, name: str) -> Dot:
        """Return column ``name`` of a row with its interval, half of which is ``name``_plus_minus."""
        half = row[f"{name}_plus_minus"]
        return cls(row[name], row[name] - half, row[name] + half)


def spread(values: Sequence[float]) -> Dot:
    """Return the mean of values, from the smallest to the largest."""
    return Dot(float(np.mean(values)), min(values), max(values))


@contextmanager
def styled() -> Iterator[None]:
    """Make figures in the house's style."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def figure_of(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; its parts find room for themselves."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def panels(
    title: str | None, rows: int, columns: int, *, size: tuple[float, float], **options: Any
) -> Iterator[tuple[Figure, Any]]:
    """Make a figure of ``size`` inches and its axes, shape (rows, columns), in the house's style.

    ``options`` are those of ``Figure.subplots``.
    """
    with styled():
        figure = figure_of(*size)
        if title is not None:
            figure.suptitle(title, fontsize=11)
        yield figure, figure.subplots(rows, columns, squeeze=False, **options)


def share_axis(axes: Axes, label: str, *, log: bool = False) -> None:
    """Write shares on the vertical axis as plain numbers, with grid lines."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    if log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylabel(label)
    grid(axes)


def grid(axes: Axes) -> None:
    """Draw pale horizontal lines behind everything else."""
    axes.grid(axis="y", color=PALE, lw=0.7, zorder=0)


def evicted_axis(axes: Axes, most: float) -> None:
    """Scale the vertical axis for shares evicted: from 0, linear up to .01 and logarithmic above."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("symlog", linthresh=0.01, linscale=0.7)
    marks = [mark for mark in (0.0, 0.005, 0.01, 0.02, 0.05, 0.10, 0.25, 0.5) if mark <= most]
    axes.yaxis.set_major_locator(FixedLocator(marks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".removeprefix("0") or "0"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, most)


def promise_line(axes: Axes, sla: float) -> None:
    """Draw a labelled horizontal line at a promised share."""
    axes.axhline(sla, color=GREY, lw=1)
    axes.annotate(
        "promise", (1, sla), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
        ha="right", color=GREY, fontsize=8,
    )  # fmt: skip


def promise_steps(axes: Axes, slas: Sequence[float | None], half_width: float) -> None:
    """Draw each promised share as a dotted line at its place among ``slas``; None is no promise."""
    for place, sla in enumerate(slas):
        if sla is not None:
            axes.plot(
                [place - half_width, place + half_width], [sla] * 2, ":", color=GREY, lw=1.4, zorder=0,
                label="the promise" if place == 1 else None,
            )  # fmt: skip


def dots_by_group(
    axes: Axes, groups: Sequence[str], series: Mapping[str, Mapping[str, Dot]], *, floor: float | None = None
) -> None:
    """Draw dots with their intervals for each group; ``series`` maps a name to dots by group.

    floor: lower values are drawn there, for logarithmic axes.
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


def legend_below(figure: Figure, *axes: Axes, columns: int | None = None) -> None:
    """Write one legend below all panels, with each label that ``axes`` show once."""
    handles: dict[str, Any] = {}
    for panel in axes:
        handles |= {label: line for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    if handles:
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=columns or len(handles)
        )
