"""One delivery: checked, signed, posted to the checked address, within a time limit, whoever answers."""

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
from broker.webhooks.envelope import WebhookMessage, headers
from broker.webhooks.targets import CheckedTarget, Network, Resolver, TargetError, check

log = logging.getLogger(__name__)

MOST_READ = 65_536  # bytes of an answer, which are thrown away
_MOST_ADDRESSES = 4  # of a host that are tried
GONE = 410


@dataclass(frozen=True)
class DeliveryOutcome:
    """What came of a delivery. ``retry_after_s``: what the receiver asked for."""

    status: int | None
    error: str | None
    duration_s: float = 0.0
    retry_after_s: float | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has it."""
        return self.error is None


class Sender:
    """Posts. Follows no redirects, uses no proxy, keeps neither cookies nor connections."""

    def __init__(
        self,
        resolve: Resolver,
        allowed: Sequence[Network] = (),
        *,
        connect_timeout_s: float = 3.0,
        timeout_s: float = 10.0,
        trust: ssl.SSLContext | None = None,
    ):
        """``trust``: who signs receivers' certificates; None: the authorities that httpx trusts."""
        self.resolve, self.allowed, self.timeout_s = resolve, allowed, timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._trust, self._agent = trust, f"spotfed/{metadata.version('spotfed')}"
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def send(self, url: str, sending: WebhookMessage, secrets: Sequence[str]) -> DeliveryOutcome:
        """Tries once. Everything that goes wrong is an outcome."""
        loop, wire = asyncio.get_running_loop(), self._wire()
        began_s = loop.time()
        status: int | None = None
        asked_s: float | None = None
        try:
            async with asyncio.timeout_at(began_s + self.timeout_s):
                checked = await check(url, self.resolve, self.allowed)
                response = await self._post(wire, checked, sending, secrets)
            status, asked_s = response.status_code, retry_after_s(response)
            await _discard(response, began_s + self.timeout_s)
            error = _complaint(status)
        except TargetError as refusal:
            error = f"not sent: the URL {refusal}"
        except httpx.ConnectTimeout:
            error = f"no connection within {self._connect_timeout_s:g} s"
        except (TimeoutError, httpx.TimeoutException):
            error = f"no answer within {self.timeout_s:g} s"
        except httpx.HTTPError as failure:
            error = _words(failure)
        except (httpx.InvalidURL, ValueError):
            error = "not sent: the URL cannot be used"
        return DeliveryOutcome(status, error, round(loop.time() - began_s, 4), asked_s)

    async def aclose(self) -> None:
        """Closes what is open."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _post(
        self,
        wire: httpx.AsyncHTTPTransport,
        checked: CheckedTarget,
        sending: WebhookMessage,
        secrets: Sequence[str],
    ) -> httpx.Response:
        """The answer's head. One address after the other, as long as there is no connection."""
        failure: httpx.HTTPError | None = None
        for address in checked.addresses[:_MOST_ADDRESSES]:
            request = self._request(checked, address, sending, secrets)
            try:
                return await wire.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    def _request(
        self, checked: CheckedTarget, address: str, sending: WebhookMessage, secrets: Sequence[str]
    ) -> httpx.Request:
        target = checked.target
        # To the address that was checked; the name is in the Host header and in the TLS handshake only.
        url = httpx.URL(
            scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode("ascii")
        )
        told = headers(sending, secrets, datetime.now(UTC)) | {
            "host": target.authority,
            "user-agent": self._agent,
            "accept-encoding": "identity",
        }
        patience = httpx.Timeout(self.timeout_s, connect=self._connect_timeout_s)
        return httpx.Request(
            "POST",
            url,
            headers=told,
            content=sending.body.encode(),
            extensions={"timeout": patience.as_dict(), "sni_hostname": target.host},
        )

    def _wire(self) -> httpx.AsyncHTTPTransport:
        # A transport and not a client: that would keep cookies. No connection is kept: one that was opened
        # for a name must not serve another name at the same address.
        if self._transport is None:
            self._transport = httpx.AsyncHTTPTransport(
                verify=self._trust or httpx.create_ssl_context(),
                trust_env=False,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            )
        return self._transport


async def _discard(response: httpx.Response, until_s: float) -> None:
    """Reads a little of the body, so that the receiver sees no broken connection. The status counts."""
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


def _complaint(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed"
    return f"answered {status}"


def _words(failure: httpx.HTTPError) -> str:
    kind = {httpx.ConnectError: "no connection", httpx.RemoteProtocolError: "no HTTP answer"}
    reason = next((words for known, words in kind.items() if isinstance(failure, known)), "broken connection")
    if "CERTIFICATE_VERIFY_FAILED" in str(failure):
        return "no connection: its certificate cannot be verified"
    return reason
