"""The shim stands between a driver and one command: ``python -I -S shim.py DIRECTORY``.

The directory holds ``task.json`` (see `Task` in `workers.node_agent.process.task_files`). The shim writes
what happens beside it, each file whole or not at all, so that the next driver finds it again:

* ``lock``: locked for as long as this process lives. A second shim for the same directory ends at once, and
  one that finds that the command was started before does not start it again.
* ``started.json``: this process, and the first process of the command.
* ``log.<offset>``: the last two parts of what the command writes, named by where they begin in the whole.
* ``ended.json``: how the command ended, and what it used.

The command's processes are in a session of their own. When its first process ends, or the shim receives
SIGTERM, all the others are killed. Orphans become children of the shim, so when it has no children left,
nothing of the command runs. The shim runs as the driver's user and imports only the standard library: it
starts in 20 ms, whatever modules a job puts in Python's way.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from typing import IO, Any, NoReturn

if __name__ == "__main__":
    # With -I the directory of this file is no place for modules.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import sandbox  # type: ignore[import-not-found, unused-ignore]
else:
    from workers.node_agent.process import sandbox

PART_BYTES = 512 * 1024
_LONGEST_SWEEP_S = 10.0
_LONGEST_DRAIN_S = 2.0
_MB = 1_000_000
_SMALL_FILE = 4_096
_LOCK_TRIES = 50


def write_file(directory: int, name: str, content: dict[str, Any]) -> None:
    """Write a small file into the state's directory, whole or not at all, and flush it to the disk.

    It is written over what ``reserve_file`` has written, so that a full disk has room for it.
    """
    draft = f".{name}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=directory)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)


def reserve_file(directory: int, name: str) -> None:
    """Reserve room for a small file that is to be written when the disk may be full."""
    descriptor = os.open(f".{name}.new", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b" " * _SMALL_FILE)
        file.flush()
        os.fsync(file.fileno())


def began_ticks(pid: int) -> int:
    """Return when a process began, in ticks since boot. With its id, this names it for ever."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def boot_id() -> str:
    """Return the id of the current boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


class OutputLog:
    """The output of a command in parts, of which only the last two are kept."""

    def __init__(self, directory: int):
        self._directory = directory
        self._names: list[str] = []
        self._written = 0
        self._part: IO[bytes] | None = None
        self._left = 0

    def add(self, output: bytes) -> None:
        """Append output. What a full disk does not take is lost: the command goes on."""
        with suppress(OSError):
            while output:
                if not self._left or self._part is None:
                    self._part = self._begin()
                taken = self._part.write(output[: self._left])
                self._written, self._left, output = self._written + taken, self._left - taken, output[taken:]

    def _begin(self) -> IO[bytes]:
        if self._part is not None:
            self._part.close()
        name = f"log.{self._written}"
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=self._directory)
        if name not in self._names:
            self._names.append(name)
        self._left = PART_BYTES
        if len(self._names) > 2:
            os.unlink(self._names.pop(0), dir_fd=self._directory)
        return os.fdopen(descriptor, "wb", buffering=0)


class Shim:
    """Runs one command, from its start to the end of the last of its processes."""

    def __init__(self, directory: int, task: dict[str, Any]):
        self._directory, self._task = directory, task
        self._log = OutputLog(directory)
        self._output, self._inlet = os.pipe()
        os.set_blocking(self._output, False)
        self._signals, self._alarm = os.pipe()
        for end in (self._signals, self._alarm):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._alarm, warn_on_full_buffer=False)
        self._ending = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._start_record: dict[str, Any] = {
            "shim": os.getpid(),
            "shim_ticks": began_ticks(os.getpid()),
            "boot": boot_id(),
            "pid": None,
            "pid_ticks": None,
            "at": None,
        }

    def run(self) -> None:
        """Run the task to its end, and write down how it went."""
        sandbox.adopt_orphans()
        reserve_file(self._directory, "ended.json")
        write_file(self._directory, "started.json", self._start_record)
        code: int | None = 0
        why = None
        try:
            self._enter_namespaces()
        except OSError as error:
            code, why = None, f"it cannot be run: {error.strerror}"
        if code == 0 and self._task["resume"]:
            code, why = self._step(self._task["resume"], counts=False)
            if code and not self._ending:
                code, why = None, f"its restore command ended with status {code}"
        if self._ending:
            code = 128 + signal.SIGKILL
        elif code == 0:
            code, why = self._step(self._task["command"], counts=True)
        self._sweep()
        self._drain()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = {
            "at": time.time(),
            "code": code,
            "why": why,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_memory_gb": usage.ru_maxrss * 1024 / 1e9,
        }
        write_file(self._directory, "ended.json", ended)

    def _enter_namespaces(self) -> None:
        """Move this process, and with it the command, into namespaces of its own or those it runs beside."""
        task = self._task
        if task["beside"]:
            pid, ticks = task["beside"]
            sandbox.join_namespaces(pid, lambda: began_ticks(pid) == ticks)
        elif task["namespaces"]:
            sandbox.enter_namespaces(task["namespaces"])
            if "mnt" in task["namespaces"]:
                sandbox.mount_places(task["hidden"], task["shown"], task["temporary"], task["memory_mb"])

    def _end(self, *_: object) -> None:
        self._ending = True

    def _step(self, command: list[str], *, counts: bool) -> tuple[int | None, str | None]:
        """Run one command until its first process ends.

        Return its status as a shell gives it, or None and why there is none.
        """
        outcome, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(command, report)
        os.close(report)
        began = {"pid": pid, "pid_ticks": began_ticks(pid), "at": time.time() if counts else None}
        write_file(self._directory, "started.json", {**self._start_record, **began})
        with os.fdopen(outcome, "rb") as file:
            failure = file.read().decode(errors="replace")
        status = self._reap(pid)
        while status is None:
            if self._ending:
                os.kill(pid, signal.SIGKILL)
            self._listen(1.0)
            status = self._reap(pid)
        if failure:
            return None, failure
        code = os.waitstatus_to_exitcode(status)
        return (code if code >= 0 else 128 - code), None

    def _reap(self, wanted: int) -> int | None:
        """Collect children that have ended; return the status of the wanted one if it is among them."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == wanted:
                return status
            if pid == 0:
                return None

    def _listen(self, limit_s: float) -> None:
        """Copy output into the log until something else happens."""
        ready, _, _ = select.select([self._output, self._signals], [], [], limit_s)
        if self._signals in ready:
            os.read(self._signals, 512)
        if self._output in ready:
            self._read()

    def _read(self) -> bool:
        try:
            output = os.read(self._output, 65_536)
        except BlockingIOError:
            return False
        self._log.add(output)
        return bool(output)

    def _drain(self) -> None:
        os.close(self._inlet)
        limit = time.monotonic() + _LONGEST_DRAIN_S
        while time.monotonic() < limit and self._read():
            pass

    def _sweep(self) -> None:
        """Kill all processes that are left."""
        limit = time.monotonic() + _LONGEST_SWEEP_S
        while time.monotonic() < limit:
            if self._task["uid"] is not None and self._task["alone"]:
                sweep_user(self._task["uid"])
            for pid in descendants():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            self._listen(0.01)

    def _become(self, command: list[str], report: int) -> NoReturn:
        """Confine this child process and become the command. It does not return."""
        task, what = self._task, ""
        try:
            os.setsid()
            for number in range(1, signal.NSIG):
                if number not in {signal.SIGKILL, signal.SIGSTOP} and number not in range(32, 34):
                    signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            os.umask(0o077)
            if task["cpus"]:
                os.sched_setaffinity(0, task["cpus"])
            self._limit()
            null = os.open("/dev/null", os.O_RDONLY)
            for target, source in ((0, null), (1, self._inlet), (2, self._inlet)):
                os.dup2(source, target)
            if task["uid"] is not None:
                sandbox.become_user(task["uid"])
            sandbox.die_with_parent(signal.SIGKILL)
            sandbox.forbid_new_privileges()
            os.chdir(task["directory"])
            if task["reads"] is not None:
                own = sandbox.shared_directories() if "mnt" in task["namespaces"] else ()
                sandbox.apply_landlock(task["reads"], (*task["writes"], *own))
            if not task["keys"]:
                sandbox.refuse_keys()
            if task["sockets"]:
                sandbox.refuse_sockets(local_only=task["sockets"] == "local")
            os.set_inheritable(report, False)
            os.closerange(3, report)
            os.closerange(report + 1, 4_096)
            what = f"{command[0]}: "
            os.execvpe(command[0], command, task["environment"])  # noqa: S606  (it is what we are for)
        except BaseException as error:  # noqa: BLE001  (whatever it is, this child must not go on)
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            os.write(report, f"it cannot be run: {what}{reason}".encode())
        finally:
            os._exit(127)

    def _limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        processes = self._task["processes"]
        if self._task["uid"] is None and "user" not in self._task["namespaces"]:
            processes += count_threads(os.getuid())  # of a user whose other processes count as well
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
        if self._task["memory_mb"] is not None:
            most = self._task["memory_mb"] * _MB
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def count_threads(uid: int) -> int:
    """Return the number of threads of all processes of a user."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


def descendants() -> list[int]:
    """Return the ids of all processes beneath this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    pids: list[int] = []
    unseen = [os.getpid()]
    while unseen:
        below = children.get(unseen.pop(), [])
        pids += below
        unseen += below
    return pids


def sweep_user(uid: int) -> None:
    """Kill all processes of a user in one step, so that none can escape by forking."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        except OSError:
            pass
        finally:
            os._exit(0)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def try_lock(lock: int) -> bool:
    """Take the lock; return False if another shim has it. A driver that checks it has it for a moment."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def main(arguments: list[str]) -> int:
    """Run the shim; return 0 if the task was done, 1 if another shim does it or has done it."""
    if arguments[0] == "--sweep":
        sweep_user(int(arguments[1]))
        return 0
    directory = os.open(arguments[0], os.O_RDONLY | os.O_DIRECTORY)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600, dir_fd=directory)
    if not try_lock(lock):
        return 1
    if "started.json" in os.listdir(directory):
        return 1
    with open(os.open("task.json", os.O_RDONLY, dir_fd=directory), encoding="utf-8") as file:
        task = json.load(file)
    Shim(directory, task).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
