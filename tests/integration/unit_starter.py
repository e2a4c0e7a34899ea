"""A ``systemctl`` for machines without systemd: starts what unit files say, as they say it, but unconfined.

    python unit_starter.py LOGS COMMAND [OPTION ...] UNIT ...

What it leaves out is the hardening, dependencies and restarts.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

UNITS = (Path("/etc/systemd/system"), Path("/usr/lib/systemd/system"))
DIRECTORIES = {"StateDirectory": "/var/lib", "CacheDirectory": "/var/cache", "RuntimeDirectory": "/run"}


def service(unit: str) -> dict[str, list[str]]:
    """The [Service] section of a unit, or of the template that it is an instance of."""
    stem, at, instance = unit.removesuffix(".service").partition("@")
    (path,) = [found for directory in UNITS if (found := directory / f"{stem}{at}.service").exists()][:1]
    told: defaultdict[str, list[str]] = defaultdict(list)
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            for specifier, meant in (("%i", instance), ("%l", socket.gethostname().partition(".")[0])):
                value = value.replace(specifier, meant)
            told[name].append(value)
    return told


def environment(told: dict[str, list[str]]) -> dict[str, str]:
    """What systemd would tell the process: little, and what the unit says. A file must be there."""
    lines = [word for value in told.get("Environment", []) for word in shlex.split(value)]
    for name in told.get("EnvironmentFile", []):
        lines += [word for line in Path(name).read_text().splitlines() for word in shlex.split(line)]
    return {"PATH": os.environ["PATH"], **dict(line.split("=", 1) for line in lines)}


def start(unit: str, logs: Path) -> None:
    """Starts a unit, after stopping what an earlier call has started."""
    number = logs / f"{unit}.pid"
    if number.exists():
        os.kill(int(number.read_text()), signal.SIGTERM)
    told = service(unit)
    user = told["User"][0]
    for kind, base in DIRECTORIES.items():
        for name in told.get(kind, []):
            path = Path(base) / name
            path.mkdir(exist_ok=True)
            shutil.chown(path, user, pwd.getpwnam(user).pw_gid)
    command = ["runuser", "-u", user, "--", *shlex.split(told["ExecStart"][0])]
    with (logs / f"{unit}.log").open("ab") as log:
        process = subprocess.Popen(
            command, env=environment(told), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    number.write_text(str(process.pid))


def main(arguments: list[str]) -> None:
    """Like ``systemctl enable --now``, ``restart``, ``start`` and ``daemon-reload``."""
    logs, command, *rest = arguments
    assert command in {"enable", "restart", "start", "daemon-reload"}, command
    for unit in [one for one in rest if not one.startswith("-")]:
        start(f"{unit.removesuffix('.service')}.service", Path(logs))


if __name__ == "__main__":
    main(sys.argv[1:])
