"""The fenced blocks of a page, with what a comment before each says of it.

A comment that the reader does not see stands on the line before a block. What it may say:

``not run: WHY``        the block is not carried out
``background``          its command runs on until the page is done, as in a terminal of its own; it counts as
                        started once it has written what the block shows
``until it shows this`` its command is given again until it writes what the block shows
``figures differ``      numbers and times in its output are examples
``output``              what the Python block before it has printed

Below the title of a page ``federation: ARGUMENTS`` stands for a running `spotfed up ARGUMENTS`, and ``data``
for the recorded traces under SPOTFED_DATA.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = {"console", "python", "toml", "json", "yaml", "ini", "csv", "sh", "text"}
REPEATED = "until it shows this"
EXAMPLES = "figures differ"

FENCE = re.compile(
    r"(?:^[ ]*<!--[ ]*(?P<said>[^>]*?)[ ]*-->\n(?:[ ]*\n)?)?"
    r"^(?P<indent>[ ]*)```(?P<language>[^\s`]*)(?P<rest>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
# Of four dots the first is one.
_ANYTHING = re.compile(r"(?:\\\.){3}(?!\\\.)")
_TIME = re.compile(r"\b\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?")
_ANY_TIME = r"\\d+ (?:d|h|min|s)(?: \\d+ (?:h|min|s))?"
_NUMBER = re.compile(r"(?<![\\\w])\d(?:[\d,]|\\\.(?=\d))*\b")
_HEAD = re.compile(r"^<!--[ ]*(federation|data)(?::[ ]*(.*?))?[ ]*-->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, text, line number, what its comment says and the file that it is."""

    language: str
    text: str
    line: int
    said: str
    title: str | None

    @property
    def why_not_run(self) -> str | None:
        """The reason that it gives for not being carried out."""
        return self.said.removeprefix("not run:").strip() if self.said.startswith("not run:") else None


@dataclass(frozen=True)
class Page:
    """A page with its blocks; ``federation`` holds the arguments of the `spotfed up` that it needs."""

    path: Path
    blocks: tuple[Block, ...]
    federation: str | None
    wants_data: bool


def read(path: Path) -> Page:
    """The page at ``path``."""
    text = path.read_text(encoding="utf-8")
    head = dict(_HEAD.findall(text))
    blocks = tuple(
        Block(
            language=found["language"],
            text=textwrap.dedent(found["body"]),
            line=text.count("\n", 0, found.start("indent")) + 1,
            said="" if _HEAD.match(f"<!-- {found['said']} -->") else found["said"] or "",
            title=title[1] if (title := _TITLE.search(found["rest"])) else None,
        )
        for found in FENCE.finditer(text)
    )
    return Page(path, blocks, head.get("federation"), "data" in head)


def commands(text: str) -> list[tuple[str, str]]:
    """Commands of a console block (`$ `, continued by `> `), each with the output that is shown of it."""
    told: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            told.append(([line[2:]], []))
        elif not told:
            raise ValueError(f"output before a command: {line}")
        elif line.startswith("> ") or line == ">":
            told[-1][0].append(line[2:])
        else:
            told[-1][1].append(line)
    return [("\n".join(command), "\n".join(output)) for command, output in told]


def matches(shown: str, output: str, *, examples: bool = False) -> bool:
    """Whether the output is what the page shows, where ``...`` stands for anything and blanks count as one.

    A line ``...`` stands for any lines, also for none. Frames of tables count as blanks.
    With ``examples`` a number stands for any number, and a time for any time.
    """
    pattern = ""
    for line in _plain(shown):
        told = _ANYTHING.sub(".*?", re.escape(line).replace("\\ ", " "))
        if examples:
            told = _NUMBER.sub(r"\\d[\\d.,]*", _TIME.sub(_ANY_TIME, told))
        pattern += r"(?:.*\n)*?" if line == "..." else told + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _plain(output))) is not None


def _plain(text: str) -> list[str]:
    lines = (" ".join(re.sub("[\u2500-\u257f]", " ", line).split()) for line in text.splitlines())
    return [line for line in lines if line]
