"""``member``: an operator adds, lists, changes and removes the members of a federation."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column

from broker.cli.api_key import CloudOption
from broker.cli.connection import connected
from broker.cli.console import JsonOption, make_table, next_step, number, show_list, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.options import build_model
from broker.schemas.members import MemberChange, MemberView, MemberWish

member = typer.Typer(no_args_is_help=True, help="Members of the federation, and how much spot they may hold.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the member.")]
CoresOption = Annotated[
    str | None, typer.Option(metavar="N|none", help="Most spot cores at once.", show_default=False)
]
InstancesOption = Annotated[
    str | None, typer.Option(metavar="N|none", help="Most spot instances at once.", show_default=False)
]

_OPTION_OF_FIELD = {"name": "NAME", "clouds": "--cloud"}


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
    fields = {"name": name, **_member_fields(cloud, spot_cores, spot_instances)}
    request = build_model(MemberWish, fields, _OPTION_OF_FIELD)
    with connected() as client:
        _show_member(client.members.add(request), as_json=as_json)
    if not as_json:
        next_step(f"spotfed key create {name}")


@member.command("list")
def list_members(as_json: JsonOption = False) -> None:
    """List the members, what they may hold and what they hold.

    Example: spotfed member list
    """
    with connected() as client:
        members = client.members.list()
    none = "no members yet: spotfed member add NAME"
    show_list("members", members, *_columns(), row=_member_row, as_json=as_json, none=none)


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
    fields = _member_fields(cloud, spot_cores, spot_instances)
    if not fields:
        raise CommandError(
            "nothing to change: name --cloud, --spot-cores or --spot-instances", ExitCode.BAD_INPUT
        )
    change = build_model(MemberChange, fields, _OPTION_OF_FIELD)
    with connected() as client:
        _show_member(client.members.update(name, change), as_json=as_json)


@member.command("remove")
def remove_member(name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove a member and all its keys. Its leases run to their ends.

    Example: spotfed member remove acme
    """
    with connected() as client:
        client.members.remove(name)
    show_one({"removed": name}, f"{name} is removed, with its keys", as_json=as_json)


def _member_fields(cloud: list[str] | None, cores: str | None, instances: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {} if cloud is None else {"clouds": tuple(cloud)}
    for name, text in (("spot_cores", cores), ("spot_instances", instances)):
        if text is None:
            continue
        if text != "none" and not text.isdecimal():
            option = f"--{name.replace('_', '-')}"
            raise CommandError(f"{option}: a whole number, or none for no cap", ExitCode.BAD_INPUT)
        fields[name] = None if text == "none" else int(text)
    return fields


def _columns() -> tuple[str | Column, ...]:
    return ("member", "clouds", *map(number, ("spot cores", "at most", "instances", "at most")))


def _show_member(view: MemberView, *, as_json: bool) -> None:
    table = make_table(None, *_columns())
    table.add_row(*_member_row(view))
    show_one({"member": view}, table, as_json=as_json)


def _member_row(view: MemberView) -> tuple[str, ...]:
    return (
        view.name,
        ", ".join(view.clouds) or "–",
        str(view.held_cores),
        _cap_text(view.spot_cores),
        str(view.held_instances),
        _cap_text(view.spot_instances),
    )


def _cap_text(most: int | None) -> str:
    return "any" if most is None else str(most)
