"""Ports for processes that tests start, which are told their port and bind it a while later."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

#: Below those that the kernel gives to connections and to servers that ask for any port.
_FIRST, _LAST = 20_000, 32_000
#: Not the module's own generator: pytest-randomly seeds that alike in all processes of a run.
_random = random.SystemRandom()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses, and that nobody is given until it is bound.

    Raises AssertionError when none is found.
    """
    for _ in range(1_000):
        port = _random.randrange(_FIRST, _LAST)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
