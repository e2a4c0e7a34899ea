"""What the exit codes of commands mean, and which errors end with which."""

from __future__ import annotations

import inspect
from importlib import import_module

from broker.cli.output import CODES, MEANINGS
from broker.cli.reference.markdown import code, laid_out, prose, table


def page() -> str:
    """The page."""
    more = (
        "An error that is none of these is a bug of spotfed: its traceback is shown. The error's class "
        "decides, the most special one first:"
    )
    return laid_out(
        "Exit codes",
        "How commands of `spotfed` tell programs what came of them.",
        table(("code", "meaning"), ((str(int(one)), prose(text)) for one, text in MEANINGS.items())),
        "",
        more,
        "",
        table(("error", "what it is", "code"), (_error(name, int(one)) for name, one in CODES.items())),
        source="`broker.cli.output`",
    )


def _error(name: str, number: int) -> tuple[str, str, str]:
    module, _, kind = name.rpartition(".")
    said = inspect.getdoc(getattr(import_module(module), kind)) or ""
    return code(name), prose(said.partition("\n\n")[0]), str(number)
