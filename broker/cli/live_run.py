"""A federation file run live on this machine: started, driven to its end, and stopped without a trace."""

from __future__ import annotations

import socket
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.contract import Event
from broker.journal.journal import Journal
from broker.local import trace_driver
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, trace_time
from broker.local.trace_driver import AnswerCallback
from broker.settings import settings
from broker.storage.connections import connect
from cloudsim.federation.model import Federation


@dataclass(frozen=True)
class LiveRun:
    """A federation to run live.

    until: duration after which requests are left out; None: the end of the traces. samples: Monte-Carlo
    samples a size. monte_carlo: number of Monte-Carlo workers.
    """

    file: Path
    federation: Federation
    until: str | None
    samples: int
    seed: int
    monte_carlo: int


@contextmanager
def start(run: LiveRun, say: Callable[[str], None]) -> Iterator[LocalFederation]:
    """Start the federation in trace time, on a queue of its own or behind a prefix in SPOTFED_REDIS_URL.

    It is stopped at the end, and its keys are removed. ``say`` is called with each line of progress.
    """
    processes = ProcessList(
        run.file.absolute(),
        tuple(member.spec.id for member in run.federation.clouds),
        trace_time(until=run.until, samples=run.samples, seed=run.seed),
        run.monte_carlo,
        port=_free_port(),
    )
    config = settings()
    prefix = config.key_prefix if config.redis_url is None else f"{config.key_prefix}{uuid.uuid4().hex}:"
    environment = {} if config.data is None else {"SPOTFED_DATA": str(config.data)}
    with (
        tempfile.TemporaryDirectory(prefix="spotfed-") as directory,
        LocalFederation(
            processes,
            Path(directory),
            redis_url=config.redis_url,
            key_prefix=prefix,
            forget=config.redis_url is not None,
            environment=environment,
            say=say,
        ) as local,
    ):
        yield local


def drive(run: LiveRun, local: LocalFederation, answered: AnswerCallback) -> dict[str, Any]:
    """Send the federation's requests to its end and return the report; call ``answered`` for each answer."""
    with local.client(deadline_s=trace_driver.PATIENCE_S, timeout_s=trace_driver.ANSWER_S) as client:
        return trace_driver.drive(
            run.federation, client, lambda cloud: read_events(local, cloud), answered=answered
        )


def read_events(local: LocalFederation, cloud: str) -> Iterable[Event]:
    """Yield all events of a cloud's journal."""
    assert local.redis_url is not None, "it runs"
    with connect(local.redis_url) as client:
        for _, event in Journal(client, local.keys, cloud).read():
            yield event


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
