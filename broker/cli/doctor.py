"""``doctor``: looks at settings, queue, owners and API, and says what is wrong and what to do about it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import typer

from broker.cli.output import ExitCode, JsonOption, console, print_json

if TYPE_CHECKING:
    import httpx
    import redis
    from pydantic import BaseModel

    from broker.doctor import ApiFacts, CloudFacts
    from broker.finding import Finding
    from broker.keys import Keys
    from broker.settings import Settings

    Model = TypeVar("Model", bound=BaseModel)

_PATIENCE_S = 3.0
_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red"}


def doctor(as_json: JsonOption = False) -> None:
    """Check settings, Redis, versions, owners, tables, the API and directories; say what to do.

    Nothing is changed or started. Exit code 0 when nothing has failed, warnings or not; 1 when something has.

    Example: spotfed doctor
    """
    found = _findings()
    if as_json:
        print_json(
            {
                "checks": [
                    {"name": one.name, "state": one.state.value, "found": one.found, "advice": one.advice}
                    for one in found
                ]
            }
        )
    else:
        _show(found)
    if any(one.state == "failure" for one in found):
        raise typer.Exit(ExitCode.FAILED)


def _findings() -> list[Finding]:
    from broker import doctor as judge
    from broker.finding import failure
    from broker.settings import SettingsError, load, unknown_variables
    from broker.trust import signing_finding

    spotfed, requires, installed = _packages()
    found = [
        judge.package_finding(spotfed, requires, installed),
        *judge.extras_findings(installed.keys() & judge.EXTRAS.keys()),
    ]
    try:
        told = load()
    except SettingsError as error:
        advice = "correct it; until then nothing starts, and neither Redis nor the API can be looked for"
        return [failure("settings", str(error), advice), *found]
    return [
        *judge.settings_findings(told, unknown_variables()),
        *found,
        *judge.directory_findings(
            told,
            state=_trouble_writing(told.state_dir),
            data=None if told.data is None else _data_trouble(told.data),
            key_mode=_key_mode(told),
            jobs=None if told.jobs_dir is None else _trouble_writing(told.jobs_dir),
        ),
        signing_finding(told),
        *_queue_findings(told),
        *_api_findings(told, spotfed),
    ]


# -- this machine --------------------------------------------------------------------------------------------


def _packages() -> tuple[str | None, Sequence[str], dict[str, str]]:
    """Our version, what our metadata require, and the versions of the packages named there."""
    from importlib import metadata

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        ours = metadata.distribution("spotfed")
    except metadata.PackageNotFoundError:
        return None, (), {}
    installed: dict[str, str] = {}
    for text in ours.requires or ():
        try:
            name = Requirement(text).name
            installed[name] = metadata.version(name)
        except (InvalidRequirement, metadata.PackageNotFoundError):
            continue
    return ours.version, ours.requires or (), installed


def _trouble_writing(directory: Path) -> str | None:
    """What keeps this user from writing there, or from making it."""
    if directory.exists():
        if not directory.is_dir():
            return "is not a directory"
        return None if os.access(directory, os.W_OK | os.X_OK) else "cannot be written by this user"
    nearest = next(parent for parent in directory.parents if parent.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return None
    return f"is not there, and cannot be made in {nearest}"


def _data_trouble(directory: Path) -> str | None:
    if not directory.exists():
        return "is not there"
    if not directory.is_dir():
        return "is not a directory"
    return None if os.access(directory, os.R_OK | os.X_OK) else "cannot be read by this user"


def _key_mode(told: Settings) -> int | None:
    from broker.local.queue import key_file

    try:
        return key_file(told.state_dir).stat().st_mode & 0o777
    except OSError:
        return None


# -- the queue -----------------------------------------------------------------------------------------------


def _queue_findings(told: Settings) -> list[Finding]:
    """Redis at the told address, or the embedded server that runs; and what the federation keeps in it."""
    import redis

    from broker import doctor as judge
    from broker.finding import failure
    from broker.local.queue import address_file
    from broker.queue_health import findings, look
    from broker.redis_server import connect

    url = told.redis_url
    if url is None:
        try:
            url = address_file(told.state_dir).read_text(encoding="utf-8")
        except OSError:
            return [judge.embedded_finding(told.state_dir, _server())]
    secured = _secured("redis certificate", url, told)
    if any(one.state == "failure" for one in secured):
        return secured
    with connect(url, socket_timeout=_PATIENCE_S, socket_connect_timeout=_PATIENCE_S) as client:
        try:
            found = secured + findings(look(client, url))
        except redis.RedisError as error:
            return [judge.silent_finding(url, str(error))]
        try:
            return found + _federation_findings(client, told)
        except redis.RedisError as error:
            advice = f"look at the rights of this user on keys that begin with {told.key_prefix}"
            return [
                *found,
                failure("clouds", f"what the clouds keep in Redis cannot be read: {error}", advice),
            ]


def _server() -> str | None:
    from broker.redis_server import RedisServerError, find_server

    try:
        return str(find_server())
    except RedisServerError:
        return None


def _federation_findings(client: redis.Redis, told: Settings) -> list[Finding]:
    from datetime import UTC, datetime

    from broker.doctor import federation_findings
    from broker.instance_health import instance_findings
    from broker.instances import recorded
    from broker.jobs.health import OVERDUE_S, jobs_findings
    from broker.keys import Keys
    from broker.upgrading import holding_back, spoken

    keys = Keys(told.key_prefix)
    infos = cast("dict[bytes, bytes]", client.hgetall(keys.clouds))
    clouds = [_cloud(client, keys, name.decode(), infos[name]) for name in sorted(infos)]
    samplers = sum(1 for _ in client.scan_iter(keys.sampler("*"), count=10_000))
    seconds, microseconds = client.time()
    now = datetime.fromtimestamp(seconds + microseconds / 1e6, UTC)
    found = federation_findings(clouds, samplers, now, told, spoken(client, keys), holding_back(client, keys))
    known = [one.info for one in clouds if one.info is not None]
    agents = {one.id for one in known if client.exists(keys.agent(one.id))}
    overdue = client.zcount(keys.open_jobs, "-inf", now.timestamp() - OVERDUE_S)
    found += jobs_findings(known, agents, client.zcard(keys.open_jobs), overdue)
    records = {one.id: recorded(client, keys, one.id) for one in known if one.instances is not None}
    return found + instance_findings(known, agents, records)


def _cloud(client: redis.Redis, keys: Keys, cloud: str, info: bytes) -> CloudFacts:
    from broker.contract import Advert, CloudInfo
    from broker.doctor import CloudFacts

    pipe = client.pipeline(transaction=False)
    pipe.pttl(keys.owner(cloud))
    pipe.get(keys.epoch(cloud))
    pipe.get(keys.advert(cloud))
    pipe.xrevrange(keys.journal(cloud), count=1)
    pipe.xlen(keys.dead(cloud))
    lease_ms, epoch, advert, last, dead = cast("tuple[int, Any, Any, Any, int]", tuple(pipe.execute()))
    return CloudFacts(
        cloud,
        _parsed(CloudInfo, info),
        lease_s=None if lease_ms < 0 else lease_ms / 1000,
        epoch=None if epoch is None else int(epoch),
        advert=_parsed(Advert, advert),
        writes=_version(last[0][1].get(b"e")) if last else None,
        dead=dead,
    )


def _parsed(model: type[Model], text: bytes | None) -> Model | None:
    from pydantic import ValidationError

    from broker.versions import read

    try:
        return None if text is None else read(model, text)
    except ValidationError:
        return None


def _version(event: bytes | None) -> int | None:
    """The contract version of a journal entry, read without judging the rest of it."""
    try:
        version = json.loads(event or b"")["version"]
    except (ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) else None


# -- the API -------------------------------------------------------------------------------------------------


def _api_findings(told: Settings, spotfed: str | None) -> list[Finding]:
    from broker.cli.connection import url
    from broker.doctor import api_findings

    secured = _secured("api certificate", url(told), told)
    if any(one.state == "failure" for one in secured):
        return secured
    return secured + api_findings(_ask_api(told), spotfed)


def _secured(name: str, address: str, told: Settings) -> list[Finding]:
    from broker.tls import tls_finding

    found = tls_finding(name, address, told, _PATIENCE_S)
    return [] if found is None else [found]


def _ask_api(told: Settings) -> ApiFacts | None:
    """The API at SPOTFED_URL, or that of ``spotfed up`` on this machine; None when there is neither."""
    import httpx

    from broker.cli.connection import api_key, url
    from broker.doctor import ApiFacts
    from broker.local.federation import record_file
    from broker.tls import api_context

    if "url" not in told.model_fields_set and not record_file(told.state_dir).exists():
        return None
    base = url(told)
    key = api_key(told)
    try:
        with httpx.Client(base_url=base, timeout=_PATIENCE_S, verify=api_context(told)) as http:
            http.get("/healthz").raise_for_status()
            ready = http.get("/readyz")
            version = _json(http.get("/openapi.json")).get("info", {}).get("version")
            status = (
                None
                if key is None
                else http.get("/v1/clouds", headers={"Authorization": f"Bearer {key}"}).status_code
            )
    except httpx.HTTPError as error:
        return ApiFacts(base, error=str(error) or type(error).__name__)
    not_ready = None if ready.is_success else str(_json(ready).get("detail") or f"status {ready.status_code}")
    return ApiFacts(base, not_ready=not_ready, key=status, version=version)


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


# -- for people ----------------------------------------------------------------------------------------------


def _show(found: Sequence[Finding]) -> None:
    from collections import Counter

    from rich.table import Table
    from rich.text import Text

    table = Table(title="Checks", title_justify="left")
    for name in ("state", "check", "found"):
        table.add_column(name, overflow="fold")
    for one in found:
        text = Text(one.found)
        if one.advice:
            text.append(f"\n→ {one.advice}", style="bold" if one.state != "ok" else "")
        table.add_row(Text(one.state.value, style=_COLOURS[one.state.value]), Text(one.name), text)
    out = console()
    out.print(table)
    counts = Counter(one.state.value for one in found)
    out.print(f"{len(found)} checks: {', '.join(f'{counts[state]} {state}' for state in _COLOURS)}")
