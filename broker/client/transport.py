"""Sends the calls of the client and repeats them while the broker is away."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from httpx_sse import ServerSentEvent, SSEError, connect_sse
from pydantic import BaseModel, ValidationError

from broker.backoff import API_BACKOFF, retry_after_s
from broker.client.errors import (
    IN_FLIGHT,
    REFUSED,
    ProtocolError,
    UnavailableError,
    UntrustedError,
    make_error,
    read_problem,
)
from broker.contract import read_message
from broker.contract.launch import REVEAL
from broker.settings import public_address
from broker.storage.tls import explain_tls_error

_LONGEST_PAUSE_S = 60.0  # that a server may ask for
_EVENT_SILENCE_S = 45.0  # the server sends a comment every 15 s

_Model = TypeVar("_Model", bound=BaseModel)


class ApiTransport:
    """Sends calls to one broker over HTTP.

    Each call is repeated until its answer is final or the deadline passes.
    """

    def __init__(self, http: httpx.Client, deadline_s: float):
        self.deadline_s = deadline_s
        self._http = http

    def send(
        self,
        method: str,
        path: str,
        body: BaseModel | Sequence[BaseModel] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> httpx.Response:
        """Send a call until its answer is a success or a refusal.

        Parameters that are None are left out.

        Raises
        ------
        ProblemAnswer
            When the API answers with a problem that repeating would not change.
        UnavailableError
            When there is no answer before the deadline.
        """
        content, headers = _encode_body(body)
        gives_up_s = time.monotonic() + self.deadline_s
        for pause_s in API_BACKOFF.pauses():
            asked_pause_s = 0.0
            try:
                response = self._http.request(
                    method, path, content=content, headers=headers, params=_omit_none(parameters or {})
                )
            except httpx.TransportError as error:
                reason = self._explain_silence(error)
            else:
                if response.is_success or not _is_temporary(response):
                    return response
                reason = read_problem(response).detail
                asked_pause_s = min(retry_after_s(response) or 0.0, _LONGEST_PAUSE_S)
            wait_s = max(asked_pause_s, pause_s)
            if time.monotonic() + wait_s > gives_up_s:
                raise UnavailableError(f"{reason} (gave up after {self.deadline_s:g} s)")
            time.sleep(wait_s)
        raise AssertionError("pauses never end")

    def stream(
        self, path: str, parameters: dict[str, Any], last_event_id: str | None, *, follow: bool
    ) -> Iterator[ServerSentEvent]:
        """Yield the events of a stream in order; after a lost connection, go on behind the last one.

        Ends with the stream unless ``follow`` is set.

        Raises
        ------
        ProblemAnswer
            When the API answers with a problem that repeating would not change.
        UnavailableError
            When the broker stays away for longer than the deadline.
        """
        gives_up_s = time.monotonic() + self.deadline_s
        pauses = API_BACKOFF.pauses()
        while True:
            headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
            try:
                with connect_sse(
                    self._http,
                    "GET",
                    path,
                    params=_omit_none(parameters),
                    headers=headers,
                    timeout=httpx.Timeout(10.0, read=_EVENT_SILENCE_S),
                ) as source:
                    if source.response.status_code != 200:
                        source.response.read()
                        _is_temporary(source.response)
                    else:
                        for event in source.iter_sse():
                            gives_up_s = time.monotonic() + self.deadline_s
                            pauses = API_BACKOFF.pauses()
                            last_event_id = event.id or last_event_id
                            if event.data:
                                yield event
                        if not follow:
                            return
            except (httpx.TransportError, SSEError) as error:
                if (reason := self._explain_silence(error)) and time.monotonic() > gives_up_s:
                    raise UnavailableError(reason) from error
            if time.monotonic() > gives_up_s:
                raise UnavailableError(f"{public_address(str(self._http.base_url))} does not send events")
            time.sleep(next(pauses))

    def _explain_silence(self, error: Exception) -> str:
        """Return a message about an API that did not answer.

        Raises
        ------
        UntrustedError
            When TLS refused the connection, so that repeating the call would not help.
        """
        url = public_address(str(self._http.base_url))
        untrusted = explain_tls_error(error, url, "ca")
        if untrusted is not None:
            raise UntrustedError(untrusted) from error
        text = f"{url} does not answer: {str(error) or type(error).__name__}"
        if url.startswith("https:") and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
            # A server that asked for a certificate and got none only closes the connection.
            text += " (if it asks for a client certificate, set SPOTFED_CLIENT_CERT and SPOTFED_CLIENT_KEY)"
        return text


class Resource:
    """Base class of the resources of the client, which share its transport."""

    def __init__(self, transport: ApiTransport):
        self._transport = transport


def parse(model: type[_Model], response: httpx.Response) -> _Model:
    """Return the body of an answer as a model.

    Raises
    ------
    ProtocolError
        When the body is something else.
    """
    try:
        return read_message(model, response.content)
    except ValidationError as error:
        url = public_address(str(response.url))
        raise ProtocolError(
            f"{url} answered {response.status_code} with something else than a {model.__name__}: "
            "is this a spotfed broker, of this version?"
        ) from error


def with_id(request: _Model) -> _Model:
    """Return the request with an id, under which it can be repeated safely; a given id stays."""
    has_id = getattr(request, "id", None) is not None
    return request if has_id else request.model_copy(update={"id": uuid.uuid4().hex})


def quote_id(name: str) -> str:
    """Return an id as it stands in a path; ``/``, ``:`` and ``@`` stay."""
    return quote(name, safe="/:@")


def _is_temporary(response: httpx.Response) -> bool:
    """Return True if the call should be repeated, False for a refusal, which is an answer.

    Raises
    ------
    ProblemAnswer
        When the answer is any other problem.
    """
    if response.status_code in (429, 502, 503, 504, 507):
        return True
    problem = read_problem(response)
    if response.status_code == 409 and problem.type in (IN_FLIGHT, REFUSED):
        return problem.type == IN_FLIGHT
    raise make_error(problem)


def _encode_body(body: BaseModel | Sequence[BaseModel] | None) -> tuple[bytes | None, dict[str, str]]:
    """Return a body as JSON without its default values, and the headers that go with it."""
    if body is None:
        return None, {}
    if isinstance(body, BaseModel):
        text = body.model_dump_json(exclude_defaults=True, context=REVEAL)
    else:
        items = (item.model_dump_json(exclude_defaults=True, context=REVEAL) for item in body)
        text = f"[{','.join(items)}]"
    return text.encode(), {"Content-Type": "application/json"}


def _omit_none(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
