"""SECURITY.md promises nothing that no test holds, and the configuration that it names is what it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_promise_names_its_tests() -> None:
    promises = TEXT.partition("## Promises\n")[2].partition("\n## ")[0]
    items = re.split(r"\n- ", promises)[1:]
    assert len(items) > 20
    assert [item for item in items if not _NAMED.search(item)] == []


def test_the_tests_that_are_named_exist() -> None:
    named = _NAMED.findall(TEXT)
    assert len(named) == len(set(named)) > 20
    there: dict[str, set[str]] = {}
    for path in {path for path, _ in named}:
        file = ROOT / path
        tree = ast.parse(file.read_text(encoding="utf-8")) if file.exists() else ast.Module([], [])
        there[path] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert [f"{path}::{name}" for path, name in named if name not in there[path]] == []


def test_settings_that_are_named_exist() -> None:
    from broker.settings import PREFIX, Settings

    named = set(re.findall(rf"{PREFIX}([A-Z_]+)", TEXT))
    assert named
    assert {name.lower() for name in named} <= set(Settings.model_fields)


def test_the_configuration_of_redis_is_the_one_that_is_promised() -> None:
    lines = (ROOT / "deploy/redis/redis.conf").read_text(encoding="utf-8").splitlines()
    told = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    wanted = {
        "port": "0", "appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction",
        "tls-protocols": '"TLSv1.2 TLSv1.3"', "protected-mode": "yes",
    }  # fmt: skip
    assert {name: told[name] for name in wanted} == wanted
    assert told.keys() >= {
        "tls-port",
        "tls-cert-file",
        "tls-key-file",
        "tls-ca-cert-file",
        "aclfile",
        "maxmemory",
    }
