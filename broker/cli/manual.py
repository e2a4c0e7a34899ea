"""The manual page, made of what commands say of themselves: ``python -m broker.cli.manual > spotfed.1``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

_MARKUP = re.compile(r"\[/?[a-z]+\]")
_TYPE = re.compile(r" <[a-z \[\]]+>")

_FILES = (
    ("~/.local/state/spotfed", "the state directory, unless SPOTFED_STATE_DIR names another one"),
    ("api-key", "in it: the first API key, which commands on this machine find by themselves"),
    ("archive", "in it: the archives of the journals of the clouds whose owners run here; back it up"),
)


def page() -> str:
    """The page in roff, for section 1."""
    from broker.cli import app

    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="spotfed")
    lines = [
        '.TH SPOTFED 1 "" "spotfed" "User Commands"',
        ".SH NAME",
        "spotfed \\- a federation broker for private clouds",
        ".SH SYNOPSIS",
        ".B spotfed",
        "[\\fIOPTION\\fR ...] \\fICOMMAND\\fR [\\fIARGUMENT\\fR ...]",
        ".SH DESCRIPTION",
        _plain(root.help),
        ".PP",
        _plain(root.epilog),
        ".PP",
        "With \\fB\\-\\-json\\fR every command prints one object, or a line for each event or request.",
        ".SH OPTIONS",
        *_options(root, context),
        ".SH COMMANDS",
    ]
    for command, place in commands_of(root, context):
        lines += _command(command, place)
    lines += [".SH EXIT STATUS", *_terms(_exits()), ".SH ENVIRONMENT", *_terms(_settings())]
    lines += [
        ".SH FILES",
        *_terms(_FILES),
        ".SH SEE ALSO",
        "README.md, SECURITY.md and deploy/README.md of spotfed",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def commands_of(group: Any, context: typer.Context) -> Iterator[tuple[Any, typer.Context]]:
    """All that do something, with their places, groups one after the other."""
    for name, command in group.commands.items():
        place = typer.Context(command, info_name=name, parent=context)
        if hasattr(command, "commands"):
            yield from commands_of(command, place)
        elif not command.hidden:
            yield command, place


def _command(command: Any, place: typer.Context) -> list[str]:
    usage = " ".join(command.collect_usage_pieces(place)).replace("[OPTIONS]", "[OPTION ...]")
    said, _, example = (command.help or "").partition("Example: ")
    lines = [f".SS {_escaped(f'{place.command_path} {usage}')}"]
    for number, paragraph in enumerate(said.strip().split("\n\n")):
        lines += [".PP" if number else "", _plain(paragraph)]
    lines += _options(command, place)
    if example:
        lines += [".PP", "Example:", ".RS", ".nf", _escaped(example.strip()), ".fi", ".RE"]
    return lines


def _options(command: Any, place: typer.Context) -> list[str]:
    return _terms(records_of(command, place))


def records_of(command: Any, place: typer.Context) -> Iterator[tuple[str, str]]:
    """Its arguments and options as they are typed, and what they mean; without those that all have."""
    for one in command.get_params(place):
        record = one.get_help_record(place)
        if record and one.name not in {"help", "as_json"}:
            yield _TYPE.sub(" VALUE" if one.param_type_name == "option" else "", record[0]), record[1]


def _exits() -> Iterator[tuple[str, str]]:
    from broker.cli.output import MEANINGS

    for code, meaning in MEANINGS.items():
        yield str(int(code)), meaning


def _settings() -> Iterator[tuple[str, str]]:
    from broker.cli.config import described
    from broker.settings import Settings, variable

    for name, field in Settings.model_fields.items():
        yield variable(name), described(field.description or "")


def _terms(pairs: Any) -> list[str]:
    """A list of names and what they mean."""
    return [line for name, meaning in pairs for line in (".TP", f".B {_escaped(name)}", _plain(meaning))]


def _plain(text: str | None) -> str:
    return _escaped(" ".join(_MARKUP.sub("", text or "").split()))


def _escaped(text: str) -> str:
    """Text that roff takes for nothing else, in ASCII."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    safe = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", safe)
    return f"\\&{safe}" if safe.startswith(".") else safe


if __name__ == "__main__":
    typer.echo(page(), nl=False)
