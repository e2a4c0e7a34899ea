"""Axes on a drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tests.integration.docs.figures.svg import Drawing


class Axes:
    """A frame that maps values to pixels. Ends of x and y: of the values; ``log_y``: y is logarithmic."""

    def __init__(
        self, drawing: Drawing, left: float, top: float, width: float, height: float, *,
        x: tuple[float, float], y: tuple[float, float], log_y: bool = False,
    ):  # fmt: skip
        self.drawing, self.left, self.top, self.width, self.height = drawing, left, top, width, height
        self._x, self._y, self._log_y = x, y, log_y

    def x(self, value: float) -> float:
        """Where a value of x is."""
        low, high = self._x
        return self.left + self.width * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Where a value of y is; what is below the frame lies on its edge."""
        low, high = self._y
        if self._log_y:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self._y[0]))
        return self.top + self.height * (1 - (value - low) / (high - low))

    def frame(
        self,
        *,
        x: Iterable[tuple[float, str]],
        y: Iterable[tuple[float, str]],
        x_name: str = "",
        y_name: str = "",
    ) -> None:
        """Both axes with marks and names."""
        bottom, right = self.top + self.height, self.left + self.width
        for value, name in y:
            self.drawing.line([(self.left, self.y(value)), (right, self.y(value))], colour="pale")
            self.drawing.text(self.left - 7, self.y(value) + 4, name, colour="grey", at="end", size=12)
        for value, name in x:
            self.drawing.line([(self.x(value), bottom), (self.x(value), bottom + 5)])
            self.drawing.text(self.x(value), bottom + 19, name, colour="grey", at="middle", size=12)
        self.drawing.line([(self.left, bottom), (right, bottom)])
        self.drawing.text((self.left + right) / 2, bottom + 38, x_name, colour="grey", at="middle")
        self.drawing.text(self.left, self.top - 10, y_name, colour="grey")

    def steps(self, xs: Sequence[float], ys: Sequence[float], colour: str, *, dashed: bool = False) -> None:
        """A line that keeps each value until the next x."""
        self.drawing.line(self.stairs(xs, ys), colour=colour, width=2, dashed=dashed)

    def stairs(self, xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
        """The corners of such a line."""
        points = [(self.x(xs[0]), self.y(ys[0]))]
        for x, before, y in zip(xs[1:], ys[:-1], ys[1:], strict=True):
            if y != before:
                points += [(self.x(x), points[-1][1]), (self.x(x), self.y(y))]
        return [*points, (self.x(xs[-1]), points[-1][1])]

    def curve(self, xs: Sequence[float], ys: Sequence[float], colour: str, *, dashed: bool = False) -> None:
        """A line through points."""
        points = [(self.x(x), self.y(y)) for x, y in zip(xs, ys, strict=True)]
        self.drawing.line(points, colour=colour, width=2, dashed=dashed)
