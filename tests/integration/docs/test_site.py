"""The site of docs/: it builds without a broken link, and asks nothing of other servers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cloudsim.model.refusals import RefusalReason

ROOT = Path(__file__).resolve().parents[3]
# What loads something when a page is opened, unlike a link that a reader follows.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel="?canonical))[^>]*(?:src|href)="?(https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    build = f"{sys.executable} -m mkdocs build --strict -q -f docs/site/mkdocs.yml -d {directory}"
    done = subprocess.run(build.split(), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_every_page_and_link_is_there(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).is_file()} == set()


def test_commands_calls_and_library_are_made_from_the_code(site: Path) -> None:
    told = {
        name: (site / f"reference/{name}.html").read_text() for name in ("commands", "http-api", "library")
    }
    assert "spotfed submit" in told["commands"]
    assert "POST /v1/requests" in told["http-api"]
    assert "role: member" in told["http-api"]
    assert "broker.client.Client" in told["library"]
    assert RefusalReason.OVER_FAIR_SHARE.text in (site / "reference/events.html").read_text()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    told = {
        page.name: found[0] for page in site.rglob("*.html") if (found := LOADED.search(page.read_text()))
    }
    assert told == {}
    assert not any("url(http" in sheet.read_text() for sheet in site.rglob("*.css"))
