"""Prediction at scale: a table from scratch, in two processes, against nodes, instances and samples.

    python -m tests.bench.bench_scale [--goal] [--json]

A cloud of 64-core nodes over 30 days, three in four instances on-demand, sizes 1 to 32, asked load .6 + .2,
horizon one day. The first line is the goal: 1,000 nodes, a million instances, 10,000 births of each of six
sizes in at most two minutes and 4 GiB on two cores; the others vary one quantity. --goal: only that line.

``wall_s`` is that of the slower process. Memory is the sum of the processes' peaks, interpreter and history
included.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.prediction.history_chunks import Events, HistoryCutter, SpotLine
from cloudsim.prediction.kernels import youngest_first
from cloudsim.prediction.kernels.replays import Replays, base_replay, resize_replays
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from tests.bench.bench_prediction import CountedAdvance

DAY_S = 86_400.0
DAYS = 30
CORES = 64
SIZES = (1, 2, 4, 8, 16, 32)
WEIGHTS = (0.30, 0.25, 0.20, 0.13, 0.08, 0.04)
LOAD_ON_DEMAND, LOAD_SPOT = 0.6, 0.2
WAVE = 0.4  # of the arrival rate, over the week

PROCESSES = 2
GOAL_S, GOAL_MIB = 120.0, 4096


@dataclass(frozen=True)
class Case:
    """One line of the curve. instances: asked for, in all; births: of each size."""

    nodes: int = 1000
    instances: int = 1_000_000
    births: int = 10_000


CURVE = [
    Case(),
    Case(nodes=500),
    Case(nodes=250),
    Case(nodes=64),
    Case(instances=500_000),
    Case(instances=250_000),
    Case(births=5_000),
    Case(births=2_500),
]


def asked(case: Case, seed: int) -> EventLog:
    """Requests, whether they fit or not: Poisson arrivals, log-normal durations (sigma 1.5)."""
    generator = np.random.default_rng(seed)
    count, until_s = case.instances, DAYS * DAY_S
    week = 2 * np.pi / (7 * DAY_S)
    start = np.sort(generator.uniform(0, until_s, count))
    start = np.sort(start - WAVE / week * np.sin(week * start))  # density 1 / (1 - WAVE cos(week * start))
    cores = generator.choice(SIZES, count, p=WEIGHTS)
    spot = generator.random(count) < LOAD_SPOT / (LOAD_ON_DEMAND + LOAD_SPOT)
    mean_s = (
        (LOAD_ON_DEMAND + LOAD_SPOT) * case.nodes * CORES * until_s / (count * float(np.dot(SIZES, WEIGHTS)))
    )
    stop = start + mean_s * generator.lognormal(-(1.5**2) / 2, 1.5, count)
    number = np.arange(count)
    return _log(start, stop, np.where(spot, START_SPOT, START_ON_DEMAND), number, cores, until_s)


def _log(
    start: NDArray[Any],
    stop: NDArray[Any],
    kind: NDArray[Any],
    number: NDArray[Any],
    cores: NDArray[Any],
    until_s: float,
) -> EventLog:
    ended = stop < until_s
    time_s = np.concatenate((start, stop[ended]))
    order = np.argsort(time_s, kind="stable")
    return EventLog(
        time_s[order],
        np.concatenate((kind, np.full(np.count_nonzero(ended), STOP))).astype(np.int8)[order],
        np.concatenate((number, number[ended]))[order],
        np.concatenate((cores, cores[ended]))[order],
    )


@numba.njit(cache=True)
def _place(events: Events, spots: SpotLine, base: Replays, placed: NDArray[np.bool_]) -> None:
    """Which starts of a chunk are placed."""
    marked = np.zeros(base.free.shape[1], np.int32)
    index = youngest_first._new_index(events, base.free.shape[1])
    youngest_first._index(events.sizes, base.free[0], index)
    for event in range(len(events.kind)):
        youngest_first._run(
            events, spots, event, event + 1, base.free[0], base.node[0], -1, 1, 0, marked, index
        )
        placed[event] = events.kind[event] == STOP or base.node[0, events.slot[event]] != -1


def admitted(case: Case, seed: int = 1) -> EventLog:
    """The requests that found room when they came, with their requested stops."""
    log, nodes = asked(case, seed), case.nodes
    base = base_replay((CORES,) * nodes)
    placed = np.empty(len(log), np.bool_)
    for chunk in HistoryCutter(nodes).cut(log, 0.0, DAYS * DAY_S):
        base = resize_replays(base, 1, max(chunk.slots, base.node.shape[1]))
        _place(chunk.events, chunk.spots, base, placed[chunk.begin : chunk.begin + len(chunk.events.kind)])
    refused = log.instance[~placed]
    kept = ~np.isin(log.instance, refused)
    return EventLog(log.time_s[kept], log.kind[kept], log.instance[kept], log.cores[kept])


def sample(case: Case, log: EventLog, sizes: tuple[int, ...]) -> dict[str, Any]:
    """One process's part: some sizes, one after the other."""
    counted = CountedAdvance()
    youngest_first.advance = counted  # type: ignore[assignment]
    spec = SamplerSpec((CORES,) * case.nodes, seed=1, births=case.births, horizon_s=DAY_S)
    ReplaySampler(SamplerSpec((CORES,) * 65, seed=1, births=10), 1).feed(EventLog.empty(), DAY_S)  # compiles
    began, cpu = time.perf_counter(), time.process_time()
    samples = evicted = rows = 0
    by_size_s = {}
    for cores in sizes:
        one_began = time.perf_counter()
        one = ReplaySampler(spec, cores)
        one.feed(log, DAYS * DAY_S)
        result = one.samples()
        samples, evicted = samples + len(result), evicted + int(result.evicted.sum())
        rows = max(rows, len(one._replays.rank))
        by_size_s[cores] = round(time.perf_counter() - one_began, 2)
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "samples": samples,
        "evicted": evicted,
        "rows": rows,
        "by_size_s": by_size_s,
        "pairs": counted.pairs,
        "kernel_s": counted.seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _process(case: Case, number: int, answers: multiprocessing.Queue[dict[str, Any]]) -> None:
    answers.put(sample(case, admitted(case), SIZES[number::PROCESSES]))


def measure(case: Case) -> dict[str, Any]:
    """The table of one case, its sizes dealt out to the processes."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[dict[str, Any]] = context.Queue()
    processes = [
        context.Process(target=_process, args=(case, number, answers)) for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    parts = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    pairs = sum(part["pairs"] for part in parts)
    return {
        "nodes": case.nodes,
        "instances": case.instances,
        "births": case.births,
        "samples": sum(part["samples"] for part in parts),
        "evicted": sum(part["evicted"] for part in parts),
        "wall_s": round(max(part["wall_s"] for part in parts), 1),
        "cpu_s": round(sum(part["cpu_s"] for part in parts), 1),
        "events_replayed_millions": round(pairs / 1e6),
        "ns_an_event_and_replay": round(sum(part["kernel_s"] for part in parts) / max(pairs, 1) * 1e9, 1),
        "peak_mib": round(sum(part["peak_mib"] for part in parts)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--goal", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for number, case in enumerate(CURVE[:1] if arguments.goal else CURVE):
        line = measure(case)
        if arguments.json:
            sys.stdout.write(json.dumps(line) + "\n")
        else:
            if number == 0:
                sys.stdout.write("  ".join(line) + "\n")
            sys.stdout.write("  ".join(f"{value:>{len(name)}}" for name, value in line.items()) + "\n")
        if number == 0:
            reached = line["wall_s"] <= GOAL_S and line["peak_mib"] <= GOAL_MIB
            sys.stderr.write(
                f"goal: {GOAL_S:.0f} s and {GOAL_MIB} MiB in {PROCESSES} processes: "
                f"{'reached' if reached else 'MISSED'}, {line['wall_s'] / GOAL_S:.2f} of the time\n"
            )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
