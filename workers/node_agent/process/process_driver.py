"""Runs work as process groups of this machine.

A command runs beneath a shim, which outlives this process (`workers.node_agent.process.shim`), pinned to
the cores of
its instance. ``memory_mb`` bounds the data of each of its processes (RLIMIT_DATA: what is only reserved does
not count), and what all of them use together is looked at and ends it when it is more. Limits by control
groups would be exact, but can seldom be set where this runs.

There is no other way to keep the state of a process than the job's own: its directory, or its save and
restore commands. CRIU is used through them; the command of a job decides whether it begins or goes on::

    save     sh -c 'rm -rf image; mkdir image; criu dump -t "$(cat pid)" -D image --shell-job --leave-running'
    command  sh -c '[ $SPOTFED_JOB_RESTORED = 1 ] && exec criu restore -D image --shell-job;
                    echo $$ > pid; exec ./simulate'

CRIU needs privileges, which a job here has not and cannot gain: it takes SPOTFED_ISOLATION=none and an agent
that has them. No test holds this.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from broker.jobs.models import Usage, Work
from cloudsim.jobs.job import StorageKind
from workers.node_agent.process.checkpoints import CheckpointStore
from workers.node_agent.process.cores import CoreAllocator
from workers.node_agent.process.driver_protocol import (
    DriverError,
    EndedWork,
    RunningWork,
    StopCause,
    StoredCheckpoint,
)
from workers.node_agent.process.isolation import JobIsolation, start_shim
from workers.node_agent.process.process_tree import OsProcess, ProcessTree, list_processes
from workers.node_agent.process.safe_copy import remove_tree
from workers.node_agent.process.task_files import (
    Task,
    TaskOutcome,
    log_end,
    log_tail,
    read_outcome,
    read_start,
    shim_lives,
)
from workers.node_agent.process.work_dir import WorkDir, read_work_dir

SAVE_LIMIT_S = 600.0
_TABLE_S = 0.8  # so old what was seen of all processes may be
_DISK_S = 10.0
_LOOK_S = 0.02
_STOP_LIMIT_S = 15.0


class ProcessDriver:
    """See `workers.node_agent.process.driver_protocol.WorkDriver`."""

    def __init__(self, base: Path, kept: CheckpointStore, cores: CoreAllocator, walls: JobIsolation):
        """Takes up what runs already. ``base``: the driver's own directory.

        Raises DriverError where jobs cannot be run apart from each other.
        """
        self._base, self._kept, self._cores, self._walls = base, kept, cores, walls
        self._homes: dict[str, WorkDir] = {}
        self._lock = threading.RLock()
        self._table: dict[int, OsProcess] = {}
        self._table_at = float("-inf")
        base.mkdir(parents=True, exist_ok=True)
        base.chmod(0o711)
        walls.prove(base)
        for path in base.iterdir():
            self._take_up(path)

    def _take_up(self, path: Path) -> None:
        noted = read_work_dir(path)
        if noted is None:
            remove_tree(path)  # nothing was started there
            return
        home = self._home(*noted)
        self._cores.hold(home.work, home.cores)
        self._homes[home.work.id] = home
        group = home.group()
        if group is not None and group.has_shim():
            group.go_on()  # whoever stopped it for a copy is gone

    def _home(self, work: Work, cores: tuple[int, ...], uid: int | None) -> WorkDir:
        live = self._kept.live(work) if work.storage is StorageKind.REMOTE else None
        return WorkDir(self._base, work, cores, live, uid)

    def held(self) -> list[str]:
        """Ids of all work that was started and not forgotten."""
        with self._lock:
            return list(self._homes)

    def start(self, work: Work) -> None:
        """Starts it in a directory of its own; what was started before is not again."""
        with self._lock:
            home = self._homes.get(work.id)
        if home is None:
            home = self._home(work, self._cores.take(work), None)
            if home.path.exists():
                remove_tree(home.path)
            try:
                self._furnish(home)
            except (OSError, DriverError) as error:
                self._leave(home)
                raise DriverError(str(error)) from error
            with self._lock:
                self._homes[work.id] = home
        with self._lock:
            starting = home.shim is not None and home.shim.poll() is None
            if read_start(home.state) is None and not starting and not shim_lives(home.state):
                home.shim = self._shim(home.state)

    def _furnish(self, home: WorkDir) -> None:
        """Makes its directories and says what is to be run in them."""
        work = home.work
        home.path.mkdir(mode=0o711)
        home.path.chmod(0o711)
        home.uid = self._walls.user(home.path)
        home.state.mkdir(mode=0o700)
        home.tmp.mkdir(mode=0o700)
        if work.storage is StorageKind.REMOTE:
            self._kept.make(work)
        if home.directory.exists():
            remove_tree(home.directory)
        if work.restore is not None:
            self._kept.restore(work.job, *work.restore, home.directory, home.uid)
        else:
            home.directory.mkdir(mode=0o700)
        if home.uid is not None:
            for path in (home.directory, home.tmp):
                os.chown(path, home.uid, home.uid)
            for path in {home.path, home.directory.parent}:
                os.chown(path, -1, home.uid)
                path.chmod(0o710)  # nobody else passes, whatever the job allows
        resume = work.resume if work.restore is not None else None
        self._task(home, work.command, resume=resume).write(home.state)
        home.write()

    def _task(
        self,
        home: WorkDir,
        command: tuple[str, ...],
        *,
        resume: tuple[str, ...] | None = None,
        alone: bool = True,
    ) -> Task:
        own = (home.directory, home.tmp)
        return Task(
            command=command,
            resume=resume,
            environment=home.environment(),
            directory=str(home.directory),
            cpus=self._cores.cpus(home.work.node, home.cores),
            memory_mb=home.work.memory_mb,
            uid=home.uid,
            alone=alone,
            hidden=self._walls.hidden(own),
            reads=self._walls.reads(),
            writes=self._walls.writes(own),
        )

    def _shim(self, state: Path) -> subprocess.Popen[bytes]:
        try:
            return start_shim(state)
        except OSError as error:
            raise DriverError(f"no process could be started: {error}") from error

    def notice(self, work: str) -> None:
        """SIGTERM to its process group, once."""
        home = self._of(work)
        group = None if home is None else home.group()
        if home is not None and group is not None and home.note_notice():
            group.warn()

    def keep(self, work: str, abandon: threading.Event, *, last: bool = False) -> StoredCheckpoint:
        """Runs its save command, then copies its directory while its processes stand still."""
        home = self._of(work)
        if home is None:
            raise DriverError(f"{work} is not here")
        began_at = time.time()
        saves = home.work.save is not None and read_outcome(home.state) is None
        if saves:
            self._save(home, abandon)
        group, done = home.group(), False
        halted_at = time.time()
        try:
            if group is not None:
                group.halt()
            draft, size = self._kept.draft(home.work, home.directory, home.uid, abandon.is_set)
            done = True
        except TimeoutError as error:
            raise DriverError(f"its state could not be kept: {error}") from error
        finally:
            if group is not None and not (last and done):  # what is kept last is not gone on from here
                group.go_on()
            home.meter.halted(time.time() - halted_at)
        if abandon.is_set():
            remove_tree(draft)
            raise DriverError("there was no time to keep its state")
        return self._kept.commit(draft, began_at if saves else halted_at, size, last=last)

    def _save(self, home: WorkDir, abandon: threading.Event) -> None:
        """Runs its save command beside it. Raises DriverError."""
        state = home.path / "save"
        if state.exists():
            remove_tree(state)
        state.mkdir(mode=0o700)
        assert home.work.save is not None
        self._task(home, home.work.save, alone=False).write(state)
        saving = self._shim(state)
        limit = time.monotonic() + SAVE_LIMIT_S
        while saving.poll() is None:
            if abandon.is_set() or time.monotonic() > limit:
                found = read_start(state)
                if found is not None:
                    ProcessTree(found, None).kill()
                with suppress(subprocess.TimeoutExpired):
                    saving.wait(_STOP_LIMIT_S)
                spent = "there was no time for it" if abandon.is_set() else f"it took over {SAVE_LIMIT_S:g} s"
                raise DriverError(f"its save command was ended: {spent}")
            abandon.wait(_LOOK_S)
        ended = read_outcome(state)
        if ended is None or ended.code != 0:
            said = log_tail(state, 200)[1].decode(errors="replace").strip()
            how = "was lost" if ended is None else ended.why or f"ended with status {ended.code}"
            raise DriverError(f"its save command {how}{': ' if said else ''}{said}")

    def last_kept(self, work: str) -> StoredCheckpoint | None:
        """The newest state of it that was kept whole."""
        home = self._of(work)
        return None if home is None else self._kept.last(home.work.job, work)

    def stop(self, work: str, cause: StopCause) -> None:
        """Kills all its processes at once."""
        home = self._of(work)
        if home is None:
            return
        home.note_cause(cause)
        self._kill(home)

    def _kill(self, home: WorkDir) -> None:
        group = home.group()
        if group is not None:
            group.kill()
        with suppress(subprocess.TimeoutExpired):
            if home.shim is not None:
                home.shim.wait(_STOP_LIMIT_S)

    def look(self, work: str) -> RunningWork | EndedWork | None:
        """How it stands. What uses more memory than it may is ended here."""
        home = self._of(work)
        if home is None:
            return None
        ended = read_outcome(home.state)
        found = read_start(home.state)  # after the end was looked for: what has ended has begun
        if ended is not None:
            return self._ended(home, ended, found.at if found else None)
        if found is None:
            if home.shim is not None and home.shim.poll() is not None and home.lost():
                return self._gone(home, "its process could not be started", None)
            return RunningWork(None, Usage(wall_s=0, cpu_s=0, peak_memory_gb=0))
        if home.lost():
            self._kill(home)
            return self._gone(
                home, "its processes were ended from outside, as when a machine restarts", found.at
            )
        return self._running(home, ProcessTree(found, home.uid), found.at)

    def _running(self, home: WorkDir, group: ProcessTree, started_at: float | None) -> RunningWork:
        now_s = time.monotonic()
        with self._lock:
            if now_s - self._table_at > _TABLE_S:
                self._table, self._table_at = list_processes(), now_s
            members = group.members(self._table)
        memory = home.meter.look(members, now_s)
        most_mb = home.work.memory_mb
        if most_mb is not None and memory > most_mb * 1e6 and group.proportional_bytes() > most_mb * 1e6:
            self.stop(home.work.id, StopCause.TOO_LARGE)
        if now_s - home.disk_at > _DISK_S:
            home.disk_gb, home.disk_at = home.measured_gb(), now_s
        wall_s = 0.0 if started_at is None else time.time() - started_at
        return RunningWork(started_at, home.meter.usage(wall_s, home.disk_gb), home.noticed_at())

    def _ended(self, home: WorkDir, ended: TaskOutcome, started_at: float | None) -> EndedWork:
        if home.disk_at < float("inf"):
            home.disk_gb, home.disk_at = home.measured_gb(), float("inf")
        wall_s = 0.0 if started_at is None else ended.at - started_at
        usage = home.meter.usage(wall_s, home.disk_gb, ended.cpu_s, ended.peak_memory_gb)
        return EndedWork(ended.code, ended.at, started_at, usage, home.noticed_at(), home.cause(), ended.why)

    def _gone(self, home: WorkDir, why: str, started_at: float | None) -> EndedWork:
        usage = home.meter.usage(0.0, home.disk_gb)
        return EndedWork(None, time.time(), started_at, usage, home.noticed_at(), home.cause(), why)

    def written(self, work: str) -> int:
        """How many bytes it has written."""
        home = self._of(work)
        return 0 if home is None else log_end(home.state)

    def log(self, work: str, most_bytes: int) -> tuple[int, bytes]:
        """The end of what it wrote, and how many bytes came before that."""
        home = self._of(work)
        return (0, b"") if home is None else log_tail(home.state, most_bytes)

    def forget(self, work: str) -> None:
        """Kills what is left of it and removes its directories."""
        home = self._of(work)
        if home is None:
            return
        home.note_cause(StopCause.STOPPED)
        self._kill(home)
        self._leave(home)
        with self._lock:
            self._homes.pop(work, None)

    def _leave(self, home: WorkDir) -> None:
        """Frees all that it has; its notes go first, so that it is not taken for work that goes on."""
        with suppress(FileNotFoundError):
            (home.path / "work.json").unlink()
        if home.directory.is_dir() and home.work.storage is StorageKind.REMOTE:
            remove_tree(home.directory)
        if home.path.is_dir():
            remove_tree(home.path)
        if home.uid is not None:
            self._walls.users.free(home.uid)
        self._cores.free(home.work.id)

    def _of(self, work: str) -> WorkDir | None:
        with self._lock:
            return self._homes.get(work)
