"""A headless Chromium, and pages of the dashboard that remember what went wrong on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.harness import KEY, Federation, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: It calls nobody by itself.
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
LIMIT_MS = 60_000.0


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Chromium; a test without it is skipped, but fails in CI."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = "no Chromium on the PATH: install it (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(OPTIONS))
        yield browser
        browser.close()


class Visit:
    """A page of the dashboard. ``wrong``: errors on it and requests to anybody else than the API."""

    def __init__(self, browser: Browser, federation: Federation, **options: Any):
        self.federation = federation
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(LIMIT_MS)
        self.wrong: list[str] = []
        self.allowed: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", self._hear)
        self.page.on("request", self._see)

    def _hear(self, message: Any) -> None:
        where = str(message.location.get("url", ""))
        if message.type in ("error", "warning") and not any(part in where for part in self.allowed):
            self.wrong.append(f"{message.type}: {message.text} {where}")

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.federation.url + "/", "data:")):
            self.wrong.append(f"asked {request.url}")

    def open(self, view: str = "", key: str | None = KEY) -> Page:
        """A view, signed in as who would have typed in the key in this tab."""
        if key is not None:
            self.page.add_init_script(f"sessionStorage.setItem('spotfed-key', {key!r})")
        self.page.goto(f"{self.federation.url}/#{view}")
        return self.page

    def close(self) -> None:
        self.context.close()


Visiting = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Of a module, not of the session: while it runs no other test can use asyncio in this process.
    with started_browser() as browser:
        yield browser


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Visiting]:
    """Makes visits; at the end nothing may have gone wrong on any of them."""
    made: list[Visit] = []

    def visit(federation: Federation, **options: Any) -> Visit:
        made.append(Visit(browser, federation, **options))
        return made[-1]

    yield visit
    for one in made:
        one.close()
    assert [wrong for one in made for wrong in one.wrong] == []


@pytest.fixture
def federation(redis_url: str) -> Iterator[Federation]:
    """Real owners in threads."""
    with serving(Federation(redis_url, advert_max_age_s=60.0)) as federation:
        yield federation
