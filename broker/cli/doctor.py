"""``doctor``: checks an installation, and says what is wrong and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Column
from rich.text import Text

from broker.cli.console import JsonOption, make_table, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.journal import finding_line, findings_list, verify_journals
from broker.doctor import CheckResult, Installation, State, run_checks
from broker.local.process_record import is_supervised, read_record
from broker.local.state_files import find_api_key, find_api_url, find_redis_url, key_file
from broker.settings import SettingsError, load
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys

_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red"}


def doctor(
    repair_queue: Annotated[
        bool,
        typer.Option(
            "--repair-queue",
            help="Copy the file of the embedded queue and cut off an end that cannot be read; then check the "
            "journals against the archives.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check settings, Redis, versions, owners, tables, the API and directories; say what to do.

    Nothing is changed or started, unless --repair-queue says so. Exit code 0 when nothing has failed,
    warnings or not; 1 when something has.

    Example: spotfed doctor
    """
    if repair_queue:
        _repair_queue(as_json=as_json)
        return
    with _find_installation() as installation:
        results = run_checks(installation)
    show_one({"checks": results}, *results_text(results), as_json=as_json)
    if any(result.state is State.FAILURE for result in results):
        raise typer.Exit(ExitCode.FAILED)


def _repair_queue(*, as_json: bool) -> None:
    """Repair the embedded queue, start it alone, and verify the journals that it holds.

    Raises
    ------
    CommandError
        When the queue is a server that the settings name.
    RedisServerError
        When the server runs, or its file cannot be repaired.
    """
    settings = load()
    if settings.redis_url is not None:
        raise CommandError(
            "--repair-queue: repairs the queue of `spotfed up`, and SPOTFED_REDIS_URL names another server, "
            "which has tools of its own",
            ExitCode.BAD_INPUT,
        )
    server = EmbeddedRedis(settings.state_dir / "redis")
    repaired = server.repair()
    with server, connect(server.url) as client:
        findings = verify_journals(client, RedisKeys(settings.key_prefix), None)
    if repaired.copy is None:
        text = f"nothing to repair: {repaired.file} can be read to its end"
    else:
        text = f"cut {repaired.cut_bytes} bytes off {repaired.file}; as it was, it is in {repaired.copy}"
    report = {
        "file": str(repaired.file),
        "cut_bytes": repaired.cut_bytes,
        "copy": None if repaired.copy is None else str(repaired.copy),
        "clouds": findings_list(findings),
    }
    show_one(report, escape(text), *map(finding_line, findings), as_json=as_json)
    if any(finding.bad is not None for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _find_installation() -> Installation:
    """Return what the settings name, or else what ``spotfed up`` runs on this machine."""
    try:
        settings = load()
    except SettingsError as error:
        return Installation(error)
    record = read_record(settings.state_dir)
    has_api = "url" in settings.model_fields_set or record is not None
    return Installation(
        settings,
        redis_url=find_redis_url(settings),
        api_url=find_api_url(settings) if has_api else None,
        api_key=find_api_key(settings),
        api_key_file=key_file(settings.state_dir),
        supervised=None if record is None else is_supervised(record),
    )


def results_text(results: Sequence[CheckResult]) -> tuple[RenderableType, str]:
    """Return a table of results, and their numbers by state."""
    table = make_table(
        "Checks", *(Column(heading, overflow="fold") for heading in ("state", "check", "found"))
    )
    for result in results:
        found = Text(result.found)
        if result.advice:
            found.append(f"\n→ {result.advice}", style="bold" if result.state != "ok" else "")
        table.add_row(Text(result.state, style=_COLOURS[result.state]), Text(result.name), found)
    counts = Counter(str(result.state) for result in results)
    summary = ", ".join(f"{counts[state]} {state}" for state in _COLOURS)
    return table, f"{len(results)} checks: {summary}"
