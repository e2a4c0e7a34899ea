"""TLS of the HTTP API and of Redis: whom we trust, what we show, and what to do when that is not enough.

Certificates and host names are always checked, and nothing below TLS 1.2 is spoken. The files are named by
settings and read when a connection is made, so that a renewed certificate needs no restart of a client.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from broker.settings import Settings, SettingsError, variable


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
            raise SettingsError(f"{variable('tls_client_ca')}: needs {variable('tls_cert')} as well")
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
        f"its certificate is not from an authority that is trusted here ({why}); set {variable(setting)} to "
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
        raise SettingsError(f"{variable(missing)}: needed beside {variable(given[0])}")
    return bool(given)


def _load_pair(context: ssl.SSLContext, told: Settings, cert: str, key: str) -> None:
    try:
        # An empty answer instead of a question on the terminal: keys with a passphrase are not for services.
        context.load_cert_chain(getattr(told, cert), getattr(told, key), password=lambda: "")
    except (OSError, ValueError) as error:
        _readable(getattr(told, cert), cert)
        _readable(getattr(told, key), key)
        raise SettingsError(
            f"{variable(cert)}, {variable(key)}: not a certificate and its key, both in PEM and the key "
            f"without a passphrase ({getattr(error, 'reason', None) or error})"
        ) from error


def _load_authorities(context: ssl.SSLContext, told: Settings, name: str) -> None:
    path: Path = getattr(told, name)
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        _readable(path, name)
        raise SettingsError(f"{variable(name)}: {path} holds no certificates in PEM") from error


def _readable(path: Path, name: str) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{variable(name)}: cannot read {path}: {error.strerror}") from error


def _settings() -> Settings:
    from broker.settings import settings

    return settings()
