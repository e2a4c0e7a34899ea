"""The words of the federation, as the package that it is written in explains them."""

from __future__ import annotations

import inspect
import re

import broker
from broker.cli.reference.markdown import laid_out, prose, table

_WORD = re.compile(r"^(?P<word>\S.*)\n(?P<text>(?:    .+\n?)+)", re.MULTILINE)


def page() -> str:
    """The page."""
    rows = [(f"**{word}**", prose(text)) for word, text in words()]
    about = "What the words mean, in these pages, in messages and in the code: each has one meaning."
    return laid_out("Words", about, table(("word", "meaning"), rows), source="`broker`")


def words() -> list[tuple[str, str]]:
    """Word and meaning, in the order of the package."""
    said = inspect.getdoc(broker) or ""
    return [(found["word"], found["text"]) for found in _WORD.finditer(said)]
