"""``config``: the settings of commands and processes started here, and the schema of federation files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from pydantic import SecretStr
from rich.markup import escape
from rich.table import Column, Table

from broker.cli.console import JsonOption, make_table, next_step, print_json, show_one
from broker.cli.errors import warn
from broker.contract.field_docs import read_field_docs
from broker.local.state_files import address_file, find_api_url, find_redis_url, key_file, record_file
from broker.settings import Settings, display_value, settings, unknown_variables, variable
from cloudsim.federation.file_schema import FederationFile

config = typer.Typer(
    no_args_is_help=True, help="Settings, where they come from, and the schema of federation files."
)


@dataclass(frozen=True)
class SettingView:
    """A setting as it is shown.

    variable: name of its environment variable. value: without secrets. origin: environment, default, or the
    path of a file. what: its description.
    """

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
    views, unknown = list_settings(settings()), unknown_variables()
    for name in unknown:
        warn(_unknown_text(name, [view.variable for view in views]))
    show_one({"settings": views, "unknown": unknown}, _settings_table(views, origin=origin), as_json=as_json)
    if not as_json:
        next_step("spotfed doctor checks them")


@config.command()
def schema(as_json: JsonOption = False) -> None:
    """Print the JSON Schema of federation files, with which editors complete and check them.

    It is JSON with and without --json.

    Example: spotfed config schema > federation.schema.json
    """
    del as_json
    print_json(FederationFile.model_json_schema())


def list_settings(config: Settings) -> list[SettingView]:
    """Return all settings in their order; where none is given, the value that commands find here."""
    local, docs = _local_values(config), read_field_docs(Settings)
    views = []
    for name in Settings.model_fields:
        value, origin = getattr(config, name), "environment"
        if name not in config.model_fields_set:
            value, origin = local.get(name, (value, "default"))
        views.append(SettingView(variable(name), display_value(name, value), origin, describe(docs[name])))
    return views


def describe(text: str) -> str:
    """Put a description from the source into users' words: variables for fields, and unset for None."""

    def name_variable(match: re.Match[str]) -> str:
        return variable(match[1]) if match[1] in Settings.model_fields else match[1]

    return re.sub(r"\bNone\b", "unset", re.sub(r"`+([^`]+)`+", name_variable, " ".join(text.split())))


def _local_values(config: Settings) -> dict[str, tuple[Any, str]]:
    """Return what a federation that runs here has left for commands: value and file, by setting."""
    record, address, key = (file(config.state_dir) for file in (record_file, address_file, key_file))
    values: dict[str, tuple[Any, str]] = {}
    # Not Path.exists, which raises where this user may not look.
    if os.access(record, os.R_OK):
        values["url"] = (find_api_url(config), str(record))
    if os.access(key, os.R_OK):
        values["api_key"] = (SecretStr("kept there"), str(key))
    if os.access(address, os.R_OK) and (url := find_redis_url(config)):
        values["redis_url"] = (url, str(address))
    return values


def _unknown_text(name: str, known: list[str]) -> str:
    near = get_close_matches(name.upper(), known, n=1)
    return f"{name}: there is no such setting, so it does nothing" + (
        f"; did you mean {near[0]}?" if near else ""
    )


def _settings_table(views: Sequence[SettingView], *, origin: bool) -> Table:
    table = make_table(
        None,
        Column("setting", no_wrap=True),
        Column("value", overflow="fold"),
        *([Column("from", overflow="fold")] if origin else []),
        "what",
    )
    for view in views:
        cells = map(escape, (view.value, view.origin) if origin else (view.value,))
        table.add_row(view.variable, *cells, view.what, style="dim" if view.origin == "default" else None)
    return table
