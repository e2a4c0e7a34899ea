"""Starts child processes that receive SIGTERM when their parent thread exits (Linux)."""

from __future__ import annotations

import os
import sys

# Only the child can ask the kernel for it, and running Python between fork and exec is unsafe in a process
# with threads: so a launcher asks, then becomes the command.
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


def die_with_parent(command: list[str]) -> list[str]:
    """Return a command line that runs ``command`` until it ends or the thread that starts it does.

    Start it from a thread that lives as long as the command should. On systems other than Linux the result is
    ``command`` itself, which outlives a parent that is killed.
    """
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]
