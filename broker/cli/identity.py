"""``member`` and ``key``: who may use a federation. For operators."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli import words
from broker.cli.connection import connected
from broker.cli.output import CommandError, ExitCode, JsonOption, console, next_step, print_json, warn

if TYPE_CHECKING:
    from broker.api.identity_models import MemberView, NewKey
    from broker.members import KeyRecord

member = typer.Typer(no_args_is_help=True, help="Members of the federation, and how much spot they may hold.")
key = typer.Typer(no_args_is_help=True, help="API keys: each is shown once, when it is made.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the member.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key, see spotfed key list.")]
CloudOption = Annotated[
    list[str] | None, typer.Option("--cloud", help="Id of a cloud that is its own; may be repeated.")
]
CoresOption = Annotated[
    str | None, typer.Option(metavar="N|none", help="Most spot cores at once.", show_default=False)
]
InstancesOption = Annotated[
    str | None, typer.Option(metavar="N|none", help="Most spot instances at once.", show_default=False)
]


# -- members ----------------------------------------------------------------------------------------------


@member.command("add")
def add_member(
    name: NameArgument,
    cloud: CloudOption = None,
    spot_cores: CoresOption = None,
    spot_instances: InstancesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a member. Its requests carry its name as origin; make it a key next.

    Example: spotfed member add acme --cloud acme-1 --spot-cores 500
    """
    from broker.api.identity_models import MemberWish

    told = _told(MemberWish, {"name": name, **_member_fields(cloud, spot_cores, spot_instances)})
    with connected() as client:
        _show_members([client.add_member(told)], as_json=as_json)
    if not as_json:
        next_step(f"spotfed key create {name}")


@member.command("list")
def list_members(as_json: JsonOption = False) -> None:
    """List the members, what they may hold and what they hold.

    Example: spotfed member list
    """
    with connected() as client:
        found = client.members()
    if as_json:
        print_json({"members": [one.model_dump(mode="json") for one in found]})
    elif found:
        _show_members(found, as_json=False)
    else:
        console().print("no members yet: spotfed member add NAME")


@member.command("set")
def set_member(
    name: NameArgument,
    cloud: CloudOption = None,
    spot_cores: CoresOption = None,
    spot_instances: InstancesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a member's clouds or caps; what is not named stays. A lower cap ends nothing that runs.

    Example: spotfed member set acme --spot-cores none
    """
    from broker.api.identity_models import MemberChange

    fields = _member_fields(cloud, spot_cores, spot_instances)
    if not fields:
        raise CommandError("nothing to change: name --cloud, --spot-cores or --spot-instances", _BAD)
    told = _told(MemberChange, fields)
    with connected() as client:
        _show_members([client.set_member(name, told)], as_json=as_json)


@member.command("remove")
def remove_member(name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove a member and all its keys. Its leases run to their ends.

    Example: spotfed member remove acme
    """
    with connected() as client:
        client.remove_member(name)
    if as_json:
        print_json({"removed": name})
    else:
        console().print(f"{name} is removed, with its keys")


# -- keys -------------------------------------------------------------------------------------------------


@key.command("first")
def first_key(as_json: JsonOption = False) -> None:
    """Make the first operator's key of a federation, straight into its Redis (SPOTFED_REDIS_URL).

    It is kept in the file api-key of the state directory, where commands on this machine find it. Run again,
    it lets the key of that file in again. `spotfed up` does this by itself.

    Example: spotfed key first
    """
    from broker.cli.connection import queue
    from broker.local.queue import first_key as kept
    from broker.local.queue import key_file
    from broker.members import let_in_operator
    from broker.settings import settings

    told = settings()
    with queue() as (client, keys):
        let_in_operator(client, keys, kept(told))
    path = key_file(told.state_dir)
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
    from broker.api.identity_models import KeyWish

    told: dict[str, Any] = {"principal": principal, "role": role}
    if cloud:
        told["clouds"] = tuple(cloud)
    if lifetime is not None:
        told["lifetime_s"] = _seconds(lifetime, "--lifetime")
    with connected() as client:
        made = client.create_key(_told(KeyWish, told))
    _show_new(made, as_json=as_json)


@key.command("list")
def list_keys(as_json: JsonOption = False) -> None:
    """List the keys, without their secrets.

    Example: spotfed key list
    """
    with connected() as client:
        found = client.api_keys()
    if as_json:
        print_json({"keys": [one.model_dump(mode="json") for one in found]})
    else:
        _show_keys(found)


@key.command("rotate")
def rotate_key(
    key_id: KeyArgument,
    grace: Annotated[str, typer.Option(help="How long the old key still works.")] = "24h",
    as_json: JsonOption = False,
) -> None:
    """Make a new key in the place of one, which still works for a while. The new one is printed this once.

    Example: spotfed key rotate 4f1c9a0b2d3e --grace 1h
    """
    from broker.api.identity_models import Rotation

    told = _told(Rotation, {"grace_s": _seconds(grace, "--grace")})
    with connected() as client:
        made = client.rotate_key(key_id, told)
    _show_new(made, as_json=as_json)


@key.command("revoke")
def revoke_key(key_id: KeyArgument, as_json: JsonOption = False) -> None:
    """End a key: within about a second in every API process, and never later than in five.

    Example: spotfed key revoke 4f1c9a0b2d3e
    """
    with connected() as client:
        gone = client.revoke_key(key_id)
    if as_json:
        print_json({"revoked": gone.model_dump(mode="json")})
    else:
        console().print(f"key {gone.id} of {gone.principal} is revoked")


@key.command("log")
def log(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many entries.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show who changed members and keys, the latest first.

    Example: spotfed key log --limit 20
    """
    with connected() as client:
        entries = client.audit(limit)
    if as_json:
        print_json({"entries": [one.model_dump(mode="json") for one in entries]})
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for name in ("when", "what", "which", "by", "with key", "more"):
        table.add_column(name)
    for one in entries:
        more = escape(", ".join(f"{name} {value}" for name, value in one.more.items()))
        table.add_row(_ago(one.at_s), one.what, one.object, one.by, one.key, more)
    console().print(table)


# -- how --------------------------------------------------------------------------------------------------

_BAD = ExitCode.BAD_INPUT


def _told(model: type[Any], fields: dict[str, Any]) -> Any:
    """What the API would refuse is refused here, in its words."""
    from pydantic import ValidationError

    try:
        return model(**fields)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise CommandError(f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}", _BAD) from None


def _member_fields(cloud: list[str] | None, cores: str | None, instances: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {} if cloud is None else {"clouds": tuple(cloud)}
    for name, text in (("spot_cores", cores), ("spot_instances", instances)):
        if text is None:
            continue
        if text != "none" and not text.isdecimal():
            raise CommandError(f"--{name.replace('_', '-')}: a whole number, or none for no cap", _BAD)
        fields[name] = None if text == "none" else int(text)
    return fields


def _seconds(text: str, option: str) -> float:
    from cloudsim.durations import parse_duration_s

    return parse_duration_s(text, field=option)


def _show_new(made: NewKey, *, as_json: bool) -> None:
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    warn(f"this is the only time that the key {made.record.id} of {made.record.principal} is shown")
    typer.echo(made.key)
    next_step("who uses it sets SPOTFED_API_KEY to it, and SPOTFED_URL to where the API is")


def _show_members(found: list[MemberView], *, as_json: bool) -> None:
    if as_json:
        print_json({"member": found[0].model_dump(mode="json")})
        return
    from rich.table import Table

    table = Table()
    table.add_column("member")
    table.add_column("clouds")
    for name in ("spot cores", "at most", "instances", "at most"):
        table.add_column(name, justify="right")
    for one in found:
        table.add_row(
            one.name,
            ", ".join(one.clouds) or "–",
            str(one.held_cores),
            _cap(one.spot_cores),
            str(one.held_instances),
            _cap(one.spot_instances),
        )
    console().print(table)


def _show_keys(found: list[KeyRecord]) -> None:
    from rich.table import Table

    table = Table()
    for name in ("key", "of", "role", "clouds", "made", "ends"):
        table.add_column(name)
    for one in found:
        clouds = "all" if one.clouds is None else ", ".join(one.clouds) or "none"
        ends = "–" if one.expires_at_s is None else _in(one.expires_at_s)
        table.add_row(one.id, one.principal, one.role.value, clouds, _ago(one.created_at_s), ends)
    console().print(table)


def _cap(most: int | None) -> str:
    return "any" if most is None else str(most)


def _ago(at_s: float) -> str:
    return f"{words.duration(max(0.0, time.time() - at_s))} ago"


def _in(at_s: float) -> str:
    left_s = at_s - time.time()
    return f"in {words.duration(left_s)}" if left_s > 0 else "has ended"
