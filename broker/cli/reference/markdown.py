"""Markdown out of what the code says of itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

_REMARK = re.compile(r"^    (?P<name>\w+)(?::[^#\n]*)?(?: = [^#\n]*)?  # (?P<text>.+)$", re.MULTILINE)
_RICH = re.compile(r"\[/?(?:bold|italic|dim)\]")


def laid_out(title: str, about: str, *parts: str, source: str = "") -> str:
    """A page. about: its first paragraph. source: where what it says is written."""
    made = (
        "Made from the code by `make man`" + (f", of {source}" if source else "") + ": do not edit it here."
    )
    text = "\n".join([f"# {title}", "", about, "", *parts, "", f"*{made}*", ""])
    return re.sub(r"\n{3,}", "\n\n", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold Markdown. Nothing where there are no rows."""
    lines = ["| " + " | ".join(_cell(one) for one in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |", *lines])


def fenced(text: str, language: str = "text") -> str:
    """Text as it is."""
    return f"```{language}\n{text.rstrip()}\n```"


def code(text: str) -> str:
    """Text that is typed or sent."""
    return f"`{text}`"


def prose(text: str | None) -> str:
    """What a docstring or a help text says: its paragraphs, with code as Markdown has it."""
    plain = _RICH.sub("", re.sub(r"``([^`]+)``", r"`\1`", inspect.cleandoc(text or "")))
    return "\n\n".join(_escaped(" ".join(part.split())) for part in plain.split("\n\n"))


def remarks(of: type[Any]) -> dict[str, str]:
    """What the comments behind the members of an enumeration, or the fields of a message, say."""
    return {found["name"]: found["text"] for found in _REMARK.finditer(inspect.getsource(of))}


def _escaped(text: str) -> str:
    """No HTML and no link where none is meant; code and *what is stressed* stay as they are."""
    parts = re.split(r"(`[^`]*`|(?<!\w)\*\w[^*`]*\w\*(?!\w))", text)
    return "".join(
        part if number % 2 else re.sub(r"([<\[\]*_])", r"\\\1", part) for number, part in enumerate(parts)
    )


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
