"""Options that several commands have, and the errors that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from cloudsim.model.errors import SpecError

Body = TypeVar("Body", bound=BaseModel)

CloudFilter = Annotated[str | None, typer.Option(help="Of this cloud only.")]
OriginFilter = Annotated[str | None, typer.Option(help="Of this origin only.")]
LeaseArgument = Annotated[str, typer.Argument(help="Id of the lease.")]


def build_model(
    model: type[Body],
    fields: Mapping[str, Any],
    options: Mapping[str, str] | None = None,
    *,
    whole: str | None = None,
) -> Body:
    """Build a message to the API from the values of options.

    Parameters
    ----------
    options
        Names of options or arguments, by the field that they set, where they are not ``--field-name``.
    whole
        The option that an error is about which names no field.

    Raises
    ------
    SpecError
        When a value is not valid; it names the option.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = [str(part) for part in first["loc"]]
        raise SpecError(first["msg"], field=_option(path, options or {}, whole)) from None


def _option(path: list[str], options: Mapping[str, str], whole: str | None) -> str | None:
    for name in reversed(path):
        if name in options:
            return options[name]
    field = next((part for part in reversed(path) if not part.isdecimal()), None)
    return whole if field is None else f"--{field.replace('_', '-')}"


def parse_pairs(texts: list[str] | None, *, field: str, strip: bool = True) -> dict[str, str]:
    """Parse texts like ``memory_mb=4000`` into a dictionary.

    Parameters
    ----------
    strip
        Remove spaces around names and values, and accept no empty value.

    Raises
    ------
    SpecError
        When a text is not NAME=VALUE, or a name is given twice; it names ``field``.
    """
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if strip:
            name, value = name.strip(), value.strip()
        if not (name and equals) or (strip and not value):
            raise SpecError(f"{text!r} is not NAME=VALUE", field=field)
        if name in pairs:
            raise SpecError(f"{name} is given twice", field=field)
        pairs[name] = value
    return pairs
