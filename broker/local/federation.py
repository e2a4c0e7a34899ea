"""Queue, processes, API key and addresses of a federation on this machine, put together."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from broker.local.process_list import QUEUE, Layout, ProcessSpec
from broker.local.supervisor import Child, Supervisor, last_words

if TYPE_CHECKING:
    from broker.client import Client
    from broker.storage.keys import RedisKeys

START_LIMIT_S = 120.0
_LOOK_S = 0.1
_DEATHS = 3  # a process that dies so often while it starts will not start


class LocalError(Exception):
    """The federation cannot be started here; the message says what to do."""


def record_file(directory: Path) -> Path:
    """Where a running federation says which processes it has and where its API is: JSON."""
    return directory / "processes.json"


@dataclass
class LocalFederation:
    """A federation on this machine, as a context manager: everything runs on entry, nothing on exit.

    directory: holds the queue's data, logs and API key; becomes SPOTFED_STATE_DIR of the processes.
    redis_url: a server to use; None starts one of our own in ``directory``.
    key_prefix: keeps federations on one server apart. forget: its keys are removed on exit.
    environment: further variables for the processes. over: set it to give up starting.
    """

    layout: Layout
    directory: Path
    redis_url: str | None = None
    key_prefix: str = "spotfed:"
    forget: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        logs = self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        environment = {
            **self.environment,
            **self.layout.environment,
            "SPOTFED_STATE_DIR": str(self.directory),
            "SPOTFED_KEY_PREFIX": self.key_prefix,
        }
        self._supervisor = Supervisor(logs, environment, say=self.say, changed=self._record)
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.say("stopping")
        self._supervisor.stop()
        record_file(self.directory).unlink(missing_ok=True)
        if self.forget and self.redis_url is not None:
            forget_keys(self.redis_url, self.key_prefix)

    @property
    def keys(self) -> RedisKeys:
        """Names of what this federation keeps in Redis."""
        from broker.storage.keys import RedisKeys

        return RedisKeys(self.key_prefix)

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name, of those that run."""
        children = self._supervisor.children
        return {child.process.name: child.running.pid for child in children if child.running is not None}

    def client(self, **options: Any) -> Client:
        """A client of its API."""
        from broker.client import Client

        return Client(self.layout.url, self.api_key, **options)

    def _start(self) -> None:
        from broker.local import queue
        from broker.settings import Settings

        limit_s = time.monotonic() + START_LIMIT_S
        first, *others = self.layout.processes()
        assert first.name == QUEUE, "all other processes need it"
        told = Settings(state_dir=self.directory, redis_url=self.redis_url, key_prefix=self.key_prefix)
        known = {} if self.redis_url is None else {"SPOTFED_REDIS_URL": self.redis_url}
        self.say("starting the queue" + (" (an embedded Redis)" if self.redis_url is None else ""))
        self._supervisor.start([first], known)
        url = None
        while url is None:
            if self.over.is_set():
                return
            url = queue.find(told, _LOOK_S)
            self._check(limit_s)
        self.redis_url = url
        self.api_key = queue.key_file(self.directory).read_text(encoding="utf-8").strip()
        self.say(f"starting {', '.join(process.name for process in others)}")
        self._start_signing(others, {"SPOTFED_REDIS_URL": url})
        self._await_clouds(limit_s)

    def _start_signing(self, processes: Sequence[ProcessSpec], environment: Mapping[str, str]) -> None:
        """Starts processes, each with the key of its party and what clients of the API need; keys of parties
        that are missing are made."""
        from broker.signing.key_files import local_key_files

        files = local_key_files(self.directory)
        files.ensure([process.party for process in processes if process.party is not None])
        for process in processes:
            known = {} if process.party is None else files.environment(process.party)
            if process.calls_api:
                known |= {"SPOTFED_URL": self.layout.url, "SPOTFED_API_KEY": self.api_key}
            self._supervisor.start([process], {**environment, **known})

    def _await_clouds(self, limit_s: float) -> None:
        """Returns when all clouds are there, as the API sees it."""
        from broker.client import ClientError, UntrustedError

        missing = set(self.layout.clouds)
        while missing and not self.over.is_set():
            self._check(limit_s, f"waiting for {', '.join(sorted(missing))}")
            time.sleep(_LOOK_S)
            try:
                with self.client(deadline_s=_LOOK_S) as client:
                    missing -= {view.info.id for view in client.clouds.list() if view.reachable}
            except UntrustedError as error:
                raise LocalError(str(error)) from error
            except ClientError:
                continue

    def _check(self, limit_s: float, doing: str = "waiting for the queue") -> None:
        """Raises LocalError when a process does not start, or all of it takes too long."""
        for child in self._supervisor.children:
            if child.restarts >= _DEATHS:
                raise LocalError(f"{child.process.name} does not start:\n{last_words(child.log)}")
        if time.monotonic() > limit_s:
            logs = self.directory / "logs"
            raise LocalError(f"gave up after {START_LIMIT_S:.0f} s, {doing}; the logs are in {logs}")

    def _record(self, children: Sequence[Child]) -> None:
        """For ``spotfed ps``, and for clients that want to know where the API is."""
        record = {
            "url": self.layout.url,
            "supervisor": os.getpid(),
            "processes": [
                {
                    "name": child.process.name,
                    "pid": None if child.running is None else child.running.pid,
                    "restarts": child.restarts,
                    "log": str(child.log),
                }
                for child in children
            ],
        }
        path = record_file(self.directory)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(record, indent=2), encoding="utf-8")
        draft.replace(path)


def forget_keys(redis_url: str, key_prefix: str) -> None:
    """Removes a federation's keys from a server that others use too."""
    from broker.storage.connections import connect

    with connect(redis_url) as client:
        for key in client.scan_iter(f"{key_prefix}*", count=1000):
            client.unlink(key)
