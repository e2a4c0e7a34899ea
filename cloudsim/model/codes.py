"""Codes: words of enumerations that messages carry, and how readers of an earlier version get a newer one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self


class Added(str):
    """A word that a later version of the contract added, and the older word that readers before it get."""

    __slots__ = ("older", "since")
    since: int
    older: str

    def __new__(cls, word: str, since: int, older: str) -> Self:
        """Make the word; ``since`` is the version of the contract that added it."""
        added = super().__new__(cls, word)
        added.since, added.older = since, older
        return added


class Code(StrEnum):
    """The base of enumerations whose words are sent and stored; more facts of a word go to ``__init__``.

    A value that came later is declared with ``Added``: ``PAUSED = Added("paused", 4, "noticed")``.
    """

    _value_: str
    #: The version of the contract that added the word, 0 for one that was always there.
    since: int
    #: The word that readers of earlier versions get.
    older: str

    def __new__(cls, word: str, *facts: Any) -> Self:
        """Create a value from its word."""
        del facts
        code = str.__new__(cls, word)
        code._value_ = str(word)
        code.since, code.older = (word.since, word.older) if isinstance(word, Added) else (0, code._value_)
        return code
