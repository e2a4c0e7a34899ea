"""``key``: an operator makes, lists, rotates and revokes API keys."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.markup import escape

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, next_step, print_json, show_list, show_one
from broker.cli.errors import warn
from broker.cli.options import build_model
from broker.cli.redis_connection import connected_redis
from broker.identity.models import AuditEntry, KeyRecord
from broker.local.state_files import key_file
from broker.schemas.api_keys import KeyWish, NewKey, Rotation
from broker.settings import settings
from cloudsim.model.durations import parse_duration_s

key = typer.Typer(no_args_is_help=True, help="API keys: each is shown once, when it is made.")

KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key, see spotfed key list.")]
CloudOption = Annotated[
    list[str] | None, typer.Option("--cloud", help="Id of a cloud that is its own; may be repeated.")
]


@key.command("first")
def create_first_key(as_json: JsonOption = False) -> None:
    """Make the first operator's key of a federation, straight into its Redis (SPOTFED_REDIS_URL).

    It is kept in the file api-key of the state directory, where commands on this machine find it. Run again,
    it lets the key of that file in again. `spotfed up` does this by itself.

    Example: spotfed key first
    """
    from broker.identity.store import let_in_operator  # redis, which calls of the API do without
    from broker.local import queue

    config = settings()
    with connected_redis() as (client, keys):
        let_in_operator(client, keys, queue.first_key(config))
    path = key_file(config.state_dir)
    show_one({"api_key_file": str(path)}, f"an operator's key is in {path}", as_json=as_json)
    if not as_json:
        next_step("set SPOTFED_URL to where the API is, then: spotfed clouds")


@key.command("create")
def create_key(
    principal: Annotated[
        str, typer.Argument(metavar="PRINCIPAL", help="A member (acme) or a part of it (acme/ci).")
    ],
    role: Annotated[str, typer.Option(help="operator, runner (has jobs run), member or viewer.")] = "member",
    cloud: CloudOption = None,
    lifetime: Annotated[
        str | None, typer.Option(help="How long it works, such as 90d.", show_default="until it is revoked")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make an API key. It is printed this once: only its hash is kept.

    Example: spotfed key create acme/ci --lifetime 90d
    """
    fields: dict[str, Any] = {"principal": principal, "role": role}
    if cloud:
        fields["clouds"] = tuple(cloud)
    if lifetime is not None:
        fields["lifetime_s"] = parse_duration_s(lifetime, field="--lifetime")
    options = {"principal": "PRINCIPAL", "clouds": "--cloud", "lifetime_s": "--lifetime"}
    request = build_model(KeyWish, fields, options)
    with connected() as client:
        new_key = client.api_keys.create(request)
    _show_new_key(new_key, as_json=as_json)


@key.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List the keys, without their secrets.

    Example: spotfed key list
    """
    with connected() as client:
        keys = client.api_keys.list()
    columns = ("key", "of", "role", "clouds", "made", "ends")
    show_list("keys", keys, *columns, row=_key_row, as_json=as_json)


@key.command("rotate")
def rotate_key(
    key_id: KeyArgument,
    grace: Annotated[str, typer.Option(help="How long the old key still works.")] = "24h",
    as_json: JsonOption = False,
) -> None:
    """Replace a key by a new one, which is printed this once; the old one still works for a while.

    Example: spotfed key rotate 4f1c9a0b2d3e --grace 1h
    """
    fields = {"grace_s": parse_duration_s(grace, field="--grace")}
    rotation = build_model(Rotation, fields, {"grace_s": "--grace"})
    with connected() as client:
        new_key = client.api_keys.rotate(key_id, rotation)
    _show_new_key(new_key, as_json=as_json)


@key.command("revoke")
def revoke_key(key_id: KeyArgument, as_json: JsonOption = False) -> None:
    """End a key: within about a second in every API process, and never later than in five.

    Example: spotfed key revoke 4f1c9a0b2d3e
    """
    with connected() as client:
        record = client.api_keys.revoke(key_id)
    show_one({"revoked": record}, f"key {record.id} of {record.principal} is revoked", as_json=as_json)


@key.command("log")
def show_log(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Largest number of entries.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show who changed members and keys, the latest first.

    Example: spotfed key log --limit 20
    """
    with connected() as client:
        entries = client.members.read_audit(limit)
    columns = ("when", "what", "which", "by", "with key", "more")
    show_list("entries", entries, *columns, row=_log_row, as_json=as_json)


def _show_new_key(new_key: NewKey, *, as_json: bool) -> None:
    if as_json:
        print_json(new_key)
        return
    record = new_key.record
    warn(f"this is the only time that the key {record.id} of {record.principal} is shown")
    typer.echo(new_key.key)
    next_step("its user sets SPOTFED_API_KEY to it, and SPOTFED_URL to where the API is")


def _key_row(record: KeyRecord) -> tuple[str, ...]:
    clouds = "all" if record.clouds is None else ", ".join(record.clouds) or "none"
    ends = "–" if record.expires_at_s is None else _time_until(record.expires_at_s)
    made = _time_since(record.created_at_s)
    return (record.id, record.principal, record.role.value, clouds, made, ends)


def _log_row(entry: AuditEntry) -> tuple[str, ...]:
    more = escape(", ".join(f"{name} {value}" for name, value in entry.more.items()))
    return (_time_since(entry.at_s), entry.what, entry.object, entry.by, entry.key, more)


def _time_since(at_s: float) -> str:
    return f"{formatting.duration(max(0.0, time.time() - at_s))} ago"


def _time_until(at_s: float) -> str:
    left_s = at_s - time.time()
    return f"in {formatting.duration(left_s)}" if left_s > 0 else "has ended"
