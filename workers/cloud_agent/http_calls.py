"""Call a cloud's API through Apache Libcloud with verified TLS, a limit on time and size, and our errors.

Libcloud limits only the wait for the next byte. Here a call ends in time whatever the other side does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, TypeVar

import requests
from libcloud.common.exceptions import BaseHTTPError
from libcloud.common.types import InvalidCredsError, LibcloudError, MalformedResponseError
from libcloud.http import LibcloudConnection

from broker.settings import is_local
from workers.cloud_agent.drivers.base import InstanceError, RefusedError

MOST_ANSWER_BYTES = 64 * 2**20
LONGEST_TEXT = 300
_CHUNK = 2**16
# Errors that Libcloud and the drivers raise over an answer of another form.
_GARBLED = (LibcloudError, ValueError, LookupError, TypeError, AttributeError, SyntaxError)

Connection = TypeVar("Connection")
Result = TypeVar("Result")


def connection_class(ca_file: Path | None, timeout_s: float) -> type[LibcloudConnection]:
    """Return the class of HTTP connections with which Libcloud's drivers reach their server."""

    class Http(LibcloudConnection):
        """An HTTP connection that follows no redirection, so that credentials go only where the file says."""

        def __init__(self, host: str, port: int, secure: int | None = None, **more: Any):
            super().__init__(host, port, secure, **{**more, "timeout": timeout_s})
            if is_local(self.host):
                self.session.trust_env, self.session.proxies = False, {}
            if ca_file is not None:
                self.ca_cert = str(ca_file)

        def request(
            self,
            method: str,
            url: str,
            body: Any = None,
            headers: dict[str, str] | None = None,
            raw: bool = False,  # noqa: ARG002 - libcloud's
            stream: bool = False,  # noqa: ARG002
            hooks: Any = None,
        ) -> None:
            until = time.monotonic() + timeout_s
            response = self.session.request(
                method=method.lower(),
                url=self.host + url,
                data=body,
                headers=self._normalize_headers(headers=headers),
                allow_redirects=False,
                stream=True,
                verify=self.verification,
                timeout=timeout_s,
                hooks=hooks,
            )
            read = bytearray()
            for chunk in response.iter_content(_CHUNK):
                read += chunk
                if len(read) > MOST_ANSWER_BYTES or time.monotonic() > until:
                    response.close()
                    raise requests.ConnectionError("the answer does not end")
            response._content = bytes(read)
            self.response = response

    return Http


class HttpCalls(Generic[Connection]):
    """Makes calls over Libcloud's connections, each of which is used by one thread at a time."""

    def __init__(
        self,
        make: Callable[[], Connection],
        explain: Callable[[BaseHTTPError], InstanceError],
        timeout_s: float,
    ):
        """Take ``make``, which opens a connection, and ``explain``, which turns an HTTP error into ours."""
        self._make = make
        self._explain = explain
        self._timeout_s = timeout_s
        self._idle: list[Connection] = []

    def call(self, use: Callable[[Connection], Result]) -> Result:
        """Return the result of one call.

        A call that does not end in time goes on in its thread, but its result is dropped: name look-ups and
        trickling answers are system calls that have no limit of their own.

        Raises
        ------
        InstanceError
            When it fails in any way; nothing else is raised.
        """
        future: Future[Result] = Future()
        threading.Thread(target=self._run, args=(use, future), daemon=True, name="cloud call").start()
        try:
            return future.result(self._timeout_s)
        except TimeoutError:
            raise InstanceError(f"the cloud gave no answer within {self._timeout_s:g} s") from None

    def _run(self, use: Callable[[Connection], Result], future: Future[Result]) -> None:
        try:
            future.set_result(self._used(use))
        except BaseException as error:  # noqa: BLE001 - raised where the call was made
            future.set_exception(error)

    def _used(self, use: Callable[[Connection], Result]) -> Result:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._make()
        try:
            result = use(connection)
        except InstanceError:
            raise
        except BaseHTTPError as error:  # it answered, and may be asked again
            self._idle.append(connection)
            raise self._explain(error) from error
        except InvalidCredsError as error:
            raise RefusedError(f"the cloud does not take these credentials: {one_line(error)}") from error
        except MalformedResponseError as error:
            raise InstanceError(f"the answer is none of this API: {one_line(error.body)}") from error
        except (requests.RequestException, OSError) as error:
            raise InstanceError(f"the cloud cannot be reached: {one_line(error)}") from error
        except _GARBLED as error:
            raise InstanceError(f"the answer is none of this API: {one_line(error)}") from error
        self._idle.append(connection)
        return result


def one_line(what: object) -> str:
    """Put a text on one line and shorten it, to quote it in a message."""
    text = " ".join(str(what).split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
