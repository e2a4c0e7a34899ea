"""The look that the pictures of experiments share with ``cloudsim.plots``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cloudsim.plots import _GREY, _INK, _LEVELS, _PALE, _STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Text, lines beside the point, and areas behind it.
INK, GREY, PALE = _INK, _GREY, _PALE
#: Colour and marker of each line, told apart by colour-blind people and in print.
LINES = (_LEVELS[3], _LEVELS[1], _LEVELS[2], _LEVELS[0], _LEVELS[4], _LEVELS[5])


@contextmanager
def styled() -> Iterator[None]:
    """Within it, figures are made in the house's style."""
    from matplotlib import rc_context

    with rc_context(_STYLE):
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
