"""Statements of the page on real clouds have tests: a table quotes the page, and its tests exist."""

from __future__ import annotations

import re

import pytest

from tests.unit.docs.test_faults import ROOT, named_in

_NAMED = re.compile(r"`([\w/.]+\.py)::(\w+)`")
PAGE = " ".join((ROOT / "docs" / "concepts" / "real-clouds.md").read_text(encoding="utf-8").split())
TABLE = (ROOT / "tests" / "REAL_CLOUDS.md").read_text(encoding="utf-8").splitlines()
ROWS = [line.strip("| ").split(" | ") for line in TABLE if line.startswith("|")][2:]


@pytest.mark.parametrize(("statement", "tests"), ROWS)
def test_a_statement_is_on_the_page_and_its_tests_exist(statement: str, tests: str) -> None:
    assert statement in PAGE
    named = _NAMED.findall(tests)
    assert len(named) == tests.count("::") > 0
    for path, name in named:
        assert name in named_in(path), f"{path}::{name}"
