"""The look that the pictures of experiments share with ``cloudsim.plots``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cloudsim.plots import LEVELS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colour and marker of each line, told apart by colour-blind people and in print.
LINES = (LEVELS[3], LEVELS[1], LEVELS[2], LEVELS[0], LEVELS[4], LEVELS[5])


@contextmanager
def styled() -> Iterator[None]:
    """Within it, figures are made in the house's style."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def figure_of(width: float, height: float) -> Figure:
    """An empty figure of a size in inches; its parts find room for themselves."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def evicted_axis(axes: Axes, most: float) -> None:
    """The y-axis of shares evicted: from 0, linear up to .01 and logarithmic above."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("symlog", linthresh=0.01, linscale=0.7)
    marks = [mark for mark in (0.0, 0.005, 0.01, 0.02, 0.05, 0.10, 0.25, 0.5) if mark <= most]
    axes.yaxis.set_major_locator(FixedLocator(marks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".removeprefix("0") or "0"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, most)
