"""Where a process driver has each piece of work: ``<base>/<work>/``.

work.json   what was asked for, and which cores it has
state/      what the shim is told and writes, see `workers.node_agent.process.shim`
save/       the same of its save command
cause.json  what the driver ended it for; noticed.json: that it was warned
job/        its directory, where it has local storage; tmp/: its TMPDIR
"""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from broker.jobs.models import Work
from workers.node_agent.process.checkpoints import checked_id
from workers.node_agent.process.driver_protocol import StopCause
from workers.node_agent.process.process_tree import ProcessTree
from workers.node_agent.process.task_files import read_json, read_outcome, read_start, shim_lives, write_json
from workers.node_agent.process.usage_meter import UsageMeter, disk_bytes

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}


class WorkDir:
    """One piece of work as a process driver holds it."""

    def __init__(self, base: Path, work: Work, cores: tuple[int, ...], live: Path | None, uid: int | None):
        """``live``: its directory, where that is not here. ``uid``: its user."""
        self.path = base / checked_id(work.id)
        self.work, self.cores, self.uid = work, cores, uid
        self.directory = self.path / "job" if live is None else live
        self.meter = UsageMeter()
        self._lock = threading.Lock()
        self.shim: subprocess.Popen[bytes] | None = None
        self.disk_gb, self.disk_at = 0.0, float("-inf")

    @property
    def state(self) -> Path:
        """Of its shim."""
        return self.path / "state"

    @property
    def tmp(self) -> Path:
        """Its TMPDIR."""
        return self.path / "tmp"

    def write(self) -> None:
        """Notes what was asked for."""
        content = {"work": self.work.model_dump(mode="json"), "cores": list(self.cores), "uid": self.uid}
        write_json(self.path / "work.json", content)

    def measured_gb(self) -> float:
        """What is in its directory."""
        return disk_bytes(self.directory) / 1e9 if self.directory.is_dir() else 0.0

    def group(self) -> ProcessTree | None:
        """Its processes; None: there were never any."""
        found = read_start(self.state)
        return None if found is None else ProcessTree(found, self.uid)

    def cause(self) -> StopCause | None:
        """What it was ended for."""
        found = read_json(self.path / "cause.json")
        return None if found is None else StopCause(found["cause"])

    def note_cause(self, cause: StopCause) -> None:
        """The first one stays; what has ended by itself has none."""
        with self._lock:
            if self.cause() is None and read_outcome(self.state) is None:
                write_json(self.path / "cause.json", {"cause": cause.value})

    def noticed_at(self) -> float | None:
        """When it was warned."""
        found = read_json(self.path / "noticed.json")
        return None if found is None else float(found["at"])

    def note_notice(self) -> bool:
        """False: it was noted before."""
        with self._lock:
            if self.noticed_at() is not None:
                return False
            write_json(self.path / "noticed.json", {"at": time.time()})
            return True

    def lost(self) -> bool:
        """Whether nobody looks after it and nobody can say how it ended, which is written before the lock is
        let go."""
        return not shim_lives(self.state) and read_outcome(self.state) is None

    def environment(self) -> dict[str, str]:
        """All that its processes are told."""
        work = self.work
        return {
            **_ENVIRONMENT,
            "HOME": str(self.directory),
            "TMPDIR": str(self.tmp),
            **work.environment,
            "SPOTFED_JOB_ID": work.job,
            "SPOTFED_JOB_DIR": str(self.directory),
            "SPOTFED_JOB_RANK": str(work.rank),
            "SPOTFED_JOB_SIZE": str(work.size),
            "SPOTFED_JOB_ATTEMPT": str(work.attempt),
            "SPOTFED_JOB_RESTORED": "0" if work.restore is None else "1",
        }


def read_work_dir(path: Path) -> tuple[Work, tuple[int, ...], int | None] | None:
    """What is noted there; None: nothing."""
    found: dict[str, Any] | None = read_json(path / "work.json")
    if found is None:
        return None
    return Work.model_validate(found["work"]), tuple(found["cores"]), found["uid"]
