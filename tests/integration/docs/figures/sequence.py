"""Who tells whom, from top to bottom: a sequence diagram."""

from __future__ import annotations

from collections.abc import Sequence

from tests.integration.docs.figures.svg import Drawing

_TOP, _STEP = 74.0, 46.0


class Exchange:
    """Lanes side by side; each message takes the next place downwards."""

    def __init__(self, about: str, lanes: Sequence[tuple[str, str]], steps: float, width: float = 760):
        self.drawing = Drawing(width, _TOP + steps * _STEP + 10, about)
        gap = (width - 120) / (len(lanes) - 1)
        self._x = [60 + number * gap for number in range(len(lanes))]
        self._y = _TOP
        for x, (name, below) in zip(self._x, lanes, strict=True):
            self.drawing.box(x - 54, 14, 108, 42, fill="soft")
            self.drawing.text(x, 32, name, at="middle", bold=True)
            self.drawing.text(x, 48, below, at="middle", size=11, colour="grey")
            self.drawing.line([(x, 56), (x, self.drawing.height - 12)], colour="pale", width=1.5)

    def tell(self, of: int, to: int, said: str, *, colour: str = "own", back: bool = False) -> None:
        """A message; ``back``: an answer, drawn dashed."""
        x0, x1 = self._x[of], self._x[to]
        y = self._next()
        towards = 4 if x1 > x0 else -4
        self.drawing.line([(x0, y), (x1 - towards / 4, y)], colour=colour, dashed=back, arrow=True, width=1.6)
        self.drawing.text((x0 + x1) / 2, y - 7, said, at="middle", size=12)

    def note(self, of: int, *said: str, colour: str = "spot") -> None:
        """What somebody does, in a box on its lane."""
        y = self._next() - 24
        width = 7.0 * max(map(len, said)) + 16
        left = min(max(self._x[of] - width / 2, 6), self.drawing.width - width - 6)
        self.drawing.box(left, y, width, 16 * len(said) + 10, fill=colour, edge=colour, faint=True)
        self.drawing.lines(left + width / 2, y + 17, *said, leading=16, at="middle", size=12)

    def _next(self) -> float:
        self._y += _STEP
        return self._y - _STEP / 2
