"""The map of the papers and the concepts: what they name is there, and nothing of the papers is left out."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from broker.cli import app
from cloudsim.experiments.registry import MODULES
from cloudsim.scheduling.lineups import EVICTIONS, LINEUPS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAPERS = DOCS / "papers.md"
PAGES = [PAPERS, *sorted((DOCS / "concepts").glob("*.md"))]

CODE = re.compile(r"`((?:cloudsim|broker|workers)(?:\.\w+)+)`")
FILE = re.compile(r"`(tests/[\w/]+(?:\.py)?)`")
COMMAND = re.compile(r"`(spotfed [a-z][^`]*)`")
TARGET = re.compile(r"`make ([a-z-]+)`")
#: A kind and its numbers: "Figures 4 and 5", "Equations 5 to 7", "Tables III and IV".
PRINTED = re.compile(r"(Figure|Table|Equation|Algorithm)s? ([0-9IV]+(?:(?:,| to| and) [0-9IV]+)*(?![a-z]))")
ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4}
#: How many of each kind a paper has.
WHOLE = {
    "P1": {"Figure": 7, "Table": 4},
    "P2": {"Figure": 10, "Table": 4},
    "P3": {"Figure": 21, "Table": 3, "Equation": 2},
    "P4": {"Figure": 11, "Table": 1, "Equation": 7},
    "P5": {"Figure": 2, "Table": 6, "Algorithm": 6},
}


def named(pattern: re.Pattern[str]) -> list[Any]:
    found = {
        (page.name, name) for page in PAGES for name in pattern.findall(page.read_text(encoding="utf-8"))
    }
    return [pytest.param(name, id=f"{page}: {name}") for page, name in sorted(found)]


@pytest.mark.parametrize("name", named(CODE))
def test_code_is_there(name: str) -> None:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return
    pytest.fail(f"{name} cannot be imported")


@pytest.mark.parametrize("name", named(FILE))
def test_tests_are_there(name: str) -> None:
    path = ROOT / name
    assert path.exists()
    if path.name.startswith("test_"):
        assert re.search(r"^ *(async )?def test_", path.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("line", named(COMMAND))
def test_commands_are_there(line: str) -> None:
    command: Any = typer.main.get_command(app)
    words = line.split()[1:]
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    options = {name for one in command.params for name in one.opts}
    assert {word for word in words if word.startswith("--")} <= options
    if line.startswith("spotfed experiment "):
        assert words[0] in {*MODULES, "list", "all"}


@pytest.mark.parametrize("name", named(TARGET))
def test_targets_are_there(name: str) -> None:
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_experiment_is_on_the_map() -> None:
    assert set(re.findall(r"`spotfed experiment ([a-z0-9-]+)`", PAPERS.read_text(encoding="utf-8"))) >= set(
        MODULES
    )


def numbers(text: str) -> Iterator[int]:
    """The numbers that "4 to 6", "2 and 3" and the like stand for."""
    found = [(ROMAN.get(one) or int(one)) for one in re.findall(r"[0-9IV]+", text)]
    yield from range(found[0], found[-1] + 1) if " to " in text else found


def on_the_map() -> dict[str, set[tuple[str, int]]]:
    """By paper: the figures and the like that the first column of its tables names."""
    found: dict[str, set[tuple[str, int]]] = {}
    heading = ""
    for line in PAPERS.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if not (heading.startswith("P") and line.startswith("| ")):
            continue
        where = line.split("|")[1]
        for part in re.split(r"(?=P[12] )", where):
            paper = part[:2] if re.match(r"P[12] ", part) else heading[:2]
            for kind, told in PRINTED.findall(part):
                found.setdefault(paper, set()).update((kind, number) for number in numbers(told))
    return found


@pytest.mark.parametrize("paper", WHOLE)
def test_every_figure_table_equation_and_algorithm_is_on_the_map(paper: str) -> None:
    wanted = {(kind, number) for kind, count in WHOLE[paper].items() for number in range(1, count + 1)}
    assert on_the_map()[paper] == wanted


def test_every_line_up_is_explained() -> None:
    told = (DOCS / "concepts/eviction.md").read_text(encoding="utf-8")
    assert [name for name in (*(one.name for one in LINEUPS), *EVICTIONS) if f"`{name}`" not in told] == []
