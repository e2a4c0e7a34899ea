"""A drawing in SVG: texts, boxes, lines and arrows on a card, light or dark as the reader's system is."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

#: What things are drawn in, in light and in dark: ink, grey, card, and the colours of Okabe and Ito.
COLOURS = {
    "ink": ("#1f2328", "#e6e6e6"),
    "grey": ("#6e7781", "#9aa4af"),
    "pale": ("#d8dee4", "#3d444d"),
    "soft": ("#f3f5f7", "#2a2f36"),
    "own": ("#0072b2", "#56b4e9"),
    "spot": ("#009e73", "#2fc79b"),
    "free": ("#e69f00", "#f2b632"),
    "lost": ("#d55e00", "#ff7f3f"),
    "on": ("#ffffff", "#14171c"),
    "more": ("#cc79a7", "#e3a0c4"),
}
_CARD = ("#ffffff", "#1e2129")


class Drawing:
    """Elements one after the other; coordinates in pixels from the upper left corner."""

    def __init__(self, width: float, height: float, about: str):
        self.width, self.height, self._about = width, height, about
        self._parts: list[str] = []

    def text(
        self, x: float, y: float, said: str, *, colour: str = "ink", at: str = "start", size: int = 13,
        bold: bool = False, turned: bool = False,
    ) -> None:  # fmt: skip
        """A line of text; ``at``: start, middle or end of it stands at x."""
        more = ' font-weight="600"' if bold else ""
        more += f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
        self._parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" class="{colour}" text-anchor="{at}" font-size="{size}"{more}>'
            f"{escape(said)}</text>"
        )

    def lines(self, x: float, y: float, *said: str, leading: float = 17, **style: object) -> None:
        """Lines of text below each other."""
        for number, one in enumerate(said):
            self.text(x, y + number * leading, one, **style)  # type: ignore[arg-type]

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: str | None = "soft",
        edge: str | None = "grey", round_: float = 5, dashed: bool = False, faint: bool = False,
    ) -> None:  # fmt: skip
        """A rectangle."""
        paint = f'class="{" ".join(_classes(fill, edge))}"'
        more = ' stroke-dasharray="5 4"' if dashed else ""
        more += ' fill-opacity="0.28"' if faint else ""
        self._parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(round_)}" '
            f"{paint}{more}/>"
        )

    def line(
        self, points: Sequence[tuple[float, float]], *, colour: str = "grey", width: float = 1.2,
        dashed: bool = False, arrow: bool = False,
    ) -> None:  # fmt: skip
        """A line through points; ``arrow``: with a head at its end."""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        more = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" class="no e-{colour}" stroke-width="{_n(width)}"{more}/>'
        )
        if arrow:
            self._head(points[-2], points[-1], colour)

    def area(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """A polygon."""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._parts.append(f'<polygon points="{path}" class="f-{colour}"/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 3.5) -> None:
        """A disc."""
        self._parts.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" class="f-{colour}"/>')

    def cross(self, x: float, y: float, colour: str = "lost", radius: float = 4) -> None:
        """A cross."""
        for sign in (-1, 1):
            self.line(
                [(x - radius, y - sign * radius), (x + radius, y + sign * radius)], colour=colour, width=2
            )

    def _head(self, before: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        (x0, y0), (x1, y1) = before, end
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        corners = [
            (x1, y1),
            (x1 - 8 * ux - 4 * uy, y1 - 8 * uy + 4 * ux),
            (x1 - 8 * ux + 4 * uy, y1 - 8 * uy - 4 * ux),
        ]
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in corners)
        self._parts.append(f'<polygon points="{path}" class="f-{colour}"/>')

    def svg(self) -> str:
        """The file."""
        width, height = _n(self.width), _n(self.height)
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self._about)}">\n'
            f"<style>{_style()}</style>\n"
            f'<rect width="{width}" height="{height}" rx="8" class="card"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )


def _classes(fill: str | None, edge: str | None) -> list[str]:
    return ["no" if fill is None else f"f-{fill}", *([f"e-{edge}"] if edge else [])]


def _style() -> str:
    rules = ["text{font-family:system-ui,sans-serif}", ".no{fill:none}"]
    for shade in (0, 1):
        of = [f".card{{fill:{_CARD[shade]}}}"]
        for name, shades in COLOURS.items():
            of.append(f".{name},.f-{name}{{fill:{shades[shade]}}}.e-{name}{{stroke:{shades[shade]}}}")
        rules.append("".join(of) if shade == 0 else f"@media (prefers-color-scheme: dark){{{''.join(of)}}}")
    return "".join(rules)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
