"""Keep a job from other jobs, and from the federation.

users      the driver is root: each piece of work runs as a user of its own
landlock   it is not: all work runs as the driver's user, and the kernel keeps each from all files but the
           system's and its own, from tracing and signalling others (Landlock, Linux 6.12), and from local
           sockets
none       nothing keeps jobs apart; an operator must ask for it

With ``users`` and ``landlock`` each piece of work also has namespaces of its own where the kernel lets the
driver make them (CAP_SYS_ADMIN, or user namespaces for all users): directories for temporary files, shared
memory and locks, and IPC objects, all of which vanish with it; with ``users`` the directories of the
federation are hidden.

Before a driver takes work it runs a probe that tells what a job could do, and notes what it cannot give jobs.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path

from workers.node_agent.process import sandbox
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.limits import JobLimits
from workers.node_agent.process.process_tree import SHIM, list_processes
from workers.node_agent.process.safe_copy import remove_tree
from workers.node_agent.process.task_files import Task, TaskStart, read_outcome

#: Paths that a job may read under Landlock: the system without its configuration, which may hold secrets.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/sys"),
    *("/etc/alternatives", "/etc/ca-certificates", "/etc/fonts", "/etc/group", "/etc/hosts", "/etc/java"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types"),
    *("/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki", "/etc/protocols"),
    *("/etc/resolv.conf", "/etc/services", "/etc/ssl", "/etc/timezone"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
REGISTRY = Path("/run/spotfed-users")
#: Where the interpreter is: jobs see it also where other directories stand in place of those above it.
_PREFIXES = tuple(dict.fromkeys((sys.prefix, sys.base_prefix)))
_MOST_FILES = 10_000
_PROBE_S = 20.0
#: Shims that this process started, to collect them when they end.
_shims: list[subprocess.Popen[bytes]] = []
#: The probe's exit statuses, and the fault that each means.
_PROBE = """
echo works > "$HOME/probe" || exit 11
if cat "$CANARY" 2>/dev/null; then exit 12; fi
if cat "/proc/$DRIVER/environ" >/dev/null 2>&1; then exit 13; fi
if kill -0 "$DRIVER" 2>/dev/null; then exit 14; fi
exit 0
"""
_FAULTS: dict[int, str | None] = {
    0: None,
    11: "it cannot write into its own directory",
    12: "it can read files of the federation",
    13: "it can read the environment of its agent",
    14: "it can send signals to its agent",
}
_ADVICE = "run the agent as root, or on Linux 6.12 or newer, or set SPOTFED_ISOLATION=none to do without"


class Isolation(StrEnum):
    """The ways to keep jobs apart; see the module."""

    USERS = "users"
    LANDLOCK = "landlock"
    NONE = "none"


def choose_isolation(setting: str) -> Isolation:
    """Return the isolation that a setting means on this machine.

    Raises
    ------
    DriverError
        When it is not possible here.
    """
    root = os.geteuid() == 0
    if setting == "auto":
        setting = Isolation.USERS if root else Isolation.LANDLOCK
    if setting == Isolation.USERS and not root:
        raise DriverError(f"SPOTFED_ISOLATION=users needs root: {_ADVICE}")
    if setting == Isolation.LANDLOCK:
        version = sandbox.landlock_version()
        if version < sandbox.LANDLOCK_NEEDED or not sandbox.can_refuse_calls():
            raise DriverError(
                f"jobs cannot be kept apart here: version {version} of Landlock, and "
                f"{sandbox.LANDLOCK_NEEDED} is needed; {_ADVICE}"
            )
    return Isolation(setting)


class JobUsers:
    """Hands out the users of this machine that run jobs, for all agents on it.

    All are used in turn, and none before nothing is left of its last job.
    """

    def __init__(self, first: int, last: int, registry: Path = REGISTRY):
        """Take the first and the last user id, and the directory that registers them until the next boot."""
        self._ids, self._registry = range(first, last + 1), registry

    def take(self, home: Path) -> int:
        """Take a user that has nothing, for as long as the directory ``home`` exists.

        Raises
        ------
        DriverError
            When all users are taken.
        """
        with self._registry_lock():
            known = {int(path.name): path for path in self._registry.iterdir() if path.name.isdigit()}
            busy = {process.uid for process in list_processes().values()} | list_owners()
            last = self._registry / "last"
            next_place = 0
            with suppress(OSError, ValueError):
                next_place = self._ids.index(int(last.read_text())) + 1
            for uid in chain(self._ids[next_place:], self._ids[:next_place]):
                if uid in busy or (uid in known and _is_taken(known[uid])):
                    continue
                (self._registry / str(uid)).write_text(str(home))
                last.write_text(str(uid))
                return uid
        raise DriverError(
            f"all {len(self._ids)} users of SPOTFED_JOB_USERS run jobs, or own what jobs left: name more"
        )

    def free(self, uid: int) -> None:
        """Free the user of a job that has ended, and remove what it left where all may leave something."""
        for directory in map(Path, (*sandbox.shared_directories(), sandbox.MESSAGE_QUEUES)):
            with suppress(OSError):
                for path in directory.iterdir():
                    with suppress(OSError):
                        if path.lstat().st_uid == uid:
                            path.unlink() if not path.is_dir() or path.is_symlink() else remove_tree(path)
        sandbox.remove_ipc_objects(uid)
        with suppress(FileNotFoundError):
            (self._registry / str(uid)).unlink()

    @contextmanager
    def _registry_lock(self) -> Iterator[None]:
        try:
            self._registry.mkdir(mode=0o700, exist_ok=True)
            with (self._registry / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise DriverError(f"{self._registry} cannot be used: {error}") from error


def list_owners() -> set[int]:
    """Return the users that own something in directories where all may leave it, of some thousand entries."""
    owners = {uid for _, _, uid in sandbox.list_ipc_objects()}
    unseen = deque([*sandbox.shared_directories(), sandbox.MESSAGE_QUEUES])
    left = _MOST_FILES
    while unseen and left > 0:
        with suppress(OSError), os.scandir(unseen.popleft()) as entries:
            for entry in entries:
                left -= 1
                status = entry.stat(follow_symlinks=False)
                owners.add(status.st_uid)
                if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWOTH:
                    unseen.append(entry.path)
    return owners


def _is_taken(path: Path) -> bool:
    """Return True if the directory exists for which a user was taken. The user may be freed meanwhile."""
    try:
        return Path(path.read_text()).exists()
    except FileNotFoundError:
        return False


class JobIsolation:
    """The isolation of every job of one driver.

    namespaces: the kinds that each job has of its own. lacks: what jobs are not given here, for people.
    """

    def __init__(self, isolation: Isolation, users: JobUsers, private: Iterable[Path], limits: JobLimits):
        """Take the private directories, of which a job may see only its own parts."""
        self.isolation, self.users = isolation, users
        self._private, self._limits = tuple(private), limits
        self.namespaces: tuple[str, ...] = ()
        self.lacks: tuple[str, ...] = ()

    def take_user(self, home: Path) -> int | None:
        """Take a user for the work in that directory; None if it runs as the driver's user.

        Raises
        ------
        DriverError
            When all users are taken.
        """
        return self.users.take(home) if self.isolation is Isolation.USERS else None

    def make_task(
        self,
        command: tuple[str, ...],
        *,
        environment: dict[str, str],
        directory: Path,
        temporary: Path,
        uid: int | None,
        resume: tuple[str, ...] | None = None,
        cpus: tuple[int, ...] = (),
        memory_mb: int | None = None,
        beside: TaskStart | None = None,
    ) -> Task:
        """Return a task that is kept apart. ``beside``: a task whose namespaces and user it shares."""
        own = (directory, temporary)
        apart = self.isolation is not Isolation.NONE
        sockets = "all" if not (self._limits.network or "net" in self.namespaces) else None
        if self.isolation is Isolation.LANDLOCK:
            sockets = sockets or "local"
        return Task(
            command=command,
            resume=resume,
            environment=environment,
            directory=str(directory),
            temporary=str(temporary),
            cpus=cpus,
            memory_mb=memory_mb,
            processes=self._limits.processes,
            uid=uid,
            alone=beside is None,
            namespaces=self.namespaces,
            beside=None if beside is None else (beside.shim, beside.shim_ticks),
            hidden=self.hidden_paths(own),
            shown=tuple(str(path) for path in (*own, *_PREFIXES)),
            reads=self.readable_paths(),
            writes=self.writable_paths(own),
            sockets=sockets,
            keys=not (apart and sandbox.can_refuse_calls()),
        )

    def hidden_paths(self, shown: Iterable[Path]) -> tuple[str, ...]:
        """Return the directories to hide from work that sees ``shown``: private and impassable ones."""
        if self.isolation is not Isolation.USERS or "mnt" not in self.namespaces:
            return ()
        private = {*self._private, *(barred for path in shown for barred in _barred(path))}
        top = [path for path in private if not any(other in path.parents for other in private)]
        return tuple(sorted(str(path) for path in top if path.is_dir()))

    def readable_paths(self) -> tuple[str, ...] | None:
        """Return what work may read beside its own; None if whatever its user may."""
        if self.isolation is not Isolation.LANDLOCK:
            return None
        return (*SYSTEM, *_PREFIXES)

    def writable_paths(self, own: Iterable[Path]) -> tuple[str, ...]:
        """Return what work may change."""
        devices = DEVICES if self.isolation is Isolation.LANDLOCK else ()
        return (*(str(path) for path in own), *devices)

    def wanted_namespaces(self) -> tuple[str, ...]:
        """Return the kinds of namespaces that jobs are to have of their own."""
        apart = () if self.isolation is Isolation.NONE else ("mnt", "ipc")
        kinds = apart if self._limits.network else (*apart, "net")
        return ("user", *kinds) if kinds and os.geteuid() != 0 else kinds

    def check(self, base: Path) -> None:
        """Run a probe beneath ``base``, with namespaces and, where that fails, without; note what is lacking.

        Raises
        ------
        DriverError
            When a job could do what it must not.
        """
        self.namespaces = self.wanted_namespaces()
        fault = without = self._probe(base)
        if fault and self.namespaces:
            self.namespaces = ()
            fault = self._probe(base)
        if fault:
            raise DriverError(
                f"jobs cannot be run apart from each other in {base} ({fault}): let everybody pass through "
                "the directories above it (SPOTFED_STATE_DIR and SPOTFED_JOBS_DIR say where that is), "
                f"{_ADVICE}"
            )
        self.lacks = tuple(self._list_lacks(without))

    def _list_lacks(self, why: str | None) -> Iterator[str]:
        """List what jobs are not given. ``why``: the reason for which they have no namespaces."""
        if self.isolation is Isolation.NONE:
            yield "anything that keeps them apart (SPOTFED_ISOLATION=none)"
        elif "mnt" not in self.namespaces:
            yield f"temporary files, shared memory, locks and IPC objects of their own ({why})"
        if not self._limits.network and "net" not in self.namespaces:
            yield f"a loopback device of their own, so that they can open no sockets at all ({why})"
        if self.isolation is not Isolation.USERS and "user" not in self.namespaces:
            shared = (
                "any limit of processes"
                if os.geteuid() == 0
                else "a limit of processes each, but one for all"
            )
            yield f"{shared} (they run as the agent's user)"
        if self.isolation is not Isolation.NONE and not sandbox.can_refuse_calls():
            yield "refused keyrings of the kernel (its kind of processor)"

    def _probe(self, base: Path) -> str | None:
        """Run the probe and return what is wrong, None if nothing is."""
        home = base / f".probe-{os.getpid()}"
        home.mkdir(mode=0o711)
        uid = None
        try:
            uid = self.take_user(home)
            state, directory, temporary = home / "state", home / "job", home / "tmp"
            for path in (state, directory, temporary):
                path.mkdir(mode=0o700)
            if uid is not None:
                os.chown(directory, uid, uid)
                os.chown(temporary, uid, uid)
            (state / "canary").write_text("secret")
            script = (
                _PROBE if self.isolation is not Isolation.NONE else 'echo works > "$HOME/probe" || exit 11'
            )
            environment = {
                "HOME": str(directory),
                "CANARY": str(state / "canary"),
                "DRIVER": str(os.getpid()),
                "PATH": "/usr/bin:/bin",
            }
            self.make_task(
                ("/bin/sh", "-c", script),
                environment=environment,
                directory=directory,
                temporary=temporary,
                uid=uid,
            ).write(state)
            start_shim(state).wait(_PROBE_S)
            ended = read_outcome(state)
        except subprocess.TimeoutExpired:
            ended = None
        finally:
            if uid is not None:
                self.users.free(uid)  # while home is there, nobody else is given it
            remove_tree(home)
        if ended is None or ended.code is None:
            return "it did not end" if ended is None else ended.why
        return _FAULTS.get(ended.code, f"it ended with status {ended.code}")


def start_shim(state: Path) -> subprocess.Popen[bytes]:
    """Start a shim for the task in that directory; it outlives this process.

    Raises
    ------
    OSError
        When it cannot be started.
    """
    nothing = subprocess.DEVNULL
    _shims[:] = [process for process in _shims if process.poll() is None]
    process = subprocess.Popen(  # noqa: S603  (a program of ours)
        [sys.executable, "-I", "-S", str(SHIM), str(state)],
        cwd="/",
        env={},
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
    )
    _shims.append(process)
    return process


def _barred(path: Path) -> list[Path]:
    """Return the directories above the path through which not everybody may pass."""
    return [parent for parent in path.parents if parent != Path("/") and not parent.stat().st_mode & 0o001]
