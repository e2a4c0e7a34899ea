"""Finds what other installed packages add to spotfed, by their entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from cloudsim.model.errors import SpecError

Part = TypeVar("Part")

#: Line-ups: values of ``cloudsim.scheduling.lineups.LineUp``.
LINE_UPS = "spotfed.line_ups"
#: Formats of traces: values of ``cloudsim.traces.formats.trace_format.TraceFormat``.
TRACE_FORMATS = "spotfed.trace_formats"


@cache
def load_plugins(group: str, kind: type[Part]) -> dict[str, Part]:
    """Return the entry points of a group by name, loaded; in order of name.

    Raises
    ------
    SpecError
        When one cannot be loaded, or is no ``kind``; it names the package.
    """
    parts: dict[str, Part] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        where = f"{entry.value} of {entry.dist.name if entry.dist else 'an installed package'}"
        try:
            part = entry.load()
        except Exception as error:
            raise SpecError(
                f"{where} cannot be loaded: {error}; repair or remove that package", field=group
            ) from error
        if not isinstance(part, kind):
            raise SpecError(f"{where} is no {kind.__name__}, but {type(part).__name__}", field=group)
        parts[entry.name] = part
    return parts
