"""Builds the TLS contexts of the HTTP API and of Redis, and explains refused connections.

Certificates and host names are always checked, and nothing below TLS 1.2 is spoken. Settings name the files,
which are read when a connection is made, so that a renewed certificate needs no restart of a client.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker.settings import Settings, SettingsError, variable
from broker.settings import settings as read_settings
from broker.storage.private_files import find_reader


def redis_tls(url: str, settings: Settings | None = None) -> dict[str, Any]:
    """Return the options of redis-py, and of Celery's ``broker_use_ssl``, for an address.

    They are empty unless the address begins with ``rediss``.

    Raises
    ------
    SettingsError
        When a file that the settings name cannot be used.
    """
    if not url.startswith("rediss"):
        return {}
    settings = settings or read_settings()
    _client_context(settings, "redis_ca", "redis_cert", "redis_key")  # says what is wrong with the files
    named = {
        "ssl_ca_certs": settings.redis_ca,
        "ssl_certfile": settings.redis_cert,
        "ssl_keyfile": settings.redis_key,
    }
    return {
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        "ssl_check_hostname": True,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
        **{name: str(path) for name, path in named.items() if path is not None},
    }


def redis_context(settings: Settings) -> ssl.SSLContext:
    """Return the context for a connection to a Redis at ``rediss://``.

    Raises
    ------
    SettingsError
        When a file that the settings name cannot be used.
    """
    return _client_context(settings, "redis_ca", "redis_cert", "redis_key")


def api_context(settings: Settings) -> ssl.SSLContext:
    """Return the context for a client of the HTTP API at ``https://``.

    Raises
    ------
    SettingsError
        When a file that the settings name cannot be used.
    """
    return _client_context(settings, "ca", "client_cert", "client_key")


def server_options(settings: Settings) -> dict[str, Any]:
    """Return the options of uvicorn for the HTTP API; none if it is to speak plain HTTP.

    Raises
    ------
    SettingsError
        When the certificate or its key is missing, or a file cannot be used.
    """
    if not _pair(settings, "tls_cert", "tls_key"):
        if settings.tls_client_ca is not None:
            raise SettingsError(f"{variable('tls_client_ca')}: needs {variable('tls_cert')} as well")
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_pair(context, settings, "tls_cert", "tls_key")
    options: dict[str, Any] = {"ssl_certfile": str(settings.tls_cert), "ssl_keyfile": str(settings.tls_key)}
    if settings.tls_client_ca is not None:
        _load_authorities(context, settings, "tls_client_ca")
        options |= {"ssl_ca_certs": str(settings.tls_client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options


def explain_tls_error(error: BaseException, address: str, setting: str) -> str | None:
    """Return a message about a refused TLS connection, or None if the error is of another kind.

    Parameters
    ----------
    error
        Error of the connection, or one that it caused.
    what
        Address of the server.
    setting
        Name of the setting that holds the trusted authorities, for example ``redis_ca``.
    """
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{address}: {_distrust(cause, setting)}"
        if isinstance(cause, ssl.SSLError):
            return _handshake(cause, address)
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


def _handshake(error: ssl.SSLError, address: str) -> str | None:
    reason = error.reason or ""
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
        return f"{address}: it does not speak TLS ({reason}); leave the s out of its address, or turn TLS on"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return f"{address}: it asks for a client certificate ({reason}); see the settings of TLS"
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason:
        return f"{address}: it does not trust the client certificate ({reason}); use one that it trusts"
    if "PROTOCOL_VERSION" in reason:
        return f"{address}: it does not speak TLS 1.2 or newer ({reason})"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; redis-py and httpx wrap errors of the ssl module."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


# -- files ---------------------------------------------------------------------------------------------------


def _client_context(settings: Settings, ca: str, cert: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context()  # with the authorities of this machine, as in redis-py
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if getattr(settings, ca) is not None:
        _load_authorities(context, settings, ca)
    if _pair(settings, cert, key):
        _load_pair(context, settings, cert, key)
    return context


def _pair(settings: Settings, cert: str, key: str) -> bool:
    """Return True if both files are set, False if none is.

    Raises
    ------
    SettingsError
        When only one is set.
    """
    given = [name for name in (cert, key) if getattr(settings, name) is not None]
    if len(given) == 1:
        missing = key if given == [cert] else cert
        raise SettingsError(f"{variable(missing)}: needed beside {variable(given[0])}")
    return bool(given)


def _load_pair(context: ssl.SSLContext, settings: Settings, cert: str, key: str) -> None:
    try:
        # An empty answer instead of a question on the terminal: keys with a passphrase are not for services.
        context.load_cert_chain(getattr(settings, cert), getattr(settings, key), password=lambda: "")
    except (OSError, ValueError) as error:
        _readable(getattr(settings, cert), cert)
        _readable(getattr(settings, key), key)
        raise SettingsError(
            f"{variable(cert)}, {variable(key)}: not a certificate and its key, both in PEM and the key "
            f"without a passphrase ({getattr(error, 'reason', None) or error})"
        ) from error
    if fault := find_reader(getattr(settings, key), group=True):
        raise SettingsError(f"{variable(key)}: {fault}")


def _load_authorities(context: ssl.SSLContext, settings: Settings, name: str) -> None:
    path: Path = getattr(settings, name)
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
