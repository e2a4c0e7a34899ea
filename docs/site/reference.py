"""Reference pages that are made from the code when the site is built: commands and the HTTP API."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from broker.api.app import create_app
from broker.api.dependencies import PermissionDependency
from broker.contract import EventKind
from broker.identity.permissions import LEAST, RANK, Action
from broker.settings import Settings
from cloudsim.model.refusals import RefusalReason

ROOT = Path(__file__).resolve().parents[2]
RICH = re.compile(r"\[/?(?:bold|italic|dim)\]")


def commands() -> str:
    """Return the page of all commands, as Typer documents them."""
    typer = [sys.executable, "-m", "typer", "broker.cli.app", "utils", "docs"]
    program = [*typer, "--name", "spotfed", "--title", "Commands"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return RICH.sub("", done.stdout)


def refusal_reasons() -> str:
    """Return the table of all reasons of refusals."""
    rows = (
        f"| `{reason}` | {reason.text} | {'yes' if reason.retryable else ''} |" for reason in RefusalReason
    )
    return "\n".join(("| name | meaning | worth another try soon |", "| --- | --- | --- |", *rows))


def event_kinds(*, public: bool) -> str:
    """Return the table of the kinds of events that are public, or of those that are not."""
    rows = (f"| `{kind}` | {kind.text} |" for kind in EventKind if kind.is_public is public)
    return "\n".join(("| name | meaning |", "| --- | --- |", *rows))


def http_api(app: FastAPI) -> str:
    """Return the page of all calls of the HTTP API."""
    return "\n".join(_http_api(app.openapi(), dict(_actions(app))))


def _actions(app: FastAPI) -> Iterator[tuple[str, Action]]:
    """Yield each call that needs a key, with the action that the holder must be allowed."""
    for route in iter_route_contexts(app.routes):
        dependants = [route.dependant] if hasattr(route, "dependant") else []
        while dependants:
            dependant = dependants.pop()
            dependants += dependant.dependencies
            if isinstance(dependant.call, PermissionDependency):
                path = (route.path or "").replace(":path}", "}")
                yield from ((f"{method} {path}", dependant.call.action) for method in route.methods or ())


def _http_api(document: dict[str, Any], actions: dict[str, Action]) -> Iterator[str]:
    yield f"# HTTP API\n\n{document['info']['description']}\n"
    yield (
        "Calls carry `Authorization: Bearer KEY`; [problems](problems.md) tell what went wrong. All messages "
        "with their fields are in the [OpenAPI document](openapi.json); a running API serves it at "
        "`/openapi.json`, and shows it at `/docs`.\n"
    )
    ranked = ", ".join(role.value for role, _ in sorted(RANK.items(), key=lambda item: item[1]))
    yield f"The roles, from the one that may do least: {ranked}. Each may do what those before it may.\n"
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            call = f"{verb.upper()} {path}"
            yield f"## `{call}`\n\n{operation['summary']}. {operation.get('description', '')}\n"
            yield f"- role: {LEAST[actions[call]] if call in actions else 'none, no key is needed'}"
            for parameter in operation.get("parameters", []):
                about = parameter.get("description") or _type(parameter["schema"])
                yield f"- {parameter['in']} `{parameter['name']}`: {about}"
            if body := operation.get("requestBody"):
                names = ", ".join(f"`{_type(content['schema'])}`" for content in body["content"].values())
                yield f"- body: {names}"
            for status, response in operation["responses"].items():
                contents = response.get("content", {}).values()
                names = ", ".join(f"`{_type(one['schema'])}`" for one in contents if one.get("schema"))
                yield f"- answer {status}: {names or response['description']}"
            yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(_type, several))
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "anything"))


def pages() -> dict[str, str]:
    """Return the content of each file that the site has beside ``docs/``."""
    app = create_app(Settings(redis_url="redis://nowhere.invalid"))
    return {
        "reference/commands.md": commands(),
        "reference/http-api.md": http_api(app),
        "reference/openapi.json": json.dumps(app.openapi(), indent=1),
    }
