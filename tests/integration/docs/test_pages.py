"""Every command, snippet and file of the documentation, carried out in the order in which it is read."""

import json
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

from cloudsim.federation.file import load_federation
from tests.integration.docs.blocks import EXAMPLES, LANGUAGES, REPEATED, Block, Page, matches, read
from tests.integration.docs.running import ROOT, Home, Terminal

PAGES = [read(path) for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]]


def name(page: Page) -> str:
    return page.path.relative_to(ROOT).with_suffix("").as_posix()


def carried_out(page: Page) -> list[Block]:
    return [block for block in page.blocks if not block.why_not_run]


def group(page: Page) -> str:
    """Pages that share a federation run in one process, and so with one federation."""
    return f"docs {page.federation}" if page.federation is not None else f"docs {name(page)}"


LIVE = [
    pytest.param(page, id=name(page), marks=[pytest.mark.xdist_group(group(page))])
    for page in PAGES
    if any(block.language in ("console", "python") or block.title for block in carried_out(page))
]


@pytest.mark.parametrize("page", LIVE)
def test_a_page_does_what_it_says(
    page: Page, tmp_path: Path, request: pytest.FixtureRequest, shared_home: Callable[[str], Home]
) -> None:
    home = request.getfixturevalue("home") if page.federation is None else shared_home(page.federation)
    if page.wants_data:
        home.environment["SPOTFED_DATA"] = str(request.getfixturevalue("data_dir"))
    # As in a checkout, whose files pages name.
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    terminal = Terminal(home, tmp_path)
    printed = ""
    try:
        for block in carried_out(page):
            if block.title:
                (tmp_path / block.title).write_text(block.text)
            elif block.language == "console":
                terminal.console(block.text, block.said)
            elif block.language == "python":
                printed = terminal.python(block.text, page.path.name, block.line)
            elif block.said == "output":
                assert matches(block.text, printed), f"{page.path}:{block.line}: printed\n{printed}"
    finally:
        terminal.close()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_of_a_known_kind_and_well_formed(page: Page) -> None:
    for block in page.blocks:
        where = f"{page.path}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: {block.language or 'no language'}"
        assert block.why_not_run or block.said in ("", "background", "output", EXAMPLES, REPEATED), (
            f"{where}: {block.said}"
        )
        runs = block.language in ("console", "python")
        assert runs or not block.why_not_run, f"{where}: only what is carried out can be left out"
        assert block.language not in ("sh", "bash") or block.title, (
            f"{where}: commands stand in a console block"
        )
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "yaml":
            yaml.safe_load(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "ini":
            ConfigParser(interpolation=None).read_string(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_federation_files_are_read(page: Page, data_dir: Path, tmp_path: Path) -> None:
    # What names parts of the page's own package is read where that is installed: as the page is carried out.
    has_parts = any("spotfed.victim_policies" in block.text for block in page.blocks)
    for at, block in enumerate(page.blocks):
        file = tmp_path / (block.title or f"{at}.toml")
        file.parent.mkdir(exist_ok=True)
        if block.title:
            file.write_text(block.text)
        if block.language == "toml" and "[[cloud]]" in block.text and not has_parts:
            file.write_text(block.text)
            assert load_federation(file, data_dir).clouds, f"{page.path}:{block.line}"
