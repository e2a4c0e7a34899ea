"""Parses what people write on the command line, and puts values into words for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cloudsim.model.errors import SpecError

#: (seconds, name) of the units in which durations are shown, largest first.
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units: ``90.0`` is ``1 min 30 s``, ``93600`` is ``1 d 2 h``."""
    if seconds is None:
        return "–"
    if not math.isfinite(seconds):
        return "for ever"
    rest = round(abs(seconds))
    parts: list[str] = []
    for size, name in _UNITS:
        count, rest = divmod(rest, int(size))
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
        if len(parts) == 2:
            break
    return ("−" if seconds < 0 else "") + (" ".join(filter(None, parts)) or "0 s")


def cores(count: int) -> str:
    """Return a number of cores with its noun: ``1 core``, ``2 cores``."""
    return f"{count} core" if count == 1 else f"{count} cores"


def sizes(counts: Sequence[int]) -> str:
    """Return ascending sizes with their runs shortened: ``1–4, 8``; a dash for none."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and count == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], count]
        else:
            runs.append([count, count])
    return ", ".join(str(a) if a == b else f"{a}–{b}" if b > a + 1 else f"{a}, {b}" for a, b in runs) or "–"


def share(part: float, whole: float) -> str:
    """Return ``part`` of ``whole`` as a proportion with four digits; a dash if ``whole`` is 0."""
    return f"{part / whole:.4f}" if whole else "–"


def risk(probability: float | None) -> str:
    """Return a probability of eviction with four digits; a dash where nothing was estimated."""
    return "–" if probability is None else f"{probability:.4f}"


def rounded_up(probability: float) -> float:
    """Round a probability up to four digits, so that an SLA which was shown is accepted when it is asked."""
    return math.ceil(probability * 10_000 - 1e-9) / 10_000


def sla(value: float | None) -> str:
    """Return an SLA as it is written on the command line."""
    return "none" if value is None else f"{value:g}"


def parse_sla(text: str, *, field: str) -> float | None:
    """Parse an SLA: a probability, or ``none``. Raises SpecError naming ``field``."""
    if text.strip().lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise SpecError(f"{text!r} is not a probability from 0 to 1, or none", field=field)
    return value


def parse_sizes(text: str, *, field: str) -> tuple[int, ...]:
    """Parse sizes in cores like ``1,2,8``; return them ascending. Raises SpecError naming ``field``."""
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise SpecError(f"{text!r} is not a list of sizes in cores, for example 1,2,8", field=field)
    return tuple(sorted({int(size) for size in sizes}))
