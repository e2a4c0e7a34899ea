"""Starts child processes that receive SIGTERM when their parent thread ends (Linux)."""

from __future__ import annotations

import os
import sys

# Only the child can ask the kernel for the signal, and running Python between fork and exec is unsafe in a
# process with threads: so a launcher asks, then becomes the command.
_LAUNCHER = """
import ctypes, os, signal, sys
parent, arguments = int(sys.argv[1]), sys.argv[2:]
PR_SET_PDEATHSIG = 1
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
    sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
if os.getppid() != parent:
    sys.exit("the parent is gone")
os.execv(arguments[0], arguments)
"""


def deathbound(command: list[str]) -> list[str]:
    """Return a command line that runs ``command`` and ends with the thread that starts it.

    Except on Linux it is ``command`` itself, which outlives a parent that is killed.
    """
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]
