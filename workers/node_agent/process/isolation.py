"""Keep a job from other jobs, and from the federation.

users      the driver is root: each piece of work runs as a user of its own, and, where the driver may mount
           (CAP_SYS_ADMIN), in a mount namespace without the directories of the federation
landlock   it is not: all work runs as the driver's user, and the kernel keeps each from all files but the
           system's and its own, from tracing and signalling others (Landlock, Linux 6.12), and from local
           sockets
none       nothing keeps jobs apart; an operator must ask for it

Before a driver takes work it runs a probe that tells what a job could do.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from workers.node_agent.process import sandbox
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.process_tree import SHIM, list_processes
from workers.node_agent.process.safe_copy import remove_tree
from workers.node_agent.process.task_files import Task, read_outcome

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
_SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108  (where others leave things)
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
        if version < sandbox.LANDLOCK_NEEDED or not sandbox.can_refuse_sockets():
            raise DriverError(
                f"jobs cannot be kept apart here: version {version} of Landlock, and "
                f"{sandbox.LANDLOCK_NEEDED} is needed; {_ADVICE}"
            )
    return Isolation(setting)


class JobUsers:
    """Hands out the users of this machine that run jobs, for all agents on it."""

    def __init__(self, first: int, last: int, registry: Path = REGISTRY):
        """Take the first and the last user id, and the directory that registers them until the next boot."""
        self._ids, self._registry = range(first, last + 1), registry

    def take(self, home: Path) -> int:
        """Take a user that runs nothing, for as long as the directory ``home`` exists.

        Raises
        ------
        DriverError
            When all users are taken.
        """
        with self._registry_lock():
            known = {int(path.name): path for path in self._registry.iterdir() if path.name.isdigit()}
            busy = {process.uid for process in list_processes().values()}
            for uid in self._ids:
                if uid in busy or (uid in known and _is_taken(known[uid])):
                    continue
                (self._registry / str(uid)).write_text(str(home))
                return uid
        raise DriverError(f"all {len(self._ids)} users of SPOTFED_JOB_USERS run jobs: name more of them")

    def free(self, uid: int) -> None:
        """Free the user of a job that has ended, and remove what it left in directories that all may use."""
        for directory in _SHARED:
            with suppress(OSError):
                for path in directory.iterdir():
                    with suppress(OSError):
                        if path.lstat().st_uid == uid:
                            path.unlink() if not path.is_dir() or path.is_symlink() else remove_tree(path)
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


def _is_taken(path: Path) -> bool:
    """Return True if the directory exists for which a user was taken. The user may be freed meanwhile."""
    try:
        return Path(path.read_text()).exists()
    except FileNotFoundError:
        return False


class JobIsolation:
    """The isolation of every job of one driver.

    hides: True if the directories of the federation are hidden from jobs.
    """

    def __init__(self, isolation: Isolation, users: JobUsers, private: Iterable[Path]):
        """Take the private directories, of which a job may see only its own parts."""
        self.isolation, self.users = isolation, users
        self._private = tuple(private)
        self.hides = isolation is Isolation.USERS

    def take_user(self, home: Path) -> int | None:
        """Take a user for the work in that directory; None if it runs as the driver's user.

        Raises
        ------
        DriverError
            When all users are taken.
        """
        return self.users.take(home) if self.isolation is Isolation.USERS else None

    def hidden_paths(self, shown: Iterable[Path]) -> tuple[str, ...]:
        """Return the directories to hide from work that sees ``shown``: private and impassable ones."""
        if not self.hides:
            return ()
        private = {*self._private, *(barred for path in shown for barred in _barred(path))}
        top = [path for path in private if not any(other in path.parents for other in private)]
        return tuple(sorted(str(path) for path in top if path.is_dir()))

    def readable_paths(self) -> tuple[str, ...] | None:
        """Return what work may read beside its own; None if whatever its user may."""
        if self.isolation is not Isolation.LANDLOCK:
            return None
        return (*SYSTEM, sys.prefix, sys.base_prefix)

    def writable_paths(self, own: Iterable[Path]) -> tuple[str, ...]:
        """Return what work may change."""
        devices = DEVICES if self.isolation is Isolation.LANDLOCK else ()
        return (*(str(path) for path in own), *devices)

    def check(self, base: Path) -> None:
        """Run a probe beneath ``base``.

        Raises
        ------
        DriverError
            When a job could do what it must not.
        """
        fault = self._probe(base)
        if fault and self.hides:  # where mounting is not permitted, users alone may suffice
            self.hides = False
            fault = self._probe(base)
        if fault:
            raise DriverError(
                f"jobs cannot be run apart from each other in {base} ({fault}): let everybody pass through "
                "the directories above it (SPOTFED_STATE_DIR and SPOTFED_JOBS_DIR say where that is), "
                f"{_ADVICE}"
            )

    def _probe(self, base: Path) -> str | None:
        """Run the probe and return what is wrong, None if nothing is."""
        home = base / f".probe-{os.getpid()}"
        home.mkdir(mode=0o711)
        uid = None
        try:
            uid = self.take_user(home)
            state, directory = home / "state", home / "job"
            for path in (state, directory):
                path.mkdir(mode=0o700)
            if uid is not None:
                os.chown(directory, uid, uid)
            (state / "canary").write_text("secret")
            script = (
                _PROBE if self.isolation is not Isolation.NONE else 'echo works > "$HOME/probe" || exit 11'
            )
            Task(
                command=("/bin/sh", "-c", script),
                resume=None,
                environment={
                    "HOME": str(directory),
                    "CANARY": str(state / "canary"),
                    "DRIVER": str(os.getpid()),
                    "PATH": "/usr/bin:/bin",
                },
                directory=str(directory),
                cpus=(),
                memory_mb=None,
                uid=uid,
                alone=True,
                hidden=self.hidden_paths([directory]),
                reads=self.readable_paths(),
                writes=self.writable_paths([directory]),
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
