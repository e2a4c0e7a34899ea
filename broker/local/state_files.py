"""Files of the state directory in which ``spotfed up`` leaves what clients on this machine need.

The finders return what the settings name, or else what these files hold.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from broker.settings import Settings, SettingsError, check_api_key


def record_file(state_dir: Path) -> Path:
    """Return the JSON file that lists the processes of a running federation and the address of its API."""
    return state_dir / "processes.json"


def address_file(state_dir: Path) -> Path:
    """Return the file with the address of the embedded Redis server, which exists while the server runs."""
    return state_dir / "redis-url"


def key_file(state_dir: Path) -> Path:
    """Return the file with the first API key."""
    return state_dir / "api-key"


def find_api_url(settings: Settings) -> str:
    """Return SPOTFED_URL, else the API of this machine.

    That is the one at SPOTFED_PORT, else the one of ``spotfed up``, else the one at the default port.
    """
    given = settings.model_fields_set
    if "url" in given:
        return settings.url
    if "port" not in given or not settings.port:
        # If nothing runs here, the default address is as good as any.
        return str(load_record(settings.state_dir).get("url", settings.url))
    scheme = "http" if settings.tls_cert is None else "https"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 (of any)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def find_federation(settings: Settings) -> Path | None:
    """Return the federation file of ``spotfed up`` on this machine, if it runs."""
    federation = load_record(settings.state_dir).get("federation")
    return None if federation is None else Path(federation)


def find_api_key(settings: Settings) -> str | None:
    """Return SPOTFED_API_KEY, else the first key that is kept on this machine, if any.

    Raises
    ------
    SettingsError
        When the file of the key holds something else.
    """
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    path = key_file(settings.state_dir)
    key = _text(path)
    try:
        return None if key is None else check_api_key(key)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def find_redis_url(settings: Settings) -> str | None:
    """Return SPOTFED_REDIS_URL, else the address of the embedded server that runs on this machine, if any."""
    return settings.redis_url or _text(address_file(settings.state_dir))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def load_record(state_dir: Path) -> dict[str, Any]:
    """Return what ``spotfed up`` has written of its processes; nothing if it does not run, or was stopped."""
    try:
        record = json.loads(record_file(state_dir).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
