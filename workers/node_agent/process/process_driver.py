"""Run work as process groups of this machine.

A command runs beneath a shim (`workers.node_agent.process.shim`), which outlives this process, pinned to the
cores of its instance. ``memory_mb`` bounds the data of each of its processes (RLIMIT_DATA, which leaves out
what is only reserved). Work whose processes together use more is ended. Limits by control groups would be
exact, but can seldom be set where this runs.

A checkpoint can only be the job's own: its directory, or the result of its save command. CRIU is used through
such commands; the job's command decides whether it begins or goes on::

    save     sh -c 'rm -rf image; mkdir image; criu dump -t "$(cat pid)" -D image --shell-job --leave-running'
    command  sh -c '[ $SPOTFED_JOB_RESTORED = 1 ] && exec criu restore -D image --shell-job;
                    echo $$ > pid; exec ./simulate'

CRIU needs privileges that a job here does not have and cannot gain: it takes SPOTFED_ISOLATION=none and an
agent that has them. No test covers this.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

import structlog

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
from workers.node_agent.process.limits import JobLimits
from workers.node_agent.process.process_tree import OsProcess, ProcessTree, list_processes
from workers.node_agent.process.task_files import (
    Task,
    TaskOutcome,
    TaskStart,
    log_end,
    log_tail,
    read_outcome,
    read_start,
    reserve_file,
    shim_lives,
)
from workers.node_agent.process.trash import Trash
from workers.node_agent.process.usage_meter import disk_bytes
from workers.node_agent.process.work_dir import WorkDir, read_work_dir

SAVE_LIMIT_S = 600.0
_TABLE_S = 0.8  # the largest age of the list of all processes
_DISK_S, _RELIEF_S = 10.0, 5.0
#: Room that a file may take at least, by which file systems count how many there may be.
_FILE_BYTES = 16_384
_LOOK_S = 0.02
_STOP_LIMIT_S = 15.0

log = structlog.get_logger(__name__)


class ProcessDriver:
    """Runs work as processes; see `workers.node_agent.process.driver_protocol.WorkDriver`."""

    def __init__(
        self,
        base: Path,
        checkpoints: CheckpointStore,
        cores: CoreAllocator,
        isolation: JobIsolation,
        limits: JobLimits,
    ):
        """Take up the work that runs already. ``base``: the driver's own directory.

        Raises
        ------
        DriverError
            When jobs cannot be kept apart here.
        """
        self._base, self._checkpoints, self._cores, self._isolation = base, checkpoints, cores, isolation
        self._limits = limits
        self._work_dirs: dict[str, WorkDir] = {}
        self._lock, self._disk_lock = threading.RLock(), threading.Lock()
        self._table: dict[int, OsProcess] = {}
        self._table_at = self._relieved_at = float("-inf")
        base.mkdir(parents=True, exist_ok=True)
        base.chmod(0o711)
        self._trash = Trash(base)
        for path in base.glob(".probe-*"):  # of an agent that was killed, perhaps with this process id
            self._trash.discard(path)
        isolation.check(base)
        for path in base.iterdir():
            if path != self._trash.path:
                self._take_up(path)
        self.empty_trash()

    def _take_up(self, path: Path) -> None:
        """Take up the work of that directory. Whatever it holds, the agent goes on."""
        try:
            self._read(path)
        except Exception:
            log.exception("work cannot be taken up", path=str(path))

    def _read(self, path: Path) -> None:
        notes = read_work_dir(path)
        if notes is None:
            self._trash.discard(path)  # nothing was started there
            return
        work_dir = self._make_work_dir(*notes)
        self._cores.occupy(work_dir.work, work_dir.cores)
        self._work_dirs[work_dir.work.id] = work_dir
        tree = work_dir.process_tree()
        if tree is not None and tree.has_shim():
            tree.resume()  # the driver that halted it for a copy is gone

    def _make_work_dir(self, work: Work, cores: tuple[int, ...], uid: int | None) -> WorkDir:
        live = self._checkpoints.live_directory(work) if work.storage is StorageKind.REMOTE else None
        return WorkDir(self._base, work, cores, live, uid)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Phrases that name what jobs are not given here."""
        return self._isolation.lacks

    def list_work(self) -> list[str]:
        """Return the ids of all work that was started and not forgotten."""
        with self._lock:
            return list(self._work_dirs)

    def start(self, work: Work) -> None:
        """Start the work in a directory of its own, unless it was started before."""
        with self._lock:
            work_dir = self._work_dirs.get(work.id)
        if work_dir is None:
            work_dir = self._make_work_dir(work, self._cores.take(work), None)
            self._trash.discard(work_dir.path)
            try:
                self._prepare(work_dir)
            except (OSError, DriverError) as error:
                self._remove(work_dir)
                raise DriverError(str(error)) from error
            with self._lock:
                self._work_dirs[work.id] = work_dir
        with self._lock:
            starting = work_dir.shim is not None and work_dir.shim.poll() is None
            if read_start(work_dir.state) is None and not starting and not shim_lives(work_dir.state):
                work_dir.shim = self._shim(work_dir.state)

    def _prepare(self, work_dir: WorkDir) -> None:
        """Make the directories of the work, and write down what is to run in them."""
        work = work_dir.work
        work_dir.path.mkdir(mode=0o711)
        work_dir.path.chmod(0o711)
        work_dir.uid = self._isolation.take_user(work_dir.path)
        work_dir.state.mkdir(mode=0o700)
        work_dir.tmp.mkdir(mode=0o700)
        for name in ("cause.json", "noticed.json"):
            reserve_file(work_dir.path / name)
        if work.storage is StorageKind.REMOTE:
            self._checkpoints.make_place(work.job, work.id)
            self._checkpoints.trash.discard(work_dir.directory)
        if work.restore is not None:
            self._checkpoints.restore(work.job, *work.restore, work_dir.directory, work_dir.uid)
        else:
            work_dir.directory.mkdir(mode=0o700)
        if work_dir.uid is not None:
            for path in (work_dir.directory, work_dir.tmp):
                os.chown(path, work_dir.uid, work_dir.uid)
            for path in {work_dir.path, work_dir.directory.parent}:
                os.chown(path, -1, work_dir.uid)
                path.chmod(0o710)  # nobody else passes, whatever the job allows
        resume = work.resume if work.restore is not None else None
        self._task(work_dir, work.command, resume=resume).write(work_dir.state)
        work_dir.write()

    def _task(
        self,
        work_dir: WorkDir,
        command: tuple[str, ...],
        *,
        resume: tuple[str, ...] | None = None,
        beside: TaskStart | None = None,
    ) -> Task:
        return self._isolation.make_task(
            command,
            resume=resume,
            environment=work_dir.environment(),
            directory=work_dir.directory,
            temporary=work_dir.tmp,
            cpus=self._cores.cpus(work_dir.work.node, work_dir.cores),
            memory_mb=work_dir.work.memory_mb,
            uid=work_dir.uid,
            beside=beside,
        )

    def _shim(self, state: Path) -> subprocess.Popen[bytes]:
        try:
            return start_shim(state)
        except OSError as error:
            raise DriverError(f"no process could be started: {error}") from error

    def give_notice(self, work: str) -> None:
        """Send SIGTERM to the process group of the work, once."""
        work_dir = self._find(work)
        tree = None if work_dir is None else work_dir.process_tree()
        if work_dir is not None and tree is not None and work_dir.note_notice():
            tree.send_warning()

    def save_checkpoint(self, work: str, abandon: threading.Event, *, last: bool = False) -> StoredCheckpoint:
        """Run the save command, then copy the directory while the processes stand still."""
        work_dir = self._find(work)
        if work_dir is None:
            raise DriverError(f"{work} is not here")
        began_at = time.time()
        saves = work_dir.work.save is not None and read_outcome(work_dir.state) is None
        if saves:
            self._save(work_dir, abandon)
        tree, done = work_dir.process_tree(), False
        halted_at = time.time()
        try:
            if tree is not None:
                tree.halt()
            draft, size = self._checkpoints.make_draft(
                work_dir.work, work_dir.directory, work_dir.uid, abandon.is_set
            )
            done = True
        except TimeoutError as error:
            raise DriverError(f"its state could not be kept: {error}") from error
        finally:
            if tree is not None and not (last and done):  # after the last checkpoint the work does not go on
                tree.resume()
            work_dir.meter.add_halt(time.time() - halted_at)
        if abandon.is_set():
            self._checkpoints.trash.discard(draft)
            raise DriverError("there was no time to keep its state")
        kept_at = began_at if saves else halted_at
        return self._checkpoints.commit(draft, kept_at, size, abandon.is_set, last=last)

    def _save(self, work_dir: WorkDir, abandon: threading.Event) -> None:
        """Run the save command beside the work.

        Raises
        ------
        DriverError
            When it fails, takes too long or is abandoned.
        """
        state = work_dir.path / "save"
        self._trash.discard(state)
        state.mkdir(mode=0o700)
        assert work_dir.work.save is not None
        self._task(work_dir, work_dir.work.save, beside=read_start(work_dir.state)).write(state)
        saving = self._shim(state)
        limit = time.monotonic() + SAVE_LIMIT_S
        while saving.poll() is None:
            if abandon.is_set() or time.monotonic() > limit:
                start = read_start(state)
                if start is not None:
                    ProcessTree(start, None).kill()
                with suppress(subprocess.TimeoutExpired):
                    saving.wait(_STOP_LIMIT_S)
                spent = "there was no time for it" if abandon.is_set() else f"it took over {SAVE_LIMIT_S:g} s"
                raise DriverError(f"its save command was ended: {spent}")
            abandon.wait(_LOOK_S)
        ended = read_outcome(state)
        if ended is None or ended.code != 0:
            output = log_tail(state, 200)[1].decode(errors="replace").strip()
            how = "was lost" if ended is None else ended.why or f"ended with status {ended.code}"
            raise DriverError(f"its save command {how}{': ' if output else ''}{output}")

    def last_checkpoint(self, work: str) -> StoredCheckpoint | None:
        """Return the newest complete checkpoint of the work, None if there is none."""
        work_dir = self._find(work)
        return None if work_dir is None else self._checkpoints.newest(work_dir.work.job, work)

    def stop(self, work: str, cause: StopCause) -> None:
        """Kill all processes of the work at once."""
        work_dir = self._find(work)
        if work_dir is None:
            return
        with suppress(OSError):  # it ends whether that can be written or not
            work_dir.note_cause(cause)
        self._kill(work_dir)

    def _kill(self, work_dir: WorkDir) -> None:
        tree = work_dir.process_tree()
        if tree is not None:
            tree.kill()
        with suppress(subprocess.TimeoutExpired):
            if work_dir.shim is not None:
                work_dir.shim.wait(_STOP_LIMIT_S)

    def inspect(self, work: str) -> RunningWork | EndedWork | None:
        """Return how the work stands. Work that uses more memory than it may is ended here."""
        work_dir = self._find(work)
        if work_dir is None:
            return None
        ended = read_outcome(work_dir.state)
        start = read_start(work_dir.state)  # read after the outcome: what has ended has begun
        if ended is not None:
            return self._ended(work_dir, ended, start.at if start else None)
        if start is None:
            if work_dir.shim is not None and work_dir.shim.poll() is not None and work_dir.is_lost():
                return self._lost_work(work_dir, "its process could not be started", None)
            return RunningWork(None, Usage(wall_s=0, cpu_s=0, peak_memory_gb=0))
        if work_dir.is_lost():
            self._kill(work_dir)
            return self._lost_work(
                work_dir, "its processes were ended from outside, as when a machine restarts", start.at
            )
        return self._running(work_dir, ProcessTree(start, work_dir.uid), start.at)

    def _running(self, work_dir: WorkDir, tree: ProcessTree, started_at: float | None) -> RunningWork:
        now_s = time.monotonic()
        with self._lock:
            if now_s - self._table_at > _TABLE_S:
                self._table, self._table_at = list_processes(), now_s
            members = tree.members(self._table)
        memory = work_dir.meter.measure(members, now_s)
        most_mb = work_dir.work.memory_mb
        if most_mb is not None and memory > most_mb * 1e6 and tree.proportional_bytes() > most_mb * 1e6:
            self.stop(work_dir.work.id, StopCause.TOO_LARGE)
        if now_s - work_dir.disk_at > _DISK_S:
            work_dir.disk_at = now_s
            used = self._measure_disk(work_dir)
            if used is not None and used > self._limits.disk_mb * 1e6:
                self.stop(work_dir.work.id, StopCause.TOO_MUCH_DISK)
        self._relieve_disk(work_dir.directory, now_s)
        wall_s = 0.0 if started_at is None else time.time() - started_at
        return RunningWork(
            started_at, work_dir.meter.usage(wall_s, work_dir.disk_gb), work_dir.read_noticed_at()
        )

    def _measure_disk(self, work_dir: WorkDir) -> float | None:
        """Measure the bytes on disk of a piece of work.

        Return None if its files are too many for that, infinity if it has closed some of its directories.
        """
        tree = work_dir.process_tree()
        try:
            sizes = disk_bytes(work_dir.directory, work_dir.tmp)
        except PermissionError:
            return float("inf")
        if sizes is None:
            return None
        if not sizes:  # it is removed meanwhile
            return 0
        work_dir.disk_gb = sizes[0] / 1e9
        return sum(sizes) + (0 if tree is None else tree.unlinked_bytes(work_dir.path.stat().st_dev))

    def _relieve_disk(self, directory: Path, now_s: float) -> None:
        """End the work that uses most of a file system that is almost full, and remove its files.

        None is ended if none uses more than is still free: then others have filled it.
        """
        least = self._limits.disk_free_mb * 1e6
        with suppress(FileNotFoundError):
            if _free_bytes(directory) >= least or not self._disk_lock.acquire(blocking=False):
                return
            try:
                if now_s - self._relieved_at > _RELIEF_S:
                    self._relieved_at = now_s
                    self._end_largest(directory.stat().st_dev, _free_bytes(directory))
            finally:
                self._disk_lock.release()

    def _end_largest(self, device: int, free: int) -> None:
        with self._lock:
            work_dirs = list(self._work_dirs.values())
        sizes: list[tuple[float, WorkDir]] = []
        for work_dir in work_dirs:
            with suppress(FileNotFoundError):
                if read_outcome(work_dir.state) is None and work_dir.directory.stat().st_dev == device:
                    used = self._measure_disk(work_dir)
                    sizes.append((float("inf") if used is None else used, work_dir))
        most, largest = max(sizes, key=itemgetter(0), default=(0.0, None))
        if largest is not None and most > free:
            self.stop(largest.work.id, StopCause.DISK_FULL)
            if largest.work.storage is StorageKind.REMOTE:
                self._checkpoints.trash.discard(largest.directory)
            else:
                self._trash.discard(largest.directory)
            self._trash.discard(largest.tmp)

    def _ended(self, work_dir: WorkDir, ended: TaskOutcome, started_at: float | None) -> EndedWork:
        if work_dir.disk_at < float("inf"):
            work_dir.disk_at = float("inf")
            self._measure_disk(work_dir)
        wall_s = 0.0 if started_at is None else ended.at - started_at
        usage = work_dir.meter.usage(wall_s, work_dir.disk_gb, ended.cpu_s, ended.peak_memory_gb)
        return EndedWork(
            ended.code,
            ended.at,
            started_at,
            usage,
            work_dir.read_noticed_at(),
            work_dir.read_cause(),
            ended.why,
        )

    def _lost_work(self, work_dir: WorkDir, why: str, started_at: float | None) -> EndedWork:
        usage = work_dir.meter.usage(0.0, work_dir.disk_gb)
        return EndedWork(
            None, time.time(), started_at, usage, work_dir.read_noticed_at(), work_dir.read_cause(), why
        )

    def written_bytes(self, work: str) -> int:
        """Return how many bytes the work has written."""
        work_dir = self._find(work)
        return 0 if work_dir is None else log_end(work_dir.state)

    def read_log(self, work: str, most_bytes: int) -> tuple[int, bytes]:
        """Return the end of its output, after the number of bytes that come before it."""
        work_dir = self._find(work)
        return (0, b"") if work_dir is None else log_tail(work_dir.state, most_bytes)

    def forget(self, work: str) -> None:
        """Kill what is left of the work and remove its directories."""
        work_dir = self._find(work)
        if work_dir is None:
            return
        with suppress(OSError):
            work_dir.note_cause(StopCause.STOPPED)
        self._kill(work_dir)
        self._remove(work_dir)
        with self._lock:
            self._work_dirs.pop(work, None)

    def _remove(self, work_dir: WorkDir) -> None:
        """Free all that the work has. Its notes go first, so that it is not taken for work that goes on."""
        with suppress(OSError):
            (work_dir.path / "work.json").unlink()
        if work_dir.work.storage is StorageKind.REMOTE:
            self._checkpoints.trash.discard(work_dir.directory)
        if work_dir.uid is not None:  # while its directory is there, no other work is given its user
            with suppress(OSError):
                work_dir.path.chmod(0o700)
            self._isolation.users.free(work_dir.uid)
        self._trash.discard(work_dir.path)
        self._cores.free(work_dir.work.id)

    def empty_trash(self) -> list[threading.Thread]:
        """Begin to remove what was put aside; return the threads that do."""
        return [self._trash.empty(), self._checkpoints.trash.empty()]

    def _find(self, work: str) -> WorkDir | None:
        with self._lock:
            return self._work_dirs.get(work)


def _free_bytes(directory: Path) -> int:
    """Return the free space of a file system; where it has room for few files only, that of as many."""
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    return min(free, disk.f_favail * _FILE_BYTES) if disk.f_files else free
