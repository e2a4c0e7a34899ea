"""A federation on this machine: its queue, processes, keys and addresses, as a context manager."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from broker.client import Client, ClientError, UntrustedError
from broker.local import queue
from broker.local.process_list import QUEUE, ProcessList, ProcessSpec
from broker.local.process_record import write_record
from broker.local.state_files import key_file, record_file
from broker.local.supervisor import Child, Supervisor, last_lines
from broker.settings import Settings
from broker.signing.key_files import local_key_files
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from broker.storage.private_files import append_to_private_file

START_LIMIT_S = 120.0
_LOG = "supervisor.log"
_LOOK_S = 0.1
_MOST_RESTARTS = 3  # a process that needs more while the federation starts will not start


class LocalError(Exception):
    """The federation cannot be started here; the message says what to do."""


@dataclass
class LocalFederation:
    """A federation on this machine, as a context manager: everything runs on entry, nothing on exit.

    processes: what it is made of. directory: holds the queue's data, logs and API key; becomes
    SPOTFED_STATE_DIR of the processes. redis_url: a server to use; None starts an embedded one in
    ``directory``. key_prefix: keeps federations on one server apart. forget: remove its keys on exit.
    environment: further variables for the processes. say: called with each line of progress. stopped: set it
    to give up starting.
    """

    processes: ProcessList
    directory: Path
    redis_url: str | None = None
    key_prefix: str = "spotfed:"
    forget: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        logs = self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        (logs / _LOG).unlink(missing_ok=True)
        environment = {
            **self.environment,
            **self.processes.environment,
            "SPOTFED_STATE_DIR": str(self.directory),
            "SPOTFED_KEY_PREFIX": self.key_prefix,
        }
        self._supervisor = Supervisor(logs, environment, say=self.tell, changed=self._record)
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tell("stopping")
        self._supervisor.stop()
        with suppress(OSError):
            record_file(self.directory).unlink(missing_ok=True)
        if self.forget and self.redis_url is not None:
            forget_keys(self.redis_url, self.key_prefix)

    @property
    def keys(self) -> RedisKeys:
        """Names of the keys of this federation in Redis."""
        return RedisKeys(self.key_prefix)

    @property
    def pids(self) -> dict[str, int]:
        """Ids of the running processes, by name."""
        children = self._supervisor.children
        return {child.process.name: child.running.pid for child in children if child.running is not None}

    def tell(self, message: str) -> None:
        """Tell people a message, by ``say`` and in the supervisor's log, or else on standard error.

        No way of writing that fails must end what is told.
        """
        try:
            self.say(message)
        except (Exception, SystemExit):  # noqa: BLE001  (and Rich exits when a reader has left)
            with suppress(OSError, ValueError):
                sys.stderr.write(f"{message}\n")
        with suppress(OSError), append_to_private_file(self.directory / "logs" / _LOG) as log:
            log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {message}\n".encode())

    def client(self, **options: Any) -> Client:
        """Return a client of its API; ``options`` are those of ``Client``."""
        return Client(self.processes.url, self.api_key, **options)

    def _start(self) -> None:
        limit_s = time.monotonic() + START_LIMIT_S
        first, *others = self.processes.specs()
        assert first.name == QUEUE, "all other processes need it"
        config = Settings(state_dir=self.directory, redis_url=self.redis_url, key_prefix=self.key_prefix)
        variables = {} if self.redis_url is None else {"SPOTFED_REDIS_URL": self.redis_url}
        self.tell("starting the queue" + (" (an embedded Redis)" if self.redis_url is None else ""))
        self._supervisor.start([first], variables)
        url = None
        while url is None:
            if self.stopped.is_set():
                return
            url = queue.wait_until_ready(config, _LOOK_S)
            self._check(limit_s)
        self.redis_url = url
        self.api_key = key_file(self.directory).read_text(encoding="utf-8").strip()
        self.tell(f"starting {', '.join(process.name for process in others)}")
        started_at = datetime.now(UTC).replace(microsecond=0)
        self._start_signing(others, {"SPOTFED_REDIS_URL": url})
        self._await_clouds(started_at, limit_s)

    def _start_signing(self, processes: Sequence[ProcessSpec], environment: Mapping[str, str]) -> None:
        """Start processes, each with the key of its party and, for clients of the API, address and key.

        Keys of parties that are missing are made.
        """
        files = local_key_files(self.directory)
        files.ensure([party for process in processes for party in process.parties])
        for process in processes:
            variables = files.environment(*process.parties) if process.parties else {}
            if process.calls_api:
                variables |= {"SPOTFED_URL": self.processes.url, "SPOTFED_API_KEY": self.api_key}
            self._supervisor.start([process], {**environment, **variables})

    def _await_clouds(self, started_at: datetime, limit_s: float) -> None:
        """Wait until the API can reach all clouds. Raises LocalError at ``limit_s``.

        Adverts from before ``started_at`` are those of owners that ran before.
        """
        missing = set(self.processes.clouds)
        while missing and not self.stopped.is_set():
            self._check(limit_s, f"waiting for {', '.join(sorted(missing))}")
            time.sleep(_LOOK_S)
            try:
                with self.client(deadline_s=_LOOK_S) as client:
                    missing -= {
                        view.info.id
                        for view in client.clouds.list()
                        if view.reachable and view.advert is not None
                        if datetime.fromisoformat(view.advert.at) >= started_at
                    }
            except UntrustedError as error:
                raise LocalError(str(error)) from error
            except ClientError:
                continue

    def _check(self, limit_s: float, doing: str = "waiting for the queue") -> None:
        """Raise LocalError when a process does not start, or starting takes until ``limit_s``."""
        for child in self._supervisor.children:
            if child.restarts >= _MOST_RESTARTS:
                raise LocalError(f"{child.process.name} does not start:\n{last_lines(child.log)}")
        if time.monotonic() > limit_s:
            logs = self.directory / "logs"
            raise LocalError(f"gave up after {START_LIMIT_S:.0f} s, {doing}; the logs are in {logs}")

    def _record(self, children: Sequence[Child]) -> None:
        write_record(self.directory, self.processes, children)


def forget_keys(redis_url: str, key_prefix: str) -> None:
    """Remove a federation's keys from a Redis server that others use too."""
    with connect(redis_url) as client:
        for key in client.scan_iter(f"{key_prefix}*", count=1000):
            client.unlink(key)
