"""Durations in the form that people write: ``90``, ``30s``, ``15m``, ``24h``, ``10d``."""

from __future__ import annotations

import math
import re

from cloudsim.model.errors import SpecError

_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*")


def parse_duration_s(value: object, *, field: str) -> float:
    """Return the seconds of a duration: a number, or text such as ``90``, ``30s``, ``15m``, ``24h``, ``10d``.

    Raises
    ------
    SpecError
        When ``value`` is no duration, negative or not finite; it names ``field``.
    """
    if isinstance(value, bool) or not isinstance(value, str | float | int):
        raise SpecError(f"{value!r} is not a duration such as 30s, 15m, 24h or 10d", field=field)
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise SpecError(f"{value!r} is not a duration such as 30s, 15m, 24h or 10d", field=field)
        value = float(match[1]) * _UNIT_S[match[2] or "s"]
    if not math.isfinite(value) or value < 0:
        raise SpecError(f"{value!r} is not a duration of 0 seconds or more", field=field)
    return float(value)
