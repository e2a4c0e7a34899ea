"""Problems that calls of the HTTP API end with, read out of the source that makes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from http import HTTPStatus
from importlib import resources
from typing import NamedTuple

from broker.api.models import Problem
from broker.api.problems import ACCEPTED, MEDIA_TYPE
from broker.cli.reference.markdown import code, laid_out, prose, table
from broker.cli.reference.schemas import fields, unlinked


class Kind(NamedTuple):
    """A kind of problem. said: the detail, with … for what differs from call to call."""

    name: str
    status: int
    title: str
    said: str


#: Function that makes a problem → where its status stands, or the one that it always has.
_MAKERS = {"_problem": None, "_later": 503, "conflict": 409}


def page() -> str:
    """The page."""
    rows = [
        (code(one.name), f"{one.status} {HTTPStatus(one.status).phrase}", prose(one.title), prose(one.said))
        for one in sorted(kinds(), key=lambda one: (one.status, one.name))
    ]
    return laid_out(
        "Problems",
        "How the HTTP API says that a call failed, and what to do then.",
        f"Every error is a problem as RFC 9457 has it (`{MEDIA_TYPE}`). Its `type` is "
        "`urn:spotfed:problem:NAME`: branch on that. `detail` is for people. Where a problem comes with "
        "`Retry-After`, the same call with the same id may be repeated after that time.",
        "",
        unlinked("\n".join(fields(Problem.model_json_schema())), set()),
        "",
        "## Kinds",
        "",
        table(("name", "status", "title", "detail"), rows),
        "",
        "## What fields accept",
        "",
        "A 422 names each field that cannot be used, and in `accepted` what could be:",
        "",
        table(("field", "accepted"), ((code(name), prose(text)) for name, text in sorted(ACCEPTED.items()))),
        source="`broker.api.problems`",
    )


def kinds() -> Iterator[Kind]:
    """All kinds that the modules of the API make."""
    for file in sorted(resources.files("broker.api").iterdir(), key=lambda one: one.name):
        if file.name.endswith(".py"):
            yield from _of(ast.parse(file.read_text(encoding="utf-8")))


def _of(tree: ast.Module) -> Iterator[Kind]:
    for outer in ast.walk(tree):
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        details = {"": (ast.get_docstring(outer) or "").partition(": ")[2]}
        for node in ast.walk(outer):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                details.setdefault(node.targets[0].id, _text(node.value))
        for node in ast.walk(outer):
            if isinstance(node, ast.Call):
                yield from _made(node, details)


def _made(call: ast.Call, details: dict[str, str]) -> Iterator[Kind]:
    maker = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if maker not in _MAKERS or not call.args or not isinstance(call.args[0], ast.Constant):
        return
    arguments = list(call.args)
    status = _MAKERS[maker]
    if status is None:
        number = arguments.pop(1)
        assert isinstance(number, ast.Constant)
        status = int(str(number.value))
    name, title, detail = arguments
    assert isinstance(name, ast.Constant)
    said = details.get(detail.id, "…") if isinstance(detail, ast.Name) else _text(detail)
    if said == "…" and maker != "conflict":  # what it says is told by the function's caller
        said = details[""]
    yield Kind(str(name.value), status, _text(title), said)


def _text(node: ast.expr) -> str:
    """What a literal says, with … for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return re.sub("…+", "…", "".join(_text(part) for part in parts))
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case _:
            return "…"
