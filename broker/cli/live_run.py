"""A federation file run live on this machine: started, driven to its end, stopped, nothing left behind."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.contract import Event
    from broker.local.federation import LocalFederation
    from broker.local.trace_driver import Told
    from cloudsim.federation.model import Federation


@dataclass(frozen=True)
class LiveRun:
    """What is run, and with how many samples and workers."""

    file: Path
    federation: Federation
    until: str | None
    samples: int
    seed: int
    monte_carlo: int


@contextmanager
def running(run: LiveRun, say: Callable[[str], None]) -> Iterator[LocalFederation]:
    """The federation in trace time, on a queue of its own or behind a prefix in SPOTFED_REDIS_URL."""
    from broker.local.federation import LocalFederation
    from broker.local.process_list import Layout, trace_time
    from broker.settings import settings

    layout = Layout(
        run.file.absolute(),
        tuple(member.spec.id for member in run.federation.clouds),
        trace_time(until=run.until, samples=run.samples, seed=run.seed),
        run.monte_carlo,
        port=_free_port(),
    )
    told = settings()
    environment = {} if told.data is None else {"SPOTFED_DATA": str(told.data)}
    with (
        tempfile.TemporaryDirectory(prefix="spotfed-") as directory,
        LocalFederation(
            layout,
            Path(directory),
            redis_url=told.redis_url,
            key_prefix=told.key_prefix if told.redis_url is None else f"{told.key_prefix}{uuid.uuid4().hex}:",
            forget=told.redis_url is not None,
            environment=environment,
            say=say,
        ) as local,
    ):
        yield local


def drive(run: LiveRun, local: LocalFederation, told: Told) -> dict[str, Any]:
    """Sends the federation's requests to its end and returns the report."""
    from broker.local import trace_driver

    with local.client(deadline_s=trace_driver.PATIENCE_S, timeout_s=trace_driver.ANSWER_S) as client:
        return trace_driver.drive(run.federation, client, lambda cloud: journal(local, cloud), told=told)


def journal(local: LocalFederation, cloud: str) -> Iterable[Event]:
    """All events of a cloud."""
    from broker.journal.journal import Journal
    from broker.storage.connections import connect

    assert local.redis_url is not None, "it runs"
    with connect(local.redis_url) as client:
        for _, event in Journal(client, local.keys, cloud).read():
            yield event


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
