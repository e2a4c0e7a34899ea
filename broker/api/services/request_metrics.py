"""Counts and times the work of one API process, or of several that share a port, for ``GET /metrics``.

Counts begin anew with each start. Metrics that all API processes show alike are in
``broker.api.services.federation_metrics``.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client import Counter as CounterMetric
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from broker.requests.models import RequestAnswer
from broker.requests.submit import Result
from cloudsim.model.refusals import RefusalReason

_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_LAG_INTERVAL_S = 0.25
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"})
_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
#: Label for a path or a method that is unknown, so that callers cannot make up labels.
OTHER = "other"


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Let processes that are started in the context share their metrics, by files of the client library."""
    with TemporaryDirectory(prefix="spotfed-metrics-") as directory:
        os.environ[_DIRECTORY] = directory  # noqa: TID251  (the client knows no other way)
        try:
            yield
        finally:
            del os.environ[_DIRECTORY]  # noqa: TID251


class RequestMetrics:
    """Holds the counters and histograms of one process, in a registry of its own.

    ``directory`` holds those of all processes that share a port; None: this one is alone.
    """

    def __init__(self, directory: str | None = os.environ.get(_DIRECTORY)) -> None:  # noqa: TID251
        self._directory = directory
        if directory is not None:
            _forget_dead_processes(Path(directory))
        # The time at which each series began would be half as many series again, and nobody uses it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
        if directory is None:
            ProcessCollector(registry=self.registry)
        self._calls = Histogram(
            "spotfed_http_request_duration_seconds",
            "Time until an answer began, by route, method and status",
            ["method", "route", "status"],
            buckets=_CALL_S,
            registry=self.registry,
        )
        self._open = Gauge(
            "spotfed_http_requests_in_progress",
            "Calls that have not ended, event streams among them",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._admission = Histogram(
            "spotfed_admission_duration_seconds",
            "Time from accepting spot requests to the answer to all of a call: to a single one, or to a list",
            ["call"],
            buckets=_CALL_S,
            registry=self.registry,
        )
        self._requests = CounterMetric(
            "spotfed_spot_requests",
            "Spot requests that this process answered, by what came of them",
            ["result"],
            registry=self.registry,
        )
        self._refusals = CounterMetric(
            "spotfed_refusals",
            "Refusals in answers to spot requests, by who refused (the broker too) and why",
            ["cloud", "reason"],
            registry=self.registry,
        )
        self._lag = Histogram(
            "spotfed_event_loop_lag_seconds",
            "How late the event loop wakes a sleeping task",
            buckets=_LAG_S,
            registry=self.registry,
        )
        for call in ("single", "list"):
            self._admission.labels(call)
        for result in ("granted", "refused", "failed"):
            self._requests.labels(result)
        self._replies_awaited = Gauge(
            "spotfed_replies_awaited",
            "Replies of owners that this process waits for",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._replies_dropped = CounterMetric(
            "spotfed_replies_dropped",
            "Replies of owners that were not trusted, by reason",
            ["reason"],
            registry=self.registry,
        )
        self._awaited: Callable[[], int] = int
        self._refused: Mapping[str, int] = {}
        self._refused_before: Counter[str] = Counter()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics, of all processes that share a port."""
        self._note_replies()
        if self._directory is not None:
            return MultiProcessCollector(None, self._directory).collect()  # type: ignore[no-untyped-call, no-any-return]
        return self.registry.collect()

    # -- calls ---------------------------------------------------------------------------------------------

    def count_start(self) -> None:
        """Count a call that came in."""
        self._open.inc()

    def observe_answer(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Observe that the answer of a call began after ``seconds``.

        ``route`` is the path with names in the place of ids; None if no route matched.
        """
        self._calls.labels(
            method if method in _METHODS else OTHER, OTHER if route is None else route, status
        ).observe(seconds)

    def count_end(self) -> None:
        """Count a call that is over."""
        self._open.dec()

    # -- requests ------------------------------------------------------------------------------------------

    def count_results(self, results: Sequence[Result], seconds: float, single: bool) -> None:
        """Count the results of the spot requests of one call, which took ``seconds``.

        Each result is a RequestAnswer, or the error that the request met. ``single`` is False for a list.
        """
        self._admission.labels("single" if single else "list").observe(seconds)
        outcomes: Counter[str] = Counter()
        refusals: Counter[tuple[str, str]] = Counter()
        for result in results:
            if isinstance(result, RequestAnswer):
                outcomes["refused" if result.lease is None else "granted"] += 1
                for refusal in result.refusals:
                    if refusal.reason is not RefusalReason.NOT_A_TARGET:  # it was never asked
                        refusals[refusal.cloud, refusal.reason.value] += 1
            else:
                outcomes["failed"] += 1
        for outcome, count in outcomes.items():
            self._requests.labels(outcome).inc(count)
        for (cloud, reason), count in refusals.items():
            self._refusals.labels(cloud, reason).inc(count)

    # -- this process --------------------------------------------------------------------------------------

    def watch_replies(self, awaited: Callable[[], int], refused: Mapping[str, int]) -> None:
        """Show how many replies of owners are awaited, and how many were dropped, by reason."""
        self._awaited, self._refused = awaited, refused

    def _note_replies(self) -> None:
        self._replies_awaited.set(self._awaited())
        refused = Counter(self._refused)
        for reason, count in (refused - self._refused_before).items():
            self._replies_dropped.labels(reason).inc(count)
        self._refused_before = refused

    async def measure_loop_lag(self) -> None:
        """Measure how late the event loop wakes a sleeping task, until cancelled.

        What other processes of the port show of this one is noted at the same time.
        """
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _LAG_INTERVAL_S
            await asyncio.sleep(_LAG_INTERVAL_S)
            self._lag.observe(max(0.0, loop.time() - due_s))
            self._note_replies()


def _forget_dead_processes(directory: Path) -> None:
    """Forget what processes had under way that are no more."""
    for file in directory.glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not psutil.pid_exists(pid):
            mark_process_dead(pid, str(directory))  # type: ignore[no-untyped-call]
