"""What one check of an installation found: ``spotfed doctor`` shows them, the start-up checks obey them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """A warning is for a person to judge; with a failure something does not work, or not safely."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Finding:
    """One check: its name, its state, a sentence what was found, one what to do (empty where nothing is)."""

    name: str
    state: State
    found: str
    advice: str = ""


def ok(name: str, found: str, advice: str = "") -> Finding:
    """All is well; ``advice`` is then a hint."""
    return Finding(name, State.OK, found, advice)


def warning(name: str, found: str, advice: str) -> Finding:
    """It works, but somebody should look at it."""
    return Finding(name, State.WARNING, found, advice)


def failure(name: str, found: str, advice: str) -> Finding:
    """It does not work, or what was promised may be lost."""
    return Finding(name, State.FAILURE, found, advice)
