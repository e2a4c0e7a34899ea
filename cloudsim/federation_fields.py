"""Fields of tables in a federation file, checked: every error names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cloudsim.errors import SpecError


def only(table: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raises SpecError for a field that is not ``known``."""
    for name in table:
        if name not in known:
            field = f"{where}.{name}" if where else name
            raise SpecError(f"unknown field; known are: {', '.join(sorted(known))}", field=field)


def tables(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Those that are written ``[[name]]``, in their order. Raises SpecError."""
    found = document.get(name, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise SpecError(f"write each as [[{name}]]", field=name)
    return found


def text(table: Mapping[str, Any], name: str, where: str) -> str:
    """Text that is there and not empty. Raises SpecError."""
    value = table.get(name)
    if not isinstance(value, str) or not value:
        raise SpecError("is missing or not text", field=f"{where}.{name}")
    return value


def whole(table: Mapping[str, Any], name: str, where: str, most: int) -> int:
    """A whole number from 1 to ``most``. Raises SpecError."""
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise SpecError(f"{value!r} is not a whole number from 1 to {most}", field=f"{where}.{name}")
    return value


def sla(value: object, where: str) -> float | None:
    """A probability, or None. Raises SpecError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise SpecError(f"{value!r} is not a probability from 0 to 1", field=where)
    return float(value)


def positive(value: object, where: str) -> float:
    """A number above 0, not infinite. Raises SpecError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise SpecError(f"{value!r} is not a number above 0", field=where)
    return float(value)


def at_least_0(value: object, where: str) -> float:
    """A number of 0 or more, not infinite. Raises SpecError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise SpecError(f"{value!r} is not a number of 0 or more", field=where)
    return float(value)
