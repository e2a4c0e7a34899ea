"""Hold the files of one piece of work of a process driver, in ``<base>/<work>/``.

work.json     what was asked for, and which cores it has
state/        the task and the shim's files, see `workers.node_agent.process.shim`
save/         the same files of its save command
cause.json    why the driver ended it
noticed.json  when it was warned
job/          the job's directory, with local storage
tmp/          its TMPDIR
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
from workers.node_agent.process.usage_meter import UsageMeter

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}


class WorkDir:
    """One piece of work of a process driver: its directory, its shim and its usage."""

    def __init__(self, base: Path, work: Work, cores: tuple[int, ...], live: Path | None, uid: int | None):
        """Take the work; ``live``: the job's directory if it is elsewhere; ``uid``: the user of the work."""
        self.path = base / checked_id(work.id)
        self.work, self.cores, self.uid = work, cores, uid
        self.directory = self.path / "job" if live is None else live
        self.meter = UsageMeter()
        self._lock = threading.Lock()
        self.shim: subprocess.Popen[bytes] | None = None
        self.disk_gb, self.disk_at = 0.0, float("-inf")

    @property
    def state(self) -> Path:
        """The directory of its shim."""
        return self.path / "state"

    @property
    def tmp(self) -> Path:
        """The directory of its temporary files."""
        return self.path / "tmp"

    def write(self) -> None:
        """Write down what was asked for."""
        content = {"work": self.work.model_dump(mode="json"), "cores": list(self.cores), "uid": self.uid}
        write_json(self.path / "work.json", content)

    def process_tree(self) -> ProcessTree | None:
        """Return its processes, None if there were never any."""
        start = read_start(self.state)
        return None if start is None else ProcessTree(start, self.uid)

    def read_cause(self) -> StopCause | None:
        """Return why the driver ended it, None if it did not."""
        content = read_json(self.path / "cause.json")
        return None if content is None else StopCause(content["cause"])

    def note_cause(self, cause: StopCause) -> None:
        """Write down why the driver ends it. The first cause counts; work that ended by itself has none."""
        with self._lock:
            if self.read_cause() is None and read_outcome(self.state) is None:
                write_json(self.path / "cause.json", {"cause": cause.value})

    def read_noticed_at(self) -> float | None:
        """Return when it was warned, None if it was not."""
        content = read_json(self.path / "noticed.json")
        return None if content is None else float(content["at"])

    def note_notice(self) -> bool:
        """Write down that it was warned; return False if it was before."""
        with self._lock:
            if self.read_noticed_at() is not None:
                return False
            write_json(self.path / "noticed.json", {"at": time.time()})
            return True

    def is_lost(self) -> bool:
        """Return True if its shim is gone without having written how it ended.

        The end is written before the shim gives up its lock.
        """
        return not shim_lives(self.state) and read_outcome(self.state) is None

    def environment(self) -> dict[str, str]:
        """Return the environment of its processes."""
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
    """Return the work, its cores and its user as they are written down there, None if nothing is."""
    content: dict[str, Any] | None = read_json(path / "work.json")
    if content is None:
        return None
    return Work.model_validate(content["work"]), tuple(content["cores"]), content["uid"]
