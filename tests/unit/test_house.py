"""The house rules that a machine can hold: names, imports and docstrings of the three packages."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("broker", "workers", "cloudsim")

#: All in one process, which parses the packages once.
pytestmark = pytest.mark.xdist_group("house")

#: Words that end like a participle or a gerund and are nouns of the field.
NOUNS = {
    "archiving", "formatting", "sampling", "tuning",
    "bidding", "billing", "censoring", "drawing", "feed", "logging", "masking", "parsing", "ranking",
    "routing", "scaling", "scheduling", "signing", "targeting", "testing",
}  # fmt: skip

#: How a docstring that leans on its surroundings begins.
LEANS = re.compile(
    r"(As|The same|Of|By|So many|Such|What|Who|Whose|Whom|Which|Whether|How|That|Where|When|It|They|Its|Their"
    r"|For|In|Those|These|With|Without|At|On|From|To)\b"
)
VAGUE = re.compile(r"\b(so many|such a|somebody|of whom|who wants)\b", re.IGNORECASE)


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def test_few_modules_stand_at_the_top() -> None:
    most = {"broker": 4, "workers": 3, "cloudsim": 2}
    counts = {package: len(list((ROOT / package).glob("*.py"))) for package in PACKAGES}
    assert {package: count for package, count in counts.items() if count > most[package]} == {}


def test_a_module_is_named_by_a_noun() -> None:
    heads = {name: name.rpartition(".")[2].rpartition("_")[2] for name in modules()}
    assert [
        name for name, head in heads.items() if re.search(r"(ing|ed|ly)$", head) and head not in NOUNS
    ] == []


def test_a_class_name_is_defined_once() -> None:
    where = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(name)
    assert {cls: names for cls, names in where.items() if len(names) > 1} == {}


def test_only_packages_export_what_others_define() -> None:
    assert [
        f"{name}: {alias.name}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ] == []


def test_imports_make_no_circle() -> None:
    graph = {name: set(_imported(name, tree)) for name, tree in modules().items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def _imported(name: str, tree: ast.Module) -> Iterator[str]:
    """Modules that ``name`` imports as it is imported itself, type checking left out."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules():
                    yield inner
                elif node.module in modules():
                    yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_docstring_is_read_alone(package: str) -> None:
    told = []
    for name, tree in modules().items():
        if name.partition(".")[0] != package:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node)
                if text and (LEANS.match(text) or VAGUE.search(text)):
                    told.append(f"{name}:{getattr(node, 'name', '')}: {text.splitlines()[0]}")
    assert told == []
