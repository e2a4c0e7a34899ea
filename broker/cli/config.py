"""``config``: the settings of commands and processes started here, and the schema of federation files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.console import JsonOption, console, next_step, print_json, warn

if TYPE_CHECKING:
    from broker.settings import Settings

config = typer.Typer(
    no_args_is_help=True, help="Settings, where they come from, and the schema of federation files."
)


@config.callback()
def _group() -> None:
    """Settings, where they come from, and the schema of federation files."""


@dataclass(frozen=True)
class Shown:
    """One setting. ``value`` is without secrets; ``origin``: environment, default, or a file's path."""

    variable: str
    value: str
    origin: str
    what: str


@config.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show every setting, without its secrets.

    A setting is an environment variable. Where there is none, commands find the address and the first key of
    the federation that `spotfed up` runs on this machine in its state directory.

    Example: spotfed config show --origin
    """
    from broker.settings import settings, unknown_variables

    told = settings()
    found, unknown = shown_settings(told), unknown_variables()
    for name in unknown:
        warn(_unknown(name, [one.variable for one in found]))
    if as_json:
        print_json({"settings": [asdict(one) for one in found], "unknown": unknown})
        return
    _table(found, origin=origin)
    next_step("spotfed doctor checks them")


@config.command()
def schema(as_json: JsonOption = False) -> None:
    """Print the JSON Schema of federation files, with which editors complete and check them.

    It is JSON with and without --json.

    Example: spotfed config schema > federation.schema.json
    """
    del as_json
    from cloudsim.federation.file_schema import FederationFile

    print_json(FederationFile.model_json_schema())


def shown_settings(told: Settings) -> list[Shown]:
    """All of them, in their order; where nothing is told, what commands find on this machine."""
    from broker.settings import display_value, variable

    beside = _files(told)
    found = []
    for name, field in type(told).model_fields.items():
        value, origin = getattr(told, name), "environment"
        if name not in told.model_fields_set:
            value, origin = beside.get(name, (value, "default"))
        found.append(
            Shown(variable(name), display_value(name, value), origin, described(field.description or ""))
        )
    return found


def described(text: str) -> str:
    """What the source says of a setting, in the words of its users: variables, and unset instead of None."""
    import re

    from broker.settings import Settings, variable

    def named(found: re.Match[str]) -> str:
        return variable(found[1]) if found[1] in Settings.model_fields else found[1]

    return re.sub(r"\bNone\b", "unset", re.sub(r"`+([^`]+)`+", named, " ".join(text.split())))


def _files(told: Settings) -> dict[str, tuple[Any, str]]:
    """What a federation that runs here has left for commands: value and file, by setting."""
    from pydantic import SecretStr

    from broker.cli.connection import url
    from broker.local.federation import record_file
    from broker.local.queue import address_file, key_file

    found: dict[str, tuple[Any, str]] = {}
    record, address, key = (place(told.state_dir) for place in (record_file, address_file, key_file))
    if record.exists():
        found["url"] = (url(told), str(record))
    if key.exists():
        found["api_key"] = (SecretStr("kept there"), str(key))
    if text := _text(address):
        found["redis_url"] = (text, str(address))
    return found


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.upper(), known, n=1)
    return f"{name}: there is no such setting, so it does nothing" + (
        f"; did you mean {near[0]}?" if near else ""
    )


def _table(found: list[Shown], *, origin: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    if origin:
        table.add_column("from", overflow="fold")
    table.add_column("what")
    for one in found:
        told = map(escape, (one.value, one.origin) if origin else (one.value,))
        table.add_row(one.variable, *told, one.what, style=None if one.origin != "default" else "dim")
    console().print(table)
