"""``acl generate``: list_users, rights and passwords for a Redis that the clouds of a federation share."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.table import Column

from broker.cli.console import JsonOption, make_table, show_one
from broker.cli.errors import CommandError
from broker.cli.redis_connection import connected_redis
from broker.contract import CloudId
from broker.identity.redis_acl import (
    User,
    hash_password,
    list_users,
    make_password,
    read_hashes,
    render_acl_file,
    render_login,
)
from broker.settings import check_redis_url, is_sentinel, settings
from broker.storage import scripts
from broker.storage.keys import RedisKeys
from broker.storage.private_files import write_private_file
from cloudsim.model.errors import InputError, SpecError

acl = typer.Typer(no_args_is_help=True, help="Separate the clouds in a Redis that they share.")


@acl.command()
def generate(
    federation: Annotated[Path, typer.Argument(help="Federation file: its clouds.", metavar="FEDERATION")],
    out: Annotated[Path, typer.Option(help="The ACL file, named by `aclfile` in redis.conf.")],
    users_out: Annotated[
        Path,
        typer.Option(help="Directory for the users' addresses, one file each, readable for the owner alone."),
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
    together: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLOUDS",
            help="Clouds whose owners one process runs, as in A,B, or '*' for all; once for each such "
            "process. It gets a user named after the first of them.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write an ACL file for Redis 7 or newer: a user for each owner, each node agent and each other party.

    Each user gets a file USER.env with its SPOTFED_REDIS_URL, mode 0600: hand it over. Run again, for example
    with one more cloud, it leaves the passwords that the ACL file has as they are. Nothing secret is printed.
    With the address of Sentinels there are users for replicas and Sentinels too, as lines of configuration.

    Example: spotfed acl generate federation.toml --out users.acl --redis rediss://redis.example:6379/0
    """
    config = settings()
    keys, server_url = RedisKeys(config.key_prefix), _check_address(address or config.redis_url)
    clouds = _cloud_ids(federation)
    groups = _read_groups(together or (), clouds)
    members = list_users(keys, clouds, together=groups, sentinel=is_sentinel(server_url))
    renewed = set(rotate or ())
    if unknown := renewed - {user.name for user in members}:
        names = ", ".join(user.name for user in members)
        raise InputError(
            f"there is no user {', '.join(sorted(unknown))}; the users are {names}", field="--rotate"
        )
    try:
        before = read_hashes(out.read_text(encoding="utf-8")) if out.exists() else {}
        users_out.mkdir(parents=True, exist_ok=True, mode=0o700)
        hashes: dict[User, list[str]] = {}
        written: dict[str, Path] = {}
        for user in members:
            user_hashes = before.get(user.name, [])[:1]
            if not user_hashes or user.name in renewed:
                password = make_password()
                user_hashes = [hash_password(password), *user_hashes]
                file, text = render_login(user, server_url, password)
                written[user.name] = users_out / file
                write_private_file(written[user.name], text)
            hashes[user] = user_hashes
        # Last: it is what makes the new passwords valid, and they must be in their files by then.
        write_private_file(out, render_acl_file(keys, hashes))
    except OSError as error:
        raise CommandError(f"cannot write {error.filename}: {error.strerror}") from error
    _show(out, [user.name for user in members], written, as_json=as_json)


@acl.command()
def load_scripts(as_json: JsonOption = False) -> None:
    """Load the scripts of this version into Redis, as the operator.

    Owners run scripts and may not load them. The API loads its own when it starts, and again within a second
    when Redis was restarted: use this where owners of another version begin first, or while no API runs.

    Example: spotfed acl load-scripts
    """
    with connected_redis() as (client, _):
        count = scripts.load_scripts(client)
    text = f"{count} scripts were loaded" if count else "Redis has all of them"
    show_one({"loaded": count}, text, as_json=as_json)


def _cloud_ids(federation: Path) -> list[str]:
    """Return the ids in a federation file, without reading the traces that it names."""
    try:
        stored = tomllib.loads(federation.read_text(encoding="utf-8"))
        ids = TypeAdapter(list[CloudId]).validate_python([cloud["id"] for cloud in stored["cloud"]])
    except OSError as error:
        raise SpecError(f"cannot read it: {error.strerror}", file=str(federation)) from error
    except ValueError as error:
        # The text of a ValidationError would be long, and the file is short.
        why = "an id is letters, digits, - and _" if isinstance(error, ValidationError) else str(error)
        raise SpecError(why, file=str(federation), field="cloud.id") from error
    except (KeyError, TypeError) as error:
        raise SpecError("needs [[cloud]] tables, each with an id", file=str(federation)) from error
    return list(dict.fromkeys(ids))


def _read_groups(together: Sequence[str], clouds: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the clouds of each process that runs several owners."""
    groups = [tuple(clouds if text == "*" else dict.fromkeys(text.split(","))) for text in together]
    named = [cloud for group in groups for cloud in group]
    if unknown := [cloud for cloud in named if cloud not in clouds]:
        raise InputError(
            f"no cloud is called {unknown[0]!r}; there are: {', '.join(clouds)}", field="--together"
        )
    if twice := [cloud for cloud in clouds if named.count(cloud) > 1]:
        raise InputError(f"{twice[0]} is in two processes", field="--together")
    return groups


def _check_address(url: str | None) -> str:
    if url is None:
        raise InputError("name the server, as in rediss://redis.example:6379/0", field="--redis")
    try:
        return check_redis_url(url)
    except ValueError as error:
        raise InputError(f"the address {error}", field="--redis") from None


def _show(out: Path, names: list[str], written: dict[str, Path], *, as_json: bool) -> None:
    table = make_table(f"Users in {out}", "user", Column("address with password", overflow="fold"))
    for name in names:
        table.add_row(name, str(written.get(name, "as before")))
    show_one(
        {"acl_file": str(out), "users": names, "new": {name: str(path) for name, path in written.items()}},
        table,
        "Load it with `ACL LOAD` as the operator, or start Redis with `aclfile` naming it.",
        as_json=as_json,
    )
