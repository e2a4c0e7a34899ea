"""Commands ``key``: an operator makes, lists, rotates and revokes API keys."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, next_step, print_json, warn

if TYPE_CHECKING:
    from pydantic import BaseModel

    from broker.api.schemas.api_keys import NewKey
    from broker.identity.models import KeyRecord

    Body = TypeVar("Body", bound=BaseModel)

key = typer.Typer(no_args_is_help=True, help="API keys: each is shown once, when it is made.")

KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key, see spotfed key list.")]
CloudOption = Annotated[
    list[str] | None, typer.Option("--cloud", help="Id of a cloud that is its own; may be repeated.")
]


@key.command("first")
def first_key(as_json: JsonOption = False) -> None:
    """Make the first operator's key of a federation, straight into its Redis (SPOTFED_REDIS_URL).

    It is kept in the file api-key of the state directory, where commands on this machine find it. Run again,
    it lets the key of that file in again. `spotfed up` does this by itself.

    Example: spotfed key first
    """
    from broker.cli.connection import queue
    from broker.identity.store import let_in_operator
    from broker.local.queue import first_key as local_first_key
    from broker.local.queue import key_file
    from broker.settings import settings

    config = settings()
    with queue() as (client, keys):
        let_in_operator(client, keys, local_first_key(config))
    path = key_file(config.state_dir)
    if as_json:
        print_json({"api_key_file": str(path)})
        return
    console().print(f"an operator's key is in {path}", soft_wrap=True)
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
    from broker.api.schemas.api_keys import KeyWish
    from cloudsim.model.durations import parse_duration_s

    fields: dict[str, Any] = {"principal": principal, "role": role}
    if cloud:
        fields["clouds"] = tuple(cloud)
    if lifetime is not None:
        fields["lifetime_s"] = parse_duration_s(lifetime, field="--lifetime")
    with connected() as client:
        new_key = client.api_keys.create(request_body(KeyWish, fields))
    _show_new_key(new_key, as_json=as_json)


@key.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List the keys, without their secrets.

    Example: spotfed key list
    """
    with connected() as client:
        keys = client.api_keys.list()
    if as_json:
        print_json({"keys": [record.model_dump(mode="json") for record in keys]})
    else:
        _show_keys(keys)


@key.command("rotate")
def rotate_key(
    key_id: KeyArgument,
    grace: Annotated[str, typer.Option(help="How long the old key still works.")] = "24h",
    as_json: JsonOption = False,
) -> None:
    """Make a new key in the place of one, which still works for a while. The new one is printed this once.

    Example: spotfed key rotate 4f1c9a0b2d3e --grace 1h
    """
    from broker.api.schemas.api_keys import Rotation
    from cloudsim.model.durations import parse_duration_s

    rotation = request_body(Rotation, {"grace_s": parse_duration_s(grace, field="--grace")})
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
    if as_json:
        print_json({"revoked": record.model_dump(mode="json")})
    else:
        console().print(f"key {record.id} of {record.principal} is revoked")


@key.command("log")
def show_log(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many entries.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show who changed members and keys, the latest first.

    Example: spotfed key log --limit 20
    """
    with connected() as client:
        entries = client.members.read_audit(limit)
    if as_json:
        print_json({"entries": [entry.model_dump(mode="json") for entry in entries]})
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for name in ("when", "what", "which", "by", "with key", "more"):
        table.add_column(name)
    for entry in entries:
        more = escape(", ".join(f"{name} {value}" for name, value in entry.more.items()))
        table.add_row(_ago(entry.at_s), entry.what, entry.object, entry.by, entry.key, more)
    console().print(table)


def request_body(model: type[Body], fields: dict[str, Any]) -> Body:
    """Make the body of a call. What the API would refuse is refused here, in its words: CommandError."""
    from pydantic import ValidationError

    try:
        return model(**fields)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
        text = f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
        raise CommandError(text, ExitCode.BAD_INPUT) from None


def _show_new_key(new_key: NewKey, *, as_json: bool) -> None:
    if as_json:
        print_json(new_key.model_dump(mode="json"))
        return
    record = new_key.record
    warn(f"this is the only time that the key {record.id} of {record.principal} is shown")
    typer.echo(new_key.key)
    next_step("who uses it sets SPOTFED_API_KEY to it, and SPOTFED_URL to where the API is")


def _show_keys(keys: list[KeyRecord]) -> None:
    from rich.table import Table

    table = Table()
    for name in ("key", "of", "role", "clouds", "made", "ends"):
        table.add_column(name)
    for record in keys:
        clouds = "all" if record.clouds is None else ", ".join(record.clouds) or "none"
        ends = "–" if record.expires_at_s is None else _in(record.expires_at_s)
        table.add_row(record.id, record.principal, record.role.value, clouds, _ago(record.created_at_s), ends)
    console().print(table)


def _ago(at_s: float) -> str:
    return f"{formatting.duration(max(0.0, time.time() - at_s))} ago"


def _in(at_s: float) -> str:
    left_s = at_s - time.time()
    return f"in {formatting.duration(left_s)}" if left_s > 0 else "has ended"
