"""Makes the OpenAPI document: what FastAPI gathers from routes, and the bodies and problems beside it."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from broker.contract import Event
from broker.schemas.problems import Problem

_REFERENCE = "#/components/schemas/"
#: Components that do not have the name of their class, because clients know them by an earlier one.
_COMPONENT_NAMES = {"RefusalReason": "Reason", "StorageKind": "Storage"}
_DESCRIPTIONS: dict[int, str] = {
    400: "the body is not JSON",
    401: "an API key is needed",
    403: "not for the role of this key",
    404: "there is no such object, or it is another member's",
    409: "refused (problem:refused), in flight (problem:in-flight), or without notice (problem:not-noticed)",
    408: "the body came too slowly",
    410: "events after this Last-Event-ID are no longer kept",
    413: "the body is too large",
    415: "the body is not sent as JSON",
    422: "the input is invalid; errors names the fields and what is accepted",
    429: "too many calls a second or at a time, ask again after Retry-After",
    503: "the queue or the cloud does not answer, ask again after Retry-After; or not ready",
    507: "the queue has no memory or disk left, and nothing was changed",
}
#: Models that routes document themselves, added to by ``document_body`` when modules of routes are imported.
_models: list[type[BaseModel]] = [Problem, Event]


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route for statuses that are answered with a problem."""
    content = {"application/problem+json": {"schema": _schema(Problem)}}
    return {status: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses}


def document_body(
    *models: type[BaseModel], example: dict[str, Any], list_description: str | None = None
) -> dict[str, Any]:
    """Return the ``openapi_extra`` of a route that parses its JSON body itself.

    Parameters
    ----------
    models
        The body is one of these.
    example
        A body that is accepted.
    list_description
        Describes a list of the first model, which the route accepts as well; None if it does not.
    """
    _models.extend(models)
    schemas = [_schema(model) for model in models]
    schema: dict[str, Any] = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    if list_description is not None:
        items = {"type": "array", "items": schemas[0], "maxItems": 5000, "description": list_description}
        schema = {"anyOf": [*schemas, items]}
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def install(app: FastAPI) -> None:
    """Make ``app`` serve the complete document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    modes = [(model, "validation") for model in _models]
    _, definitions = models_json_schema(modes, ref_template=_REFERENCE + "{model}")  # type: ignore[arg-type]
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    _replace_validation_errors(document)
    _name_keys(document)
    return _with_component_names(document)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _REFERENCE + model.__name__}


def _replace_validation_errors(document: dict[str, Any]) -> None:
    """Replace the 422 that FastAPI documents for each call with parameters: it is answered with a problem."""
    problem = problem_responses(422)[422]
    for operations in document["paths"].values():
        for operation in operations.values():
            response = operation["responses"].get("422")
            if response is not None and "application/problem+json" not in response["content"]:
                operation["responses"]["422"] = {**problem, "description": HTTPStatus(422).phrase}
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _name_keys(document: dict[str, Any]) -> None:
    """Document the API key of each call that is answered with 401 without one."""
    document["components"]["securitySchemes"] = {"HTTPBearer": {"type": "http", "scheme": "bearer"}}
    for operations in document["paths"].values():
        for operation in operations.values():
            if "401" in operation["responses"]:
                operation["security"] = [{"HTTPBearer": []}]


def _with_component_names(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    for class_name, name in _COMPONENT_NAMES.items():
        assert name not in schemas, f"two components are called {name}"
        text = text.replace(f'"{_REFERENCE}{class_name}"', f'"{_REFERENCE}{name}"')
    renamed: dict[str, Any] = json.loads(text)
    schemas = renamed["components"]["schemas"]
    for class_name, name in _COMPONENT_NAMES.items():
        schemas[name] = schemas.pop(class_name) | {"title": name}
    return renamed
