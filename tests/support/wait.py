"""The one way in which tests wait for something that happens in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

#: Far beyond what anything here takes: a machine under load must not fail a test.
LIMIT_S = 120.0
_PAUSE_S = 0.01


def wait_until(
    condition: Callable[[], Result | None], what: str = "the condition", limit_s: float = LIMIT_S
) -> Result:
    """Call ``condition`` until it returns something true, and return that.

    Args:
        condition: is called a hundred times a second. What it raises ends the wait.
        what: names the condition in the failure's message.
        limit_s: seconds after which the wait fails.

    Raises:
        AssertionError: the condition was false for ``limit_s`` seconds.
    """
    gives_up_s = time.monotonic() + limit_s
    while True:
        if result := condition():
            return result
        assert time.monotonic() < gives_up_s, f"{what}: not within {limit_s:g} s"
        time.sleep(_PAUSE_S)
