"""CPU time of the processes that a benchmark started, by what they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import psutil

#: What a command line holds, and what its process is called; the first that fits. A cloud's owner is called
#: by its cloud.
_ROLES = {
    "redis-server": "Redis",
    "valkey-server": "Redis",
    "broker.api": "API",
    "workers.montecarlo": "Monte-Carlo",
}


def spent_s() -> Mapping[str, float]:
    """Seconds of CPU, user and system, that each kind of child process has used so far, and this process."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
            seconds[_role(child.cmdline())] += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    own = psutil.Process().cpu_times()
    seconds["caller"] = own.user + own.system
    return seconds


def _role(command: list[str]) -> str:
    if "workers.owner" in command:
        return f"owner {command[command.index('--cloud') + 1]}"
    return next((role for word, role in _ROLES.items() if any(word in part for part in command)), "other")


def each_us(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """Microseconds of CPU that one of ``count`` admissions cost each kind of process, by its name."""
    return {role: (after[role] - before.get(role, 0.0)) * 1e6 / count for role in sorted(after)}
