"""Computes the pauses between attempts of a caller that tries again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_LARGEST_EXPONENT = 64  # beyond it every pause is the longest one; larger powers overflow


@dataclass(frozen=True)
class Backoff:
    """Computes pauses that grow exponentially with the number of failures, up to a limit.

    Parameters
    ----------
    first_s
        Nominal pause after the first failure, in seconds.
    longest_s
        Upper limit of the nominal pause, in seconds.
    factor
        Ratio of each nominal pause to the one before.
    jitter
        Range of the random number that a nominal pause is multiplied by. It keeps callers that failed
        together from coming back together; ``(1.0, 1.0)`` makes every pause exactly nominal.
    """

    first_s: float
    longest_s: float
    factor: float = 2.0
    jitter: tuple[float, float] = (0.5, 1.0)

    def nominal_s(self, failures: int) -> float:
        """Return the pause after ``failures`` failures in a row (at least 1), without jitter."""
        exponent = min(failures - 1, _LARGEST_EXPONENT)
        return min(self.first_s * self.factor**exponent, self.longest_s)

    def pause_s(self, failures: int) -> float:
        """Return the pause after ``failures`` failures in a row (at least 1), with jitter."""
        least, most = self.jitter
        nominal_s = self.nominal_s(failures)
        return nominal_s * (least if least == most else random.uniform(least, most))

    def pauses(self) -> Iterator[float]:
        """Yield the pauses after the first failure, the second, and so on, without end."""
        failures = 0
        while True:
            failures += 1
            yield self.pause_s(failures)


API_BACKOFF = Backoff(first_s=0.1, longest_s=2.0)  # of a client that calls the HTTP API


def retry_after_s(response: httpx.Response) -> float | None:
    """Return how many seconds a response asks its caller to wait; None if it asks for none (RFC 9110)."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
