"""The HTTP API: routes, who may call them, what is sent and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from broker.api.app import DESCRIPTION, create_app
from broker.api.door import Door
from broker.cli.reference.markdown import code, laid_out, prose, table
from broker.cli.reference.schemas import described, type_of
from broker.identity.permissions import LEAST, RANK, Action, Role
from broker.settings import Settings

_FIRST = "spot requests and clouds"
_PROBLEM = "application/problem+json"


def page() -> str:
    """The page."""
    app = create_app(Settings(redis_url="redis://nowhere.invalid"))
    document: dict[str, Any] = app.openapi()
    actions = dict(_actions(app))
    groups: dict[str, list[str]] = {}
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            (group,) = operation.get("tags", [_FIRST])
            route = f"{verb.upper()} {path}"
            groups.setdefault(group, []).extend(_operation(route, operation, actions.get(route)))
    parts = [prose(DESCRIPTION), "", "Calls carry `Authorization: Bearer KEY`. " + _roles(), ""]
    for group in sorted(groups, key=lambda one: (one != _FIRST, one)):
        parts += [f"## {group[0].upper()}{group[1:]}", "", *groups[group]]
    parts += ["## Messages", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name}", "", *described(schema), ""]
    about = "All calls of the HTTP API. A running API has the same as an OpenAPI document at `/openapi.json`."
    return laid_out("HTTP API", about, *parts, source="`broker.api`")


def _actions(app: FastAPI) -> Iterator[tuple[str, Action]]:
    """By route: what its door says that it does."""
    for route in iter_route_contexts(app.routes):
        dependants = [route.dependant] if hasattr(route, "dependant") else []
        while dependants:
            one = dependants.pop()
            dependants += one.dependencies
            if isinstance(one.call, Door):
                path = (route.path or "").replace(":path}", "}")
                yield from ((f"{method} {path}", one.call.action) for method in route.methods or ())


def _roles() -> str:
    ranked = ", ".join(role for role, _ in sorted(RANK.items(), key=lambda one: one[1]))
    return f"The roles, from the one that may least: {ranked}; each may what those before may."


def _operation(route: str, operation: dict[str, Any], action: Action | None) -> list[str]:
    parts = [
        f"### `{route}`",
        "",
        f"{prose(operation['summary'])}. {prose(operation.get('description'))}",
        "",
    ]
    least = "anybody, without a key" if action is None else LEAST[action]
    may = least if action is None or least is Role.OPERATOR else f"{least} and above"
    parts += [f"- Who may: {may}"]
    if body := operation.get("requestBody"):
        (content,) = body["content"].values()
        parts += [f"- Body: {type_of(content['schema'])}"]
    answers, problems = [], []
    for status, response in sorted(operation["responses"].items()):
        content = response.get("content", {})
        if _PROBLEM in content:
            problems.append(status)
            continue
        said = response["description"]
        said = HTTPStatus(int(status)).phrase if said == "Successful Response" else said
        kinds = [type_of(one["schema"]) for one in content.values() if one.get("schema")]
        answers.append(f"{status} {prose(said)}" + (f", {' or '.join(kinds)}" if kinds else ""))
    parts += [f"- Answer: {one}" for one in answers]
    if problems:
        parts += [f"- [Problems](problems.md): {', '.join(problems)}"]
    rows = [
        (code(one["name"]), one["in"], type_of(one["schema"]), prose(one.get("description")))
        for one in operation.get("parameters", [])
        if one["in"] != "path"
    ]
    columns = 4 if any(row[3] for row in rows) else 3
    head = ("parameter", "in", "type", "what")[:columns]
    return [*parts, "", table(head, (row[:columns] for row in rows)), ""]
