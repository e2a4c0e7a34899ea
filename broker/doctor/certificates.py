"""Checks a TLS connection, before the checks of Redis and of the API connect."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from broker.doctor.check import CheckResult, failure, ok, warning
from broker.doctor.installation import ANSWER_TIMEOUT_S
from broker.settings import Settings, SettingsError, is_local
from broker.storage.tls import api_context, explain_tls_error, redis_context

#: A certificate that ends sooner is worth a warning.
EXPIRES_SOON = timedelta(days=21)
_PORTS = {"https": 443, "rediss": 6379}


def certificate_result(name: str, url: str, settings: Settings) -> CheckResult | None:
    """Check that the server at an address proves its identity, and for how long it still can.

    Warns if keys would cross a network in the clear. Returns None if nobody else can listen, on this machine.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "unix" or (parts.scheme not in _PORTS and is_local(url)):
        return None
    if parts.scheme not in _PORTS:
        return warning(
            f"{host} is asked without TLS: whoever is on the way reads keys and leases",
            f"use {parts.scheme}s:// (SECURITY.md, Transport)",
            name=name,
        )
    port = parts.port or _PORTS[parts.scheme]
    try:
        context = api_context(settings) if parts.scheme == "https" else redis_context(settings)
        ends_at, version = _read_certificate(host, port, context)
    except SettingsError as error:
        return failure(str(error), "correct it; until then there is no connection", name=name)
    except OSError as error:
        setting = "ca" if parts.scheme == "https" else "redis_ca"
        found = (
            explain_tls_error(error, f"{host}:{port}", setting)
            or f"{host}:{port}: no TLS connection: {error}"
        )
        return failure(found, "see SECURITY.md, Transport", name=name)
    left = ends_at - datetime.now(UTC)
    found = f"{host}:{port} speaks {version}; its certificate ends on {ends_at:%Y-%m-%d}, in {left.days} days"
    if left < EXPIRES_SOON:
        return warning(found, "renew it; after that day nothing connects any more", name=name)
    return ok(found, name=name)


def _read_certificate(host: str, port: int, context: ssl.SSLContext) -> tuple[datetime, str]:
    """Return until when a server's certificate is valid, and the version of TLS. Raises OSError."""
    with (
        socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        ends_s = ssl.cert_time_to_seconds(str((secured.getpeercert() or {})["notAfter"]))
        return datetime.fromtimestamp(ends_s, UTC), secured.version() or "TLS"
