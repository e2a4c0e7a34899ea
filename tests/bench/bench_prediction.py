"""Prediction: the compiled replay beside its plain reference, in the same run.

    python -m tests.bench.bench_prediction [--births 10000] [--data ../shared/data] [--json]

Prints, first, a synthetic set-up as in P2 Figure 1 (8 nodes of 4 cores, 240 h) and all sizes of the recorded
trace DS5 on 31 x 32 cores, with and without DS6 as spot instances: seconds of the kernel for everything, of
the naive replay for all of it as far as a few samples tell, and their ratio, and the cost of one event in
one replay. Then the refreshes of a whole run. Last the goals: what was measured as a part of what is allowed,
so that more than 1 is a goal missed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.prediction.kernels import youngest_first as kernel
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from tests.support.reference import youngest_first as reference

HOUR_S, DAY_S = 3600.0, 86_400.0
REFERENCE_SAMPLES = 8  # replayed by the expected to estimate what all would take it
GOAL_NS, GOAL_RUN_S, GOAL_REFRESH_MS = 40.0, 40.0, 500.0

Requests = list[tuple[float, float, int]]  # start, stop, cores


def admitted(node_cores: tuple[int, ...], on_demand: Requests, spot: Requests, until_s: float) -> EventLog:
    """History of a cloud that admits whatever fits."""
    arrivals = [(start, START_ON_DEMAND, stop, cores) for start, stop, cores in on_demand]
    arrivals += [(start, START_SPOT, stop, cores) for start, stop, cores in spot]
    arrivals.sort(key=lambda one: one[:2])
    cloud = reference.ReferenceCloud(node_cores)
    stops: list[tuple[float, int, int, int]] = []  # time, phase, instance, cores
    events: list[tuple[float, int, int, int]] = []  # time, kind, instance, cores
    number = 0

    def stop_before(time_s: float, phase: int) -> None:
        while stops and stops[0][:2] < (time_s, phase):
            stop_s, _, instance, cores = heapq.heappop(stops)
            cloud.stop(instance)
            events.append((stop_s, STOP, instance, cores))

    for start, kind, stop, cores in arrivals:
        stop_before(start, kind)
        if cloud.start(number, cores, None if kind == START_ON_DEMAND else (start, number)):
            events.append((start, kind, number, cores))
            heapq.heappush(stops, (stop, 3 if stop == start else 0, number, cores))
            number += 1
    stop_before(until_s, 0)
    columns = list(zip(*[event for event in events if event[0] < until_s], strict=True))
    return EventLog(
        np.array(columns[0], np.float64),
        np.array(columns[1], np.int8),
        np.array(columns[2], np.int64),
        np.array(columns[3], np.int64),
    )


def recorded(path: Path, delay_s: float = 0.0) -> Requests:
    """Instances of a Eucalyptus trace; one without a stop never stops."""
    found: dict[str, tuple[float, float, int]] = {}
    for line in path.read_text().splitlines():
        word, time_s, name, *rest = line.split()
        at_s = float(time_s) + delay_s
        if word == "START":
            found[name] = (at_s, np.inf, int(rest[1]))
        elif word == "STOP":
            found[name] = (found[name][0], at_s, found[name][2])
    return list(found.values())


def synthetic(generator: np.random.Generator, until_s: float) -> Requests:
    """P1 Table I as docs/design/prediction.md reads it: inter-arrival and duration log-normal, (3.5, 1) and
    (6, 1.5) in seconds.
    """
    starts = np.cumsum(generator.lognormal(3.5, 1.0, int(until_s / 30)))
    starts = starts[starts < until_s]
    stops = starts + generator.lognormal(6.0, 1.5, len(starts))
    return [(start, stop, 1) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]


class CountedAdvance:
    """The kernel's ``advance``, counting events x replays and seconds."""

    def __init__(self) -> None:
        self.pairs, self.seconds = 0, 0.0
        self._advance: Callable[..., None] = kernel.advance

    def __call__(self, *arguments: Any) -> None:
        began = time.perf_counter()
        self._advance(*arguments)
        self.seconds += time.perf_counter() - began
        begin, end, evicted_by = arguments[5:]
        self.pairs += int((np.where(evicted_by < 0, end, evicted_by + 1) - begin).sum())


def side_by_side(
    name: str, node_cores: tuple[int, ...], log: EventLog, until_s: float, births: int
) -> dict[str, Any]:
    """All sizes of a history, in one feed, and a few samples through the reference."""
    spec = SamplerSpec(node_cores, seed=1, births=births)
    ours_s = naive_s = 0.0
    samples = replayed = 0
    counted, real = CountedAdvance(), kernel.advance
    kernel.advance = counted  # type: ignore[assignment]
    try:
        for cores in np.unique(log.cores).tolist():
            one = ReplaySampler(spec, cores)
            began = time.perf_counter()
            one.feed(log, until_s)
            result = one.samples()
            ours_s += time.perf_counter() - began
            samples += len(result)
            chosen = (
                np.linspace(0, len(result) - 1, REFERENCE_SAMPLES).astype(int).tolist() if len(result) else []
            )
            began = time.perf_counter()
            for row in chosen:
                expected = reference.replay(node_cores, log, until_s, cores, float(result.birth_s[row]))
                assert expected is not None
                assert expected.duration_s == result.duration_s[row]
                assert expected.evicted == result.evicted[row]
            if chosen:
                naive_s += (time.perf_counter() - began) / len(chosen) * len(result)
                replayed += len(chosen)
    finally:
        kernel.advance = real
    return {
        "what": name,
        "events": len(log),
        "samples": samples,
        "kernel_s": round(ours_s, 3),
        "naive_s": round(naive_s, 1),
        "naive_samples_replayed": replayed,
        "ratio": round(naive_s / ours_s),
        "ns_an_event_and_replay": round(counted.seconds / max(counted.pairs, 1) * 1e9, 1),
        "events_replayed": counted.pairs,  # by the replays that samples share
    }


def refreshes(node_cores: tuple[int, ...], log: EventLog, until_s: float, births: int) -> dict[str, Any]:
    """Tables at every sixth hour, with one question asked of every size."""
    sizes = np.unique(log.cores).tolist()
    predictor = LocalPredictor(SamplerSpec(node_cores, seed=1, births=births), sizes)
    boundaries = [DAY_S + 6 * HOUR_S * step for step in range(int((until_s - DAY_S) // (6 * HOUR_S)))]
    longest_s = table_s = 0.0
    began = time.perf_counter()
    for boundary_s in boundaries:
        begin, end = np.searchsorted(log.time_s, [predictor.until_s, boundary_s])
        new = EventLog(
            log.time_s[begin:end], log.kind[begin:end], log.instance[begin:end], log.cores[begin:end]
        )
        one = time.perf_counter()
        table = predictor.table(new, boundary_s)
        fed = time.perf_counter()
        for cores in sizes:
            table.estimate(cores, 3, HOUR_S)
        assert table.version
        done = time.perf_counter()
        longest_s, table_s = max(longest_s, done - one), table_s + done - fed
    total_s = time.perf_counter() - began
    asked = time.perf_counter()
    for step in range(10_000):
        table.estimate(sizes[0], 3, HOUR_S + step)
    return {
        "what": f"{len(boundaries)} refreshes of {len(sizes)} sizes",
        "total_s": round(total_s, 2),
        "longest_ms": round(longest_s * 1e3, 1),
        "cells_and_version_ms": round(table_s / len(boundaries) * 1e3, 1),
        "estimate_us": round((time.perf_counter() - asked) / 10_000 * 1e6, 2),
    }


def measure(data: Path, births: int) -> list[dict[str, Any]]:
    """All measurements, after one small run that compiles."""
    generator = np.random.default_rng(1)
    small = (4,) * 8
    until_s = 240 * HOUR_S
    log = admitted(small, synthetic(generator, until_s), synthetic(generator, until_s), until_s)
    ReplaySampler(SamplerSpec(small, 1, 10), 1).feed(log, until_s)
    lines = [side_by_side("synthetic, 8 x 4, 240 h", small, log, until_s, births)]
    large = (32,) * 31
    on_demand = recorded(data / "eucalyptus" / "DS5-trace.txt")
    until_s = max(stop for _, stop, _ in on_demand if stop < np.inf) + 1.0
    alone = admitted(large, on_demand, [], until_s)
    lines.append(side_by_side("DS5, 31 x 32, all sizes", large, alone, until_s, births))
    spot = recorded(data / "eucalyptus" / "DS6-trace.txt", DAY_S)
    both = admitted(large, on_demand, spot, until_s)
    lines.append(side_by_side("DS5 and spot DS6, 31 x 32, all sizes", large, both, until_s, births))
    lines.append(refreshes(large, both, until_s, births))
    return [*lines, goals(lines[-2], lines[-1])]


def goals(mixed: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The part of what is allowed that the largest history and its refreshes take, on one core."""
    return {
        "what": "goals",
        f"mixed sizes, of {GOAL_NS:.0f} ns an event and replay": round(
            mixed["ns_an_event_and_replay"] / GOAL_NS, 2
        ),
        f"all refreshes, of {GOAL_RUN_S:.0f} s": round(run["total_s"] / GOAL_RUN_S, 3),
        f"longest refresh, of {GOAL_REFRESH_MS:.0f} ms": round(run["longest_ms"] / GOAL_REFRESH_MS, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--births", type=int, default=10_000)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for line in measure(arguments.data, arguments.births):
        if arguments.json:
            sys.stdout.write(json.dumps(line) + "\n")
        else:
            sys.stdout.write("  ".join(f"{name} {value}" for name, value in line.items()) + "\n")


if __name__ == "__main__":
    main()
