"""The last epoch of a cloud that this machine opened, in a local file: a floor if Redis loses its count.

The file also names the process that opened it: if that is dead, its lease need not be waited for.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

from broker.storage.private_files import make_private_directory, write_private_file


class EpochFile:
    """Keeps one epoch and its owner in a file; the epoch only grows."""

    def __init__(self, directory: Path, cloud: str):
        self._path = directory / cloud

    def read(self) -> int:
        """Return the last epoch, or 0."""
        epoch = self._content().get("epoch", 0)
        return epoch if isinstance(epoch, int) else 0

    def write(self, epoch: int, token: str = "") -> None:
        """Write an epoch, and return when it is on the disk. ``token``: of this process."""
        if epoch <= self.read():
            return
        content = {"epoch": epoch, "token": token, "pid": os.getpid(), **_this_process()}
        make_private_directory(self._path.parent)
        write_private_file(self._path, json.dumps(content).encode())

    def token(self) -> str:
        """Return the token of the process that wrote the file, or ''."""
        token = self._content().get("token")
        return token if isinstance(token, str) else ""

    def dead(self) -> str:
        """Return the token of the process that wrote the file if it ran on this machine and is dead, else ''.

        Should it live after all, the next epoch fences it.
        """
        token = self.token()
        return token if token and self._lives() is False else ""

    def pid(self) -> int | None:
        """Return the id of the process that wrote the file if it lives on this machine, else None."""
        pid = self._content().get("pid")
        return pid if isinstance(pid, int) and self._lives() else None

    def _lives(self) -> bool | None:
        """Return whether the process that wrote the file lives; None if that cannot be told here."""
        import psutil

        content = self._content()
        pid = content.get("pid")
        if not isinstance(pid, int) or content.get("where") != _where():
            return None
        try:
            process = psutil.Process(pid)
            alive = process.create_time() == content.get("started")
            return alive and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:
            return None

    def _content(self) -> dict[str, object]:
        try:
            content = json.loads(self._path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return {}
        # An older spotfed wrote the number alone.
        return content if isinstance(content, dict) else {"epoch": content}


def _this_process() -> dict[str, object]:
    import psutil

    return {"started": psutil.Process().create_time(), "where": _where()}


def _where() -> str:
    """Return a name for this machine since it was started, and for the name space of its process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        numbers = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return platform.node()
    return f"{platform.node()} {boot} {numbers}"
