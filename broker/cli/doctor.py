"""``doctor``: checks an installation, and says what is wrong and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from broker.cli.console import ExitCode, JsonOption, console, print_json

if TYPE_CHECKING:
    from broker.doctor import CheckResult, Installation

_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red"}


def doctor(as_json: JsonOption = False) -> None:
    """Check settings, Redis, versions, owners, tables, the API and directories; say what to do.

    Nothing is changed or started. Exit code 0 when nothing has failed, warnings or not; 1 when something has.

    Example: spotfed doctor
    """
    from broker.doctor import State, run_checks

    with _find_installation() as installation:
        results = run_checks(installation)
    if as_json:
        print_json({"checks": [asdict(result) for result in results]})
    else:
        _show(results)
    if any(result.state is State.FAILURE for result in results):
        raise typer.Exit(ExitCode.FAILED)


def _find_installation() -> Installation:
    """Return what the settings name, or else what ``spotfed up`` runs on this machine."""
    from broker.cli.connection import api_key, url
    from broker.doctor import Installation
    from broker.local.federation import record_file
    from broker.local.queue import address_file, key_file
    from broker.settings import SettingsError, load

    try:
        settings = load()
    except SettingsError as error:
        return Installation(error)
    redis_url = settings.redis_url
    if redis_url is None and address_file(settings.state_dir).exists():
        redis_url = address_file(settings.state_dir).read_text(encoding="utf-8")
    has_api = "url" in settings.model_fields_set or record_file(settings.state_dir).exists()
    return Installation(
        settings,
        redis_url=redis_url,
        api_url=url(settings) if has_api else None,
        api_key=api_key(settings),
        api_key_file=key_file(settings.state_dir),
    )


def _show(results: Sequence[CheckResult]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Checks", title_justify="left")
    for column in ("state", "check", "found"):
        table.add_column(column, overflow="fold")
    for result in results:
        found = Text(result.found)
        if result.advice:
            found.append(f"\n→ {result.advice}", style="bold" if result.state != "ok" else "")
        table.add_row(Text(result.state, style=_COLOURS[result.state]), Text(result.name), found)
    console().print(table)
    counts = Counter(str(result.state) for result in results)
    console().print(f"{len(results)} checks: {', '.join(f'{counts[state]} {state}' for state in _COLOURS)}")
