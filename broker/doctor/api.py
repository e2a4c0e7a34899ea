"""Checks the HTTP API: whether it lives, is ready, and accepts the API key of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from broker.doctor.certificates import certificate_result
from broker.doctor.check import CheckResult, State, check, failure, ok, warning
from broker.doctor.installation import ANSWER_TIMEOUT_S, Installation, NoAnswerError
from broker.doctor.packages import installed_version
from broker.settings import SettingsError, is_local, public_address, variable
from broker.storage.tls import api_context

if TYPE_CHECKING:
    import httpx


@check("api")
def check_api(installation: Installation) -> Iterator[CheckResult]:
    """Check that the API lives, proves its identity, and has the version of this code."""
    settings, base_url = installation.settings, installation.api_url
    if base_url is None:
        yield ok(f"{variable('url')} is not set and `spotfed up` does not run here, so none was asked")
        return
    certificate = certificate_result("api certificate", base_url, settings)
    if certificate is not None:
        yield certificate
        if certificate.state is State.FAILURE:
            return
    url = public_address(base_url)
    try:
        client = _connect(installation, base_url)
        _get(client, "/healthz", must_succeed=True)
        theirs = _json(_get(client, "/openapi.json")).get("info", {}).get("version")
    except NoAnswerError as error:
        yield failure(f"{url} does not answer: {error}", f"start it, or correct {variable('url')}")
        return
    except SettingsError as error:
        yield failure(str(error), "correct it; until then there is no connection")
        return
    installation.api_client = client
    ours = installed_version("spotfed")
    if theirs is not None and ours is not None and theirs != ours:
        advice = "install the same version here and there"
        yield warning(f"{url} is spotfed {theirs}, this one is {ours}", advice)
    else:
        yield ok(f"{url} lives, spotfed {theirs or 'of an unknown version'}")


@check("api ready")
def check_api_ready(installation: Installation) -> CheckResult:
    """Check that the API can work: Redis answers it, and a cloud can be asked."""
    response = _get(installation.api_client, "/readyz")
    if response.is_success:
        return ok("the queue answers it, and a cloud can be asked")
    why = _json(response).get("detail") or f"status {response.status_code}"
    return failure(f"it is not ready: {why}", "see the checks of redis and owners")


@check("api key")
def check_api_key(installation: Installation) -> CheckResult:
    """Check that the API accepts the key that commands send."""
    client, key = installation.api_client, installation.api_key
    where = f"{variable('api_key')}, or what `spotfed up` writes"
    if key is None:
        return warning("there is none, so commands will be refused", f"set {where}")
    status = _get(client, "/v1/clouds", {"Authorization": f"Bearer {key}"}).status_code
    if status in {401, 403}:
        return failure(f"the API refuses it (status {status})", f"correct {where}")
    if status >= 500:
        return warning(f"the API could not say (status {status})", "see its log")
    return ok("the API takes it")


def _connect(installation: Installation, base_url: str) -> httpx.Client:
    """Return a client, which is closed with the installation. Raises SettingsError for its TLS files."""
    import httpx  # owners check Redis with this package, and start 90 ms sooner without it

    context = api_context(installation.settings)
    client = httpx.Client(
        base_url=base_url, timeout=ANSWER_TIMEOUT_S, verify=context, trust_env=not is_local(base_url)
    )
    return installation.connections.enter_context(client)


def _get(
    client: httpx.Client, path: str, headers: Mapping[str, str] | None = None, *, must_succeed: bool = False
) -> httpx.Response:
    """Return the answer, of any status unless it ``must_succeed``. Raises NoAnswerError."""
    import httpx

    try:
        response = client.get(path, headers=headers)
        return response.raise_for_status() if must_succeed else response
    except httpx.HTTPError as error:
        raise NoAnswerError(str(error) or type(error).__name__) from error


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
