"""The parts of an experiment: cases that run anywhere and in any order, rows, claims and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One result: column → value, flat, fit for JSON and CSV.
Row = dict[str, Any]


def where(rows: Iterable[Row], **columns: Any) -> list[Row]:
    """Return the rows that have these values in these columns."""
    return [row for row in rows if all(row.get(name) == value for name, value in columns.items())]


def distinct(rows: Iterable[Row], column: str) -> list[Any]:
    """Return the different values of a column in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))


def total(rows: Iterable[Row], column: str) -> float:
    """Return the sum of a column."""
    return float(sum(row[column] for row in rows))


def ratio(rows: Sequence[Row], above: str, below: str) -> float:
    """Return the sum of column ``above`` over the sum of ``below``; 0 where the latter is 0."""
    whole = total(rows, below)
    return total(rows, above) / whole if whole else 0.0


@dataclass(frozen=True)
class Case:
    """An independent unit of work, small enough that losing one costs little (seconds to a minute).

    function: at module level, so that another process finds it; called with the data directory (or None) and
    the ``options``, which are fit for JSON. Its rows depend on nothing else: the key of a finished case is a
    digest of its name, its options and the version of the code.
    needs: files under the data directory that it reads; a case whose files are absent is skipped.
    """

    name: str
    function: Callable[..., list[Row]]
    options: Mapping[str, Any]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure worth publishing: file name without ending, caption, and the function that draws it."""

    name: str
    caption: str
    draw: Callable[[Sequence[Row]], Figure]


class Verdict(NamedTuple):
    """The answer to a claim: it holds or not, and the numbers that decide it."""

    holds: bool
    figures: str


class Claim(NamedTuple):
    """A statement of a paper. where: section, table or figure. check: judges it by the rows."""

    where: str
    text: str
    check: Callable[[Sequence[Row]], Verdict]

    def judge(self, rows: Sequence[Row]) -> str:
        """Return a sentence that says whether the claim holds."""
        verdict = self.check(rows)
        word = "holds here" if verdict.holds else "does not hold here"
        return f"{self.where}: {self.text}: {word} ({verdict.figures})."


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    name: as users type it. source: the figure or table that it reproduces, or "our own question".
    cases: of the full experiment (quick=False), or a few that take seconds (quick=True).
    sentences: what the rows say, with numbers, shortfalls included. claims: statements of the paper, each
    judged in a further sentence by the rows that ``judged`` selects.
    own_keys: further top-level keys of the result, fit for JSON, for programs that want an answer, not rows.
    """

    name: str
    title: str
    source: str
    cases: Callable[[bool], Sequence[Case]]
    pictures: tuple[Picture, ...]
    sentences: Callable[[Sequence[Row]], list[str]]
    claims: tuple[Claim, ...] = ()
    judged: Callable[[Sequence[Row]], Sequence[Row]] = lambda rows: rows
    own_keys: Callable[[Sequence[Row]], dict[str, Any]] = lambda _rows: {}

    def __post_init__(self) -> None:
        assert self.name == self.name.lower(), "names are typed: lower case"

    def findings(self, rows: Sequence[Row]) -> list[str]:
        """Return the sentences about all rows, then one for each claim."""
        judged = self.judged(rows)
        return [*self.sentences(rows), *(claim.judge(judged) for claim in self.claims)]
