"""The map of the papers and the concepts: what they name is there, and nothing of the papers is left out."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from broker.cli.app import app
from cloudsim.experiments.registry import MODULES
from cloudsim.scheduling.lineups import EVICTIONS, LINEUPS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAPERS = DOCS / "papers.md"
PAGES = [PAPERS, *sorted((DOCS / "concepts").glob("*.md"))]

CODE = re.compile(r"`((?:cloudsim|broker|workers)(?:\.\w+)+)`")
FILE = re.compile(r"`(tests/[\w/]+(?:\.py)?)`")
COMMAND = re.compile(r"`(spotfed [a-z][^`]*)`")
TARGET = re.compile(r"`make ([a-z-]+)`")


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
        command = command.get_command(None, words.pop(0))
    options = {name for one in command.params for name in one.opts}
    assert {word for word in words if word.startswith("--")} <= options
    if line.startswith("spotfed experiment "):
        assert words[0] in {*MODULES, "list", "all", "papers"}


@pytest.mark.parametrize("name", named(TARGET))
def test_targets_are_there(name: str) -> None:
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_experiment_is_on_the_map() -> None:
    assert set(re.findall(r"`spotfed experiment ([a-z0-9-]+)`", PAPERS.read_text(encoding="utf-8"))) >= set(
        MODULES
    )


def test_every_line_up_is_explained() -> None:
    told = (DOCS / "concepts/eviction.md").read_text(encoding="utf-8")
    assert [name for name in (*(one.name for one in LINEUPS), *EVICTIONS) if f"`{name}`" not in told] == []
