"""TLS of the HTTP API and of Redis: whom we trust, what we show, and what to do when that is not enough.

Certificates and host names are always checked, and nothing below TLS 1.2 is spoken. The files are named by
settings and read when a connection is made, so that a renewed certificate needs no restart of a client.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from broker.finding import Finding, failure, ok, warning
from broker.settings import PREFIX, Settings, SettingsError

#: A certificate that ends sooner is worth a warning.
EXPIRES_SOON = timedelta(days=21)
_PORTS = {"https": 443, "rediss": 6379}
_HERE = {"", "localhost", "127.0.0.1", "::1"}


def redis_tls(url: str, told: Settings | None = None) -> dict[str, Any]:
    """Options of redis-py, and of Celery's ``broker_use_ssl``, for this address; none unless it is rediss://.

    Raises SettingsError when a file that the settings name cannot be used.
    """
    if urlsplit(url).scheme != "rediss":
        return {}
    told = told or _settings()
    _client_context(told, "redis_ca", "redis_cert", "redis_key")  # says what is wrong with the files
    named = {
        "ssl_ca_certs": told.redis_ca,
        "ssl_certfile": told.redis_cert,
        "ssl_keyfile": told.redis_key,
    }
    return {
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        "ssl_check_hostname": True,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
        **{name: str(path) for name, path in named.items() if path is not None},
    }


def redis_context(told: Settings) -> ssl.SSLContext:
    """For a connection to a Redis at rediss://. Raises SettingsError."""
    return _client_context(told, "redis_ca", "redis_cert", "redis_key")


def api_context(told: Settings) -> ssl.SSLContext:
    """For a client of the HTTP API at https://. Raises SettingsError."""
    return _client_context(told, "ca", "client_cert", "client_key")


def server_options(told: Settings) -> dict[str, Any]:
    """Options of uvicorn for the HTTP API; none where it is to speak plain HTTP.

    Raises SettingsError when the certificate and its key are not both there, or cannot be used.
    """
    if not _pair(told, "tls_cert", "tls_key"):
        if told.tls_client_ca is not None:
            raise SettingsError(f"{_variable('tls_client_ca')}: needs {_variable('tls_cert')} as well")
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_pair(context, told, "tls_cert", "tls_key")
    options: dict[str, Any] = {"ssl_certfile": str(told.tls_cert), "ssl_keyfile": str(told.tls_key)}
    if told.tls_client_ca is not None:
        _load_authorities(context, told, "tls_client_ca")
        options |= {"ssl_ca_certs": str(told.tls_client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options


def refusal(error: BaseException, what: str, setting: str) -> str | None:
    """What to tell a person when a TLS connection was refused; None when this error is of another kind.

    what: the address. setting: that names the trusted authorities, for example ``redis_ca``.
    """
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{what}: {_distrust(cause, setting)}"
        if isinstance(cause, ssl.SSLError):
            return _handshake(cause, what)
    return None


def _distrust(error: ssl.SSLCertVerificationError, setting: str) -> str:
    why = error.verify_message or "its certificate does not prove who it is"
    if error.verify_code in {62, 64} or "ostname mismatch" in why or "IP address mismatch" in why:
        return (
            f"its certificate is for another host ({why}); use the name that the certificate has, or have "
            "one made for this name"
        )
    if error.verify_code == 10:
        return f"its certificate has expired ({why}); it must be renewed there"
    return (
        f"its certificate is not from an authority that is trusted here ({why}); set {_variable(setting)} to "
        "the file of the authority that signed it, in PEM"
    )


def _handshake(error: ssl.SSLError, what: str) -> str | None:
    reason = error.reason or ""
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
        return f"{what}: no TLS is spoken there ({reason}); leave the s out of its address, or turn TLS on"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return f"{what}: it wants to see a certificate of ours ({reason}); see the settings of TLS"
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason:
        return f"{what}: it does not trust our certificate ({reason}); show one that it does trust"
    if "PROTOCOL_VERSION" in reason:
        return f"{what}: it speaks no TLS of 1.2 or newer ({reason})"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it. redis-py and httpx wrap those of the ssl module."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


# -- for doctor ----------------------------------------------------------------------------------------------


def tls_finding(name: str, url: str, told: Settings, limit_s: float) -> Finding | None:
    """Whether the server at an address proves who it is, and for how long it still can; a warning where keys
    would cross a network in the clear. None where nobody else can listen: on this machine.

    ``limit_s`` bounds the look.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme in _PORTS:
        return _certificate_finding(
            name, host, parts.port or _PORTS[parts.scheme], told, limit_s, parts.scheme
        )
    if parts.scheme == "unix" or host in _HERE:
        return None
    return warning(
        name,
        f"{host} is asked without TLS: whoever is on the way reads keys and leases",
        f"use {parts.scheme}s:// (SECURITY.md, Transport)",
    )


def _certificate_finding(
    name: str, host: str, port: int, told: Settings, limit_s: float, scheme: str
) -> Finding:
    place = f"{host}:{port}"
    context_of, setting = (api_context, "ca") if scheme == "https" else (redis_context, "redis_ca")
    try:
        ends, version = _look(host, port, context_of(told), limit_s)
    except SettingsError as error:
        return failure(name, str(error), "correct it; until then there is no connection")
    except OSError as error:
        said = refusal(error, place, setting) or f"{place}: no TLS connection: {error}"
        return failure(name, said, "see SECURITY.md, Transport")
    left = ends - datetime.now(UTC)
    found = f"{place} speaks {version}; its certificate ends on {ends:%Y-%m-%d}, in {left.days} days"
    if left < EXPIRES_SOON:
        return warning(name, found, "renew it; after that day nothing connects any more")
    return ok(name, found)


def _look(host: str, port: int, context: ssl.SSLContext, limit_s: float) -> tuple[datetime, str]:
    with (
        socket.create_connection((host, port), timeout=limit_s) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        ends = ssl.cert_time_to_seconds(str((secured.getpeercert() or {})["notAfter"]))
        return datetime.fromtimestamp(ends, UTC), secured.version() or "TLS"


# -- files ---------------------------------------------------------------------------------------------------


def _client_context(told: Settings, ca: str, cert: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context()  # with the authorities of this machine, as in redis-py
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if getattr(told, ca) is not None:
        _load_authorities(context, told, ca)
    if _pair(told, cert, key):
        _load_pair(context, told, cert, key)
    return context


def _pair(told: Settings, cert: str, key: str) -> bool:
    """Whether both files are told. Raises SettingsError when only one is."""
    given = [name for name in (cert, key) if getattr(told, name) is not None]
    if len(given) == 1:
        missing = key if given == [cert] else cert
        raise SettingsError(f"{_variable(missing)}: needed beside {_variable(given[0])}")
    return bool(given)


def _load_pair(context: ssl.SSLContext, told: Settings, cert: str, key: str) -> None:
    try:
        # An empty answer instead of a question on the terminal: keys with a passphrase are not for services.
        context.load_cert_chain(getattr(told, cert), getattr(told, key), password=lambda: "")
    except (OSError, ValueError) as error:
        _readable(getattr(told, cert), cert)
        _readable(getattr(told, key), key)
        raise SettingsError(
            f"{_variable(cert)}, {_variable(key)}: not a certificate and its key, both in PEM and the key "
            f"without a passphrase ({getattr(error, 'reason', None) or error})"
        ) from error


def _load_authorities(context: ssl.SSLContext, told: Settings, name: str) -> None:
    path: Path = getattr(told, name)
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        _readable(path, name)
        raise SettingsError(f"{_variable(name)}: {path} holds no certificates in PEM") from error


def _readable(path: Path, name: str) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{_variable(name)}: cannot read {path}: {error.strerror}") from error


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _settings() -> Settings:
    from broker.settings import settings

    return settings()
