"""The dashboard's files: served without a key, confined, and in step with the words of the contract."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib import resources
from typing import get_args

import httpx
import pytest

from broker.contract import DisclosureLevel, LeaseState
from broker.dashboard import codes_module
from tests.contract.harness import Federation

FILES = {
    file.name: file.read_text(encoding="utf-8")
    for file in resources.files("broker.dashboard").iterdir()
    if file.name.endswith((".html", ".css", ".js", ".svg"))
} | {"codes.js": codes_module()}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Page(HTMLParser):
    """Tags of a page with their attributes, and what stands inside scripts and styles."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is not None:
            self.inline += data


def test_the_page_and_its_parts_need_no_key(federation: Federation) -> None:
    answers = {name: httpx.get(f"{federation.url}/dashboard/{name}") for name in FILES}
    answers["index.html"] = httpx.get(federation.url + "/")
    for name, answer in answers.items():
        assert (answer.status_code, answer.text) == (200, FILES[name])
        assert answer.headers["content-type"].startswith(KINDS[name.rpartition(".")[2]])
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_what_is_known_already_is_not_sent_again(federation: Federation) -> None:
    first = httpx.get(f"{federation.url}/dashboard/app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = httpx.get(f"{federation.url}/dashboard/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = httpx.get(f"{federation.url}/dashboard/app.js", headers={"If-None-Match": '"another"'})
    assert other.status_code == 200


@pytest.mark.parametrize("name", ["nothing.js", "__init__.py", "..%2Fapi%2Fapp.py", "%2Fetc%2Fpasswd"])
def test_nothing_else_is_served(federation: Federation, name: str) -> None:
    answer = httpx.get(f"{federation.url}/dashboard/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = Page(FILES["index.html"])
    assert page.inline.strip() == ""
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
    for name, text in FILES.items():
        told = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(
            r"(https?:)?//[a-z0-9-]+\.[a-z]|@import|\beval\(|innerHTML|new Function", told
        ), name


def test_every_part_that_is_named_is_there() -> None:
    named = {
        value.removeprefix("dashboard/")
        for _, attributes in Page(FILES["index.html"]).tags
        for value in attributes.values()
        if value is not None and value.startswith("dashboard/")
    }
    for text in SCRIPTS.values():
        named |= set(re.findall(r'from "\./([^"]+)"', text))
    assert named == set(FILES) - {"index.html"}


def keys_of(name: str) -> set[str]:
    """Return the keys of an object that words.js exports."""
    found = re.search(rf"export const {name} = \{{(.*?)\n?\}};", SCRIPTS["words.js"], re.DOTALL)
    assert found is not None
    return set(re.findall(r"(?:^|[{,])\s*(\w+):", found[1], re.MULTILINE))


def test_its_words_are_those_of_the_contract() -> None:
    assert keys_of("STATES") == {state.value for state in LeaseState}
    assert keys_of("DISCLOSURE") == set(get_args(DisclosureLevel))
