"""Makes one delivery: checks the target, signs the message, and posts it, all within a time limit."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata

import httpx

from broker.backoff import retry_after_s
from broker.webhooks.envelope import WebhookMessage, build_headers
from broker.webhooks.targets import CheckedTarget, Network, Resolver, TargetError, check_target

log = logging.getLogger(__name__)

MOST_READ = 65_536  # bytes of an answer that are read, and thrown away
_MOST_ADDRESSES = 4  # addresses of a host that are tried
GONE = 410


@dataclass(frozen=True)
class DeliveryOutcome:
    """The outcome of a delivery.

    status: the HTTP status of the answer, if there was one. error: why it failed; None: it was delivered.
    retry_after_s: the pause that the receiver asked for, in seconds.
    """

    status: int | None
    error: str | None
    duration_s: float = 0.0
    retry_after_s: float | None = None

    @property
    def delivered(self) -> bool:
        """True if the receiver has accepted the message."""
        return self.error is None


class Sender:
    """Posts messages. It follows no redirects, uses no proxy, and keeps neither cookies nor connections."""

    def __init__(
        self,
        resolve: Resolver,
        allowed: Sequence[Network] = (),
        *,
        connect_timeout_s: float = 3.0,
        timeout_s: float = 10.0,
        trust: ssl.SSLContext | None = None,
    ):
        """Open nothing yet.

        ``allowed``: networks that are allowed although they are not public. ``trust`` verifies the
        certificates of receivers; None: the authorities that httpx trusts.
        """
        self.resolve, self.allowed, self.timeout_s = resolve, allowed, timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._trust, self._agent = trust, f"spotfed/{metadata.version('spotfed')}"
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def send(self, url: str, message: WebhookMessage, secrets: Sequence[str]) -> DeliveryOutcome:
        """Post a message once, with one signature a secret. Everything that goes wrong is an outcome."""
        loop, transport = asyncio.get_running_loop(), self._open_transport()
        began_s = loop.time()
        status: int | None = None
        asked_s: float | None = None
        try:
            async with asyncio.timeout_at(began_s + self.timeout_s):
                checked = await check_target(url, self.resolve, self.allowed)
                response = await self._post(transport, checked, message, secrets)
            status, asked_s = response.status_code, retry_after_s(response)
            await _discard(response, began_s + self.timeout_s)
            error = _status_error(status)
        except TargetError as refusal:
            error = f"not sent: the URL {refusal}"
        except httpx.ConnectTimeout:
            error = f"no connection within {self._connect_timeout_s:g} s"
        except (TimeoutError, httpx.TimeoutException):
            error = f"no answer within {self.timeout_s:g} s"
        except httpx.HTTPError as failure:
            error = _http_error(failure)
        except (httpx.InvalidURL, ValueError):
            error = "not sent: the URL cannot be used"
        return DeliveryOutcome(status, error, round(loop.time() - began_s, 4), asked_s)

    async def aclose(self) -> None:
        """Close the transport."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _post(
        self,
        transport: httpx.AsyncHTTPTransport,
        checked: CheckedTarget,
        message: WebhookMessage,
        secrets: Sequence[str],
    ) -> httpx.Response:
        """Return the response without its body, of the first address that accepts a connection."""
        failure: httpx.HTTPError | None = None
        for address in checked.addresses[:_MOST_ADDRESSES]:
            request = self._request(checked, address, message, secrets)
            try:
                return await transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    def _request(
        self, checked: CheckedTarget, address: str, message: WebhookMessage, secrets: Sequence[str]
    ) -> httpx.Request:
        target = checked.target
        # The URL has the address that was checked; the name is only in the Host header and the TLS handshake.
        url = httpx.URL(
            scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode("ascii")
        )
        request_headers = build_headers(message, secrets, datetime.now(UTC)) | {
            "host": target.authority,
            "user-agent": self._agent,
            "accept-encoding": "identity",
        }
        timeout = httpx.Timeout(self.timeout_s, connect=self._connect_timeout_s)
        return httpx.Request(
            "POST",
            url,
            headers=request_headers,
            content=message.body.encode(),
            extensions={"timeout": timeout.as_dict(), "sni_hostname": target.host},
        )

    def _open_transport(self) -> httpx.AsyncHTTPTransport:
        # A transport, as a client would keep cookies. It keeps no connections: one that was opened for a name
        # must not serve another name at the same address.
        if self._transport is None:
            self._transport = httpx.AsyncHTTPTransport(
                verify=self._trust or httpx.create_ssl_context(),
                trust_env=False,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            )
        return self._transport


async def _discard(response: httpx.Response, until_s: float) -> None:
    """Read a little of the body, so that the receiver sees no broken connection; only the status counts."""
    read = 0
    try:
        async with asyncio.timeout_at(until_s):
            async for part in response.aiter_raw():
                read += len(part)
                if read > MOST_READ:
                    break
    except (TimeoutError, httpx.HTTPError):
        log.debug("a receiver's answer was not read to its end")
    finally:
        await response.aclose()


def _status_error(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed"
    return f"answered {status}"


def _http_error(failure: httpx.HTTPError) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(failure):
        return "no connection: its certificate cannot be verified"
    if isinstance(failure, httpx.ConnectError):
        return "no connection"
    if isinstance(failure, httpx.RemoteProtocolError):
        return "no HTTP answer"
    return "broken connection"
