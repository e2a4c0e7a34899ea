"""Commands ``member``: an operator adds, lists, changes and removes the members of a federation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.api_key import CloudOption, request_body
from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, next_step, print_json

if TYPE_CHECKING:
    from broker.api.schemas.members import MemberView

member = typer.Typer(no_args_is_help=True, help="Members of the federation, and how much spot they may hold.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the member.")]
CoresOption = Annotated[
    str | None, typer.Option(metavar="N|none", help="Most spot cores at once.", show_default=False)
]
InstancesOption = Annotated[
    str | None, typer.Option(metavar="N|none", help="Most spot instances at once.", show_default=False)
]


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
    from broker.api.schemas.members import MemberWish

    fields = {"name": name, **_member_fields(cloud, spot_cores, spot_instances)}
    request = request_body(MemberWish, fields)
    with connected() as client:
        _show_members([client.members.add(request)], as_json=as_json)
    if not as_json:
        next_step(f"spotfed key create {name}")


@member.command("list")
def list_members(as_json: JsonOption = False) -> None:
    """List the members, what they may hold and what they hold.

    Example: spotfed member list
    """
    with connected() as client:
        members = client.members.list()
    if as_json:
        print_json({"members": [member.model_dump(mode="json") for member in members]})
    elif members:
        _show_members(members, as_json=False)
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
    from broker.api.schemas.members import MemberChange

    fields = _member_fields(cloud, spot_cores, spot_instances)
    if not fields:
        raise CommandError(
            "nothing to change: name --cloud, --spot-cores or --spot-instances", ExitCode.BAD_INPUT
        )
    change = request_body(MemberChange, fields)
    with connected() as client:
        _show_members([client.members.update(name, change)], as_json=as_json)


@member.command("remove")
def remove_member(name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove a member and all its keys. Its leases run to their ends.

    Example: spotfed member remove acme
    """
    with connected() as client:
        client.members.remove(name)
    if as_json:
        print_json({"removed": name})
    else:
        console().print(f"{name} is removed, with its keys")


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


def _show_members(members: list[MemberView], *, as_json: bool) -> None:
    if as_json:
        print_json({"member": members[0].model_dump(mode="json")})
        return
    from rich.table import Table

    table = Table()
    table.add_column("member")
    table.add_column("clouds")
    for name in ("spot cores", "at most", "instances", "at most"):
        table.add_column(name, justify="right")
    for row in members:
        table.add_row(
            row.name,
            ", ".join(row.clouds) or "–",
            str(row.held_cores),
            _cap(row.spot_cores),
            str(row.held_instances),
            _cap(row.spot_instances),
        )
    console().print(table)


def _cap(most: int | None) -> str:
    return "any" if most is None else str(most)
