"""Every command with its arguments and options."""

from __future__ import annotations

from typing import Any

import typer

from broker.cli.manual import commands_of, records_of
from broker.cli.reference.markdown import code, fenced, laid_out, prose, table


def page() -> str:
    """The page."""
    from broker.cli import app

    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="spotfed")
    about = "What `spotfed` does, command by command, with all options."
    more = (
        "Every command has `--help`, and `--json` for programs: one object, or a line for each event or "
        "request. [Exit codes](exit-codes.md) say how it ended, [settings](settings.md) what it reads from "
        "the environment."
    )
    parts = [more, "", *_options(root, context)]
    for command, place in commands_of(root, context):
        parts += _command(command, place)
    return laid_out("Commands", about, *parts, source="`broker.cli`")


def _command(command: Any, place: typer.Context) -> list[str]:
    usage = " ".join([place.command_path, *command.collect_usage_pieces(place)])
    said, _, example = (command.help or "").partition("Example: ")
    parts = [
        "",
        f"## {place.command_path}",
        "",
        prose(said),
        "",
        fenced(usage),
        "",
        *_options(command, place),
    ]
    if example:
        parts += ["", "Example:", "", fenced(example.strip())]
    return parts


def _options(command: Any, place: typer.Context) -> list[str]:
    rows = [(code(name), prose(meaning)) for name, meaning in records_of(command, place)]
    return [table(("argument or option", "what"), rows)]
