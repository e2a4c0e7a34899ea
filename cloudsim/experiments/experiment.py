"""What an experiment is: cases that run anywhere and in any order, and what is said about their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A result: flat, fit for JSON and CSV.
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An independent unit of work, small enough that losing one costs little (seconds to a minute).

    function: at module level of an experiment's file, so that another process finds it; called with
    ``data`` (the data directory, or None) and the ``options``, which are fit for JSON. Its rows depend on
    nothing else: the key of a finished case is a digest of its name, options and the version of the code.
    needs: files under the data directory that it reads; a case whose files are absent is skipped by name.
    """

    name: str
    function: Callable[..., list[Row]]
    options: Mapping[str, Any]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure worth publishing: file name without ending, caption, and who draws it."""

    name: str
    caption: str
    draw: Callable[[Sequence[Row]], Figure]


def _nothing(_rows: Sequence[Row]) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Experiment:
    """name: as typed. source: the figure or table it reproduces, or our own question.

    cases: of the full experiment (quick=False), or a few that take seconds (quick=True: for tests).
    findings: sentences about the rows, with figures in them; what falls short is said too.
    own_keys: further top-level keys of the result, fit for JSON, for programs that want an answer, not rows.
    """

    name: str
    title: str
    source: str
    cases: Callable[[bool], Sequence[Case]]
    pictures: tuple[Picture, ...]
    findings: Callable[[Sequence[Row]], list[str]]
    own_keys: Callable[[Sequence[Row]], dict[str, Any]] = _nothing

    def __post_init__(self) -> None:
        assert self.name == self.name.lower(), "names are typed: lower case"
