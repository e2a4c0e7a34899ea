"""The table of faults names tests that exist, for every fault that is promised to be survived."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from broker.failpoints import Failpoint

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "tests" / "FAULTS.md"
_NAMED = re.compile(r"`([\w/.]+\.py)::(\w+)`")
#: What a row says that has no test of its own: one sentence.
_REASON = re.compile(r"^Not \w+: .+\.$")


@cache
def rows() -> dict[str, str]:
    """What holds each fault, by its name."""
    found: dict[str, str] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|") or cells[0] in ("fault", "named point", "---"):
            continue
        assert len(cells) == 2, line
        assert cells[0] not in found, f"twice: {cells[0]}"
        found[cells[0]] = cells[1]
    return found


@cache
def named_in(path: str) -> frozenset[str]:
    """Functions of a test file that pytest would call."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(node.name for node in named if node.name.startswith("test_")) | {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.startswith("test_")
    }


@pytest.mark.parametrize("point", Failpoint)
def test_every_named_point_is_in_the_table_and_has_a_case(point: Failpoint) -> None:
    assert sum(name.startswith(f"{point}: ") for name in rows()) == 1
    cases = (ROOT / "tests" / "integration" / "test_failpoints.py").read_text(encoding="utf-8")
    assert re.search(rf'"{point}["/]', cases)


@pytest.mark.parametrize("fault", rows())
def test_each_is_held_by_tests_that_exist_or_says_why_not(fault: str) -> None:
    held = rows()[fault]
    named = _NAMED.findall(held)
    if not named:
        assert _REASON.match(held), held
        return
    assert held.count("::") == len(named), f"a name that is none: {held}"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in named_in(path), f"{path}::{name}"
