"""Finds what other installed packages add to spotfed, by their entry points."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from cloudsim.model.errors import SpecError

Part = TypeVar("Part")

#: Line-ups: values of ``cloudsim.scheduling.lineups.LineUp``.
LINE_UPS = "spotfed.line_ups"
#: Functions that return a victim policy; the parameters of the federation file are their arguments.
VICTIM_POLICIES = "spotfed.victim_policies"
#: Functions like those of ``cloudsim.scheduling.weighers``, with the parameters as further arguments.
WEIGHERS = "spotfed.weighers"
#: Functions that return a sampler: see ``cloudsim.prediction.predictor.MakeSampler``.
PREDICTORS = "spotfed.predictors"
#: Mechanisms of batch jobs: values of ``cloudsim.jobs.attempts.Mechanism``.
CHECKPOINT_MECHANISMS = "spotfed.checkpoint_mechanisms"
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


def write_part(value: Any) -> Any:
    """Return a table of a federation file as text, which names it wherever it is known; all else as it is."""
    return json.dumps(value, sort_keys=True) if isinstance(value, Mapping) else value


def read_part(value: Any, field: str) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of a part, given as its name, as a table with a ``name``, or as its text.

    Raises
    ------
    SpecError
        When it is none of these; it names ``field``.
    """
    if isinstance(value, str) and value.startswith("{"):
        value = read_table(value, field)
    if isinstance(value, Mapping):
        parameters = dict(value)
        value = parameters.pop("name", None)
    else:
        parameters = {}
    if not isinstance(value, str):
        raise SpecError("is neither a name nor a table with a name", field=field)
    return value, parameters


def read_table(text: str, field: str) -> dict[str, Any]:
    """Return the table that ``write_part`` wrote.

    Raises
    ------
    SpecError
        When it is none.
    """
    try:
        table = json.loads(text)
    except ValueError as error:
        raise SpecError(f"is no table in JSON ({error})", field=field) from None
    assert isinstance(table, dict), "it begins with a brace"
    return table


def make_part(make: Callable[..., Part], parameters: Mapping[str, Any], field: str, *arguments: Any) -> Part:
    """Return what a function of a package makes of its arguments and the parameters of a file.

    Raises
    ------
    SpecError
        When the function refuses them.
    """
    try:
        return make(*arguments, **parameters)
    except (TypeError, ValueError) as error:
        raise SpecError(f"cannot be made: {error}", field=field) from error
