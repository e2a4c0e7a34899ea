"""The OpenAPI document: what FastAPI gathers from the routes, and the bodies and problems it does not see."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from broker.api.schemas.api_keys import KeyWish, Rotation
from broker.api.schemas.clouds import Advance, DrainRequest
from broker.api.schemas.members import MemberChange, MemberWish
from broker.api.schemas.problems import Problem
from broker.contract import (
    Event,
    ExtensionRequest,
    OnDemandRequest,
    OnDemandRequests,
    QuoteRequest,
    SpotRequest,
)
from broker.jobs.models import JobWish
from broker.webhooks.models import WebhookChange, WebhookWish

_REFERENCE = "#/components/schemas/"
_SAID: dict[int, str] = {
    400: "the body is not JSON",
    401: "an API key is needed",
    403: "not for the role of this key",
    404: "there is no such thing, or it is somebody else's",
    409: "refused (problem:refused), not answered yet (problem:in-flight), or not told (problem:not-noticed)",
    410: "events after this Last-Event-ID are no longer kept",
    413: "the body is too large",
    415: "the body is not sent as JSON",
    422: "the input cannot be used; errors names the fields and what is accepted",
    429: "too many calls with this key, ask again after Retry-After",
    503: "the queue or the cloud does not answer, ask again after Retry-After; or not ready",
}


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For ``responses=``: statuses that are answered with a problem."""
    content = {"application/problem+json": {"schema": {"$ref": f"{_REFERENCE}{Problem.__name__}"}}}
    return {status: {"description": _SAID[status], "content": content} for status in statuses}


def body_of(
    model: str, or_list: str | None = None, *, or_model: str | None = None, example: dict[str, Any]
) -> dict[str, Any]:
    """For ``openapi_extra=``: a JSON body that the call reads itself; ``or_list``: or a list of them;
    ``or_model``: or another one."""
    schema: dict[str, Any] = {"$ref": _REFERENCE + model}
    if or_model is not None:
        schema = {"anyOf": [schema, {"$ref": _REFERENCE + or_model}]}
    if or_list is not None:
        several = {"type": "array", "items": schema, "maxItems": 5000, "description": or_list}
        schema = {"anyOf": [schema, several]}
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": example}},
        }
    }


def install(app: FastAPI) -> None:
    """Gives ``app`` its document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            sent = (
                SpotRequest,
                QuoteRequest,
                ExtensionRequest,
                OnDemandRequest,
                OnDemandRequests,
                Advance,
                DrainRequest,
                WebhookWish,
                WebhookChange,
                MemberWish,
                MemberChange,
                KeyWish,
                Rotation,
                JobWish,
            )
            modes = [(model, "validation") for model in (*sent, Problem, Event)]
            _, more = models_json_schema(modes, ref_template=_REFERENCE + "{model}")  # type: ignore[arg-type]
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            for name, schema in more["$defs"].items():
                schemas.setdefault(name, schema)
            _drop_unused(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _drop_unused(document: dict[str, Any]) -> None:
    """FastAPI describes a 422 of its own for every call with parameters; ours are problems."""
    problem = problem_responses(422)[422]
    for operations in document["paths"].values():
        for operation in operations.values():
            told = operation["responses"].get("422")
            if told is not None and "application/problem+json" not in told["content"]:
                operation["responses"]["422"] = {**problem, "description": HTTPStatus(422).phrase}
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
