"""Every setting: variable, default, meaning."""

from __future__ import annotations

from typing import Any

from pydantic.fields import FieldInfo

from broker.cli.config import described
from broker.cli.reference.markdown import code, laid_out, prose, table
from broker.settings import Settings, variable


def page() -> str:
    """The page."""
    rows = [
        (code(variable(name)), _default(field), prose(described(field.description or "")))
        for name, field in Settings.model_fields.items()
    ]
    return laid_out(
        "Settings",
        "What processes and commands read from the environment: every setting, its default and its meaning.",
        "An empty variable counts as unset. Names that end in `_S` are seconds of wall time unless it says "
        "otherwise. `spotfed config show --origin` shows the values here and where they come from.",
        "",
        table(("variable", "default", "what"), rows),
        source="`broker.settings`",
    )


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "found on this machine"
    value: Any = field.default
    return (
        "unset" if value is None or value == () else code(f"{value:g}" if isinstance(value, float) else value)
    )
