"""The OpenAPI document: whole, and true of what the API does. No server is needed."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.api.app import create_app
from broker.contract import ExtensionRequest, QuoteRequest, SpotRequest
from broker.schemas.problems import Problem
from broker.settings import Settings

VERBS = {"get", "post", "delete", "patch"}
#: There is nothing to say but a name.
WITHOUT_BODY = ("/acknowledge", "/test", "/rotate-secret", "/redeliver")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    app = create_app(Settings(redis_url="redis://nowhere.invalid"))
    made: dict[str, Any] = json.loads(json.dumps(app.openapi()))
    return made


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            assert verb in VERBS
            yield path, verb, operation


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = list(references(document))
    assert found
    for reference in found:
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"]


def test_operations_have_names_of_their_own_and_say_what_they_do(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for path, verb, operation in operations(document):
        assert operation["summary"], (path, verb)
        assert all(response["description"] for response in operation["responses"].values())


def test_every_error_is_a_problem(document: dict[str, Any]) -> None:
    for path, verb, operation in operations(document):
        errors = {status: one for status, one in operation["responses"].items() if status >= "4"}
        if path.startswith("/v1"):
            assert {"401", "503"} <= errors.keys(), (path, verb)
            assert operation["security"] == [{"HTTPBearer": []}]
        for status, one in errors.items():
            schema = one["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}, (path, verb, status)
    assert "409" in document["paths"]["/v1/requests"]["post"]["responses"]
    assert set(document["components"]["schemas"]["Problem"]["properties"]) == set(Problem.model_fields)


def test_bodies_are_described_with_an_example_that_is_accepted(document: dict[str, Any]) -> None:
    for path, verb, operation in operations(document):
        if verb not in ("post", "patch") or path.endswith(WITHOUT_BODY):
            continue
        (media,) = operation["requestBody"]["content"].values()
        assert media["example"], path
    media = document["paths"]["/v1/requests"]["post"]["requestBody"]["content"]["application/json"]
    SpotRequest.model_validate(media["example"])
    one, several = media["schema"]["anyOf"]
    for path, model in (("/v1/quotes", QuoteRequest), ("/v1/leases/{lease_id}/extend", ExtensionRequest)):
        media = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        model.model_validate(media["example"])
        assert media["schema"] == {"$ref": f"#/components/schemas/{model.__name__}"}
    assert several["items"] == one == {"$ref": "#/components/schemas/SpotRequest"}


def test_the_calls_are_those_of_the_design(document: dict[str, Any]) -> None:
    calls = {f"{verb.upper()} {path}" for path, verb, _ in operations(document)}
    assert calls == {
        "POST /v1/requests",
        "POST /v1/quotes",
        "GET /v1/leases",
        "GET /v1/leases/{lease_id}",
        "DELETE /v1/leases/{lease_id}",
        "GET /v1/leases/{lease_id}/instance",
        "POST /v1/leases/{lease_id}/extend",
        "POST /v1/leases/{lease_id}/acknowledge",
        "GET /v1/clouds",
        "GET /v1/clouds/{cloud}",
        "GET /v1/clouds/{cloud}/table",
        "POST /v1/clouds/{cloud}/on-demand",
        "GET /v1/clouds/{cloud}/on-demand/{instance}",
        "GET /v1/clouds/{cloud}/on-demand-instances/{instance}",
        "DELETE /v1/clouds/{cloud}/on-demand/{instance}",
        "POST /v1/clouds/{cloud}/drain",
        "DELETE /v1/clouds/{cloud}/drain",
        "POST /v1/clouds/{cloud}/advance",
        "GET /v1/events",
        "GET /v1/ledger",
        "POST /v1/webhooks",
        "GET /v1/webhooks",
        "GET /v1/webhooks/{webhook}",
        "PATCH /v1/webhooks/{webhook}",
        "DELETE /v1/webhooks/{webhook}",
        "POST /v1/webhooks/{webhook}/test",
        "POST /v1/webhooks/{webhook}/rotate-secret",
        "GET /v1/webhooks/{webhook}/deliveries",
        "POST /v1/webhooks/{webhook}/deliveries/{delivery}/redeliver",
        "POST /v1/jobs",
        "GET /v1/jobs",
        "GET /v1/jobs/{job}",
        "GET /v1/jobs/{job}/logs",
        "DELETE /v1/jobs/{job}",
        "GET /v1/members",
        "POST /v1/members",
        "GET /v1/members/{name}",
        "PATCH /v1/members/{name}",
        "DELETE /v1/members/{name}",
        "GET /v1/keys",
        "POST /v1/keys",
        "POST /v1/keys/{key_id}/rotate",
        "DELETE /v1/keys/{key_id}",
        "GET /v1/audit",
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
    }


def test_a_wrong_method_is_told_all_right_ones(document: dict[str, Any]) -> None:
    app = create_app(Settings(redis_url="redis://nowhere.invalid"))

    async def allowed() -> dict[str, list[str]]:
        transport = httpx.ASGITransport(app)  # whose start would connect, does not run
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            answers = {path: await client.request("TRACE", path) for path in document["paths"]}
        assert {answer.status_code for answer in answers.values()} == {405}
        return {path: answer.headers["Allow"].split(", ") for path, answer in answers.items()}

    told = asyncio.run(allowed())
    assert told == {
        path: sorted({verb.upper() for verb in verbs} | ({"HEAD"} if "get" in verbs else set()))
        for path, verbs in document["paths"].items()
    }


def test_the_web_process_starts_without_heavy_modules() -> None:
    code = (
        "import sys; from broker.api.app import create_app; import broker.client.client;"
        "create_app(); heavy = {'numba', 'pandas', 'matplotlib', 'typer', 'numpy'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_client_starts_without_the_server_modules() -> None:
    code = (
        "import sys; import broker.client;"
        "server = {'redis', 'opentelemetry', 'typer', 'fastapi', 'celery', 'numpy'} & set(sys.modules);"
        "sys.exit(str(server) if server else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
