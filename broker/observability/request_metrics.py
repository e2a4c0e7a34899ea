"""What one API process counts and times of its own work, for ``GET /metrics``.

It begins anew with each process. What all processes would tell alike is in ``broker.observability.metrics``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from broker.requests.models import RequestAnswer
from broker.requests.submit import Result
from cloudsim.model.refusals import RefusalReason

_CALL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_LOOK_S = 0.25
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"})
#: In the place of a path or a method that is none of ours: callers shall not make up labels.
OTHER = "other"


class RequestMetrics:
    """Counters and histograms of one process, in a registry of their own."""

    def __init__(self) -> None:
        # When each began: half as many series again, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
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
            "How late the event loop wakes up who sleeps",
            buckets=_LAG_S,
            registry=self.registry,
        )
        for call in ("single", "list"):
            self._admission.labels(call)
        for result in ("granted", "refused", "failed"):
            self._requests.labels(result)

    # -- calls ---------------------------------------------------------------------------------------------

    def began(self) -> None:
        """A call came in."""
        self._open.inc()

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Its answer began after so long. ``route``: the path with names for what varies; None: no route."""
        known = method if method in _METHODS else OTHER
        self._calls.labels(known, OTHER if route is None else route, status).observe(seconds)

    def ended(self) -> None:
        """A call is over."""
        self._open.dec()

    # -- requests ------------------------------------------------------------------------------------------

    def settled(self, results: Sequence[Result], seconds: float, single: bool) -> None:
        """What came of new requests of one call after so long: a RequestAnswer, or the error that it met."""
        self._admission.labels("single" if single else "list").observe(seconds)
        outcomes: Counter[str] = Counter()
        refusals: Counter[tuple[str, str]] = Counter()
        for result in results:
            if isinstance(result, RequestAnswer):
                outcomes["refused" if result.lease is None else "granted"] += 1
                for one in result.refusals:
                    if one.reason is not RefusalReason.NOT_A_TARGET:  # it was not meant, and did not refuse
                        refusals[one.cloud, one.reason.value] += 1
            else:
                outcomes["failed"] += 1
        for outcome, count in outcomes.items():
            self._requests.labels(outcome).inc(count)
        for (cloud, reason), count in refusals.items():
            self._refusals.labels(cloud, reason).inc(count)

    # -- this process --------------------------------------------------------------------------------------

    def watch(self, awaited: Callable[[], int], refused: Mapping[str, int]) -> None:
        """Shows how many answers of owners are awaited, and how many came that were not believed, by
        reason."""
        gauge = Gauge(
            "spotfed_replies_awaited",
            "Answers of owners that somebody waits for in this process",
            registry=self.registry,
        )
        gauge.set_function(awaited)
        self.registry.register(_Dropped(refused))

    async def watch_loop(self) -> None:
        """Measures the event loop for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _LOOK_S
            await asyncio.sleep(_LOOK_S)
            self._lag.observe(max(0.0, loop.time() - due_s))


class _Dropped(Collector):
    def __init__(self, refused: Mapping[str, int]):
        self._refused = refused

    def collect(self) -> list[Metric]:
        family = CounterMetricFamily(
            "spotfed_replies_dropped",
            "Answers of owners that were not believed, by reason",
            labels=["reason"],
        )
        for reason, count in self._refused.items():
            family.add_metric([reason], count)
        return [family]
