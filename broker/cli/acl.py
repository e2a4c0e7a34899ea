"""``acl generate``: users, rights and passwords for a Redis that the clouds of a federation share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.console import CommandError, JsonOption, console, print_json

if TYPE_CHECKING:
    from broker.storage.acl import User

acl = typer.Typer(no_args_is_help=True, help="Separate the clouds in a Redis that they share.")


@acl.callback()
def _group() -> None:
    """Separate the clouds in a Redis that they share."""


@acl.command()
def generate(
    federation: Annotated[Path, typer.Argument(help="Federation file: its clouds.", metavar="FEDERATION")],
    out: Annotated[Path, typer.Option(help="The ACL file, named by `aclfile` in redis.conf.")],
    users_out: Annotated[
        Path,
        typer.Option(help="Directory of the users' addresses, one file each, for this user's eyes alone."),
    ] = Path("redis-users"),
    address: Annotated[
        str | None,
        typer.Option(
            "--redis", help="Address of the server, without a login.", show_default="SPOTFED_REDIS_URL"
        ),
    ] = None,
    rotate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USER", help="A new password for this user; the old one stays valid until the next run."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write an ACL file for Redis 7 or newer: a user for each owner, each node agent and each other party.

    Each user gets a file USER.env with its SPOTFED_REDIS_URL, mode 0600: hand it over. Run again, for example
    with one more cloud, it leaves the passwords that the ACL file has as they are. Nothing secret is printed.

    Example: spotfed acl generate federation.toml --out users.acl --redis rediss://redis.example:6379/0
    """
    from broker.settings import settings
    from broker.storage.acl import (
        hash_password,
        list_users,
        login_url,
        make_password,
        read_hashes,
        render_acl_file,
        write_secret,
    )
    from broker.storage.keys import RedisKeys

    told = settings()
    keys, place = RedisKeys(told.key_prefix), _address(address or told.redis_url)
    everybody = list_users(keys, _clouds(federation))
    renewed = set(rotate or ())
    if unknown := renewed - {user.name for user in everybody}:
        names = ", ".join(user.name for user in everybody)
        raise _bad_input(f"there is no user {', '.join(sorted(unknown))}; the users are {names}", "--rotate")
    try:
        before = read_hashes(out.read_text(encoding="utf-8")) if out.exists() else {}
        users_out.mkdir(parents=True, exist_ok=True, mode=0o700)
        hashes: dict[User, list[str]] = {}
        written: dict[str, Path] = {}
        for user in everybody:
            known = before.get(user.name, [])[:1]
            if not known or user.name in renewed:
                password = make_password()
                known = [hash_password(password), *known]
                written[user.name] = users_out / f"{user.name}.env"
                address_of_user = login_url(place, user.name, password)
                write_secret(written[user.name], f"SPOTFED_REDIS_URL='{address_of_user}'\n")
            hashes[user] = known
        # Last: it is what makes the new passwords valid, and they must be in their files by then.
        write_secret(out, render_acl_file(keys, hashes))
    except OSError as error:
        raise CommandError(f"cannot write {error.filename}: {error.strerror}") from error
    _show(out, [user.name for user in everybody], written, as_json=as_json)


def _clouds(federation: Path) -> list[str]:
    """The ids in a federation file, without reading the traces that it names."""
    import tomllib

    from pydantic import TypeAdapter, ValidationError

    from broker.contract import CloudId
    from cloudsim.model.errors import SpecError

    try:
        stored = tomllib.loads(federation.read_text(encoding="utf-8"))
        found = TypeAdapter(list[CloudId]).validate_python([one["id"] for one in stored["cloud"]])
    except OSError as error:
        raise SpecError(f"cannot read it: {error.strerror}", file=str(federation)) from error
    except ValueError as error:
        # A ValidationError too; it would repeat much, and the file is short.
        why = "an id is letters, digits, - and _" if isinstance(error, ValidationError) else str(error)
        raise SpecError(why, file=str(federation), field="cloud.id") from error
    except (KeyError, TypeError) as error:
        raise SpecError("needs [[cloud]] tables, each with an id", file=str(federation)) from error
    return list(dict.fromkeys(found))


def _address(told: str | None) -> str:
    from urllib.parse import urlsplit

    if told is None:
        raise _bad_input("name the server, as in rediss://redis.example:6379/0", "--redis")
    parts = urlsplit(told)
    if parts.scheme not in {"redis", "rediss", "unix"} or not (parts.hostname or parts.path):
        raise _bad_input("must be an address like rediss://redis.example:6379/0", "--redis")
    return told


def _bad_input(message: str, field: str) -> Exception:
    from cloudsim.model.errors import InputError

    return InputError(message, field=field)


def _show(out: Path, names: list[str], written: dict[str, Path], *, as_json: bool) -> None:
    if as_json:
        print_json({"acl_file": str(out), "users": names, "new": {one: str(written[one]) for one in written}})
        return
    from rich.table import Table

    table = Table(title=f"Users in {out}", title_justify="left")
    table.add_column("user")
    table.add_column("address with password", overflow="fold")
    for name in names:
        table.add_row(name, str(written.get(name, "as before")))
    said = console()
    said.print(table)
    said.print("Load it with `ACL LOAD` as the operator, or start Redis with `aclfile` naming it.")
