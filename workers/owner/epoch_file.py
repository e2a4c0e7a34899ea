"""The last epoch of a cloud that this machine opened, in a local file: a floor if Redis loses its count.

Who opened it stands there as well: where that process is dead, nobody has to wait for its lease.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

from broker.archive import write_whole


class EpochFile:
    """One epoch and its owner in one file; the epoch only grows."""

    def __init__(self, directory: Path, cloud: str):
        self._path = directory / cloud

    def read(self) -> int:
        """The last epoch, 0 if none was written."""
        epoch = self._content().get("epoch", 0)
        return epoch if isinstance(epoch, int) else 0

    def write(self, epoch: int, token: str = "") -> None:
        """Returns when the number is on the disk. ``token``: of this process."""
        if epoch <= self.read():
            return
        content = {"epoch": epoch, "token": token, "pid": os.getpid(), **_this_process()}
        write_whole(self._path, json.dumps(content).encode())

    def dead(self) -> str:
        """The token of the process that wrote the file, if it ran on this machine and is no more; else ''.

        Should that be a mistake, the process is fenced by the next epoch all the same.
        """
        import psutil

        content = self._content()
        pid, token = content.get("pid"), content.get("token")
        if not isinstance(pid, int) or not isinstance(token, str) or content.get("where") != _where():
            return ""
        try:
            process = psutil.Process(pid)
            alive = process.create_time() == content.get("started")
            return "" if alive and process.status() != psutil.STATUS_ZOMBIE else token
        except psutil.NoSuchProcess:
            return token
        except psutil.Error:
            return ""

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
    """This machine since it was started, and whose process numbers are meant."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        numbers = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return platform.node()
    return f"{platform.node()} {boot} {numbers}"
