"""Uniform sizes: all times of injection at once beside naive replays, one birth each, compiled too.

    python -m tests.bench.bench_uniform [--births 10000] [--seeds 3] [--json]

First the synthetic set-up of P1 Table I (8 nodes of 4 cores, 240 h; docs/design/prediction.md "Uniform
sizes"): the time for every birth there is, the time of so many births through the plain replay (compiled: one
full replay for each), a few of the same through plain Python, and our replays that share their work, side by
side. Then a million instances, and the table that is made of the samples. Seconds are those of the processor,
because the machine may have other work.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samplers.uniform import UniformSampler
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from tests.bench.bench_prediction import admitted, synthetic
from tests.support.reference import youngest_first
from tests.unit.cloudsim.prediction.compiled_reference import CompiledReference

HOUR_S = 3600.0
NODES = (4,) * 8
INSTANCES = 1_000_000
REPEATS = 7
PYTHON_SAMPLES = 8  # replayed in plain Python to estimate what all would take it
GOALS = {"ratio_to_compiled_naive": 500, "million_instances_ms": 50, "ns_an_event": 30}


def best_s(spec: SamplerSpec, log: EventLog, until_s: float) -> tuple[float, float, Samples]:
    """Seconds of a feed, and of it with the samples after it, the best of several; and the samples."""
    fed_s = total_s = np.inf
    for _ in range(REPEATS):
        one = UniformSampler(spec, 1)
        began = time.thread_time()
        one.feed(log, until_s)
        fed = time.thread_time()
        samples = one.samples()
        fed_s, total_s = min(fed_s, fed - began), min(total_s, time.thread_time() - began)
    return fed_s, total_s, samples


def side_by_side(seed: int, births: int, *, always_youngest: bool = False) -> dict[str, Any]:
    """The synthetic set-up, on-demand and spot at the same rate, everything admitted that fits."""
    generator = np.random.default_rng(seed)
    until_s = 240 * HOUR_S
    log = admitted(NODES, synthetic(generator, until_s), synthetic(generator, until_s), until_s)
    spec = SamplerSpec(NODES, seed, births, always_youngest=always_youngest)
    fed_s, total_s, samples = best_s(spec, log, until_s)
    line = {
        "what": f"synthetic, 8 x 4, 240 h, seed {seed}" + (", always youngest" if always_youngest else ""),
        "events": len(log),
        "intervals": len(samples),
        "all_births_ms": round(fed_s * 1e3, 3),
        "with_samples_ms": round(total_s * 1e3, 3),
        "ns_an_event": round(fed_s / len(log) * 1e9, 1),
    }
    if always_youngest:
        return line
    born_s = drawn(samples, births, generator)
    reference = CompiledReference(NODES, log)
    reference.replay(until_s, 1, float(born_s[0]))  # compiles
    began = time.thread_time()
    replayed = [reference.replay(until_s, 1, birth_s) for birth_s in born_s.tolist()]
    compiled_s = time.thread_time() - began
    compare(samples, born_s, replayed)
    began = time.thread_time()
    for birth_s in born_s[:: len(born_s) // PYTHON_SAMPLES].tolist()[:PYTHON_SAMPLES]:
        youngest_first.replay(NODES, log, until_s, 1, birth_s)
    python_s = (time.thread_time() - began) / PYTHON_SAMPLES * births
    ReplaySampler(SamplerSpec(NODES, seed, 10), 1).feed(log, until_s)  # compiles
    began = time.thread_time()
    ReplaySampler(spec, 1).feed(log, until_s)
    shared_s = time.thread_time() - began
    return line | {
        "naive_births": births,
        "naive_compiled_s": round(compiled_s, 3),
        "ratio_to_compiled_naive": round(compiled_s / fed_s),
        "naive_python_s": round(python_s, 1),
        "ratio_to_python_naive": round(python_s / fed_s),
        "sampler_s": round(shared_s, 3),
        "ratio_to_sampler": round(shared_s / fed_s),
    }


def drawn(samples: Samples, births: int, generator: np.random.Generator) -> np.ndarray:
    """Births with a free slot, uniform in time."""
    chosen = generator.choice(len(samples), births, p=samples.span_s / samples.span_s.sum())
    return samples.birth_s[chosen] + generator.random(births) * samples.span_s[chosen]


def compare(
    samples: Samples, born_s: np.ndarray, replayed: list[youngest_first.ReferenceSample | None]
) -> None:
    """Every replay must say what its interval says."""
    rows = np.searchsorted(samples.birth_s, born_s, side="right") - 1
    ends_s = samples.birth_s + samples.duration_s
    for row, birth_s, reference in zip(rows.tolist(), born_s.tolist(), replayed, strict=True):
        assert reference is not None
        assert reference.free_slots == samples.free_slots[row]
        assert reference.evicted == samples.evicted[row]
        assert abs(birth_s + reference.duration_s - ends_s[row]) < 1e-6


def million() -> dict[str, Any]:
    """A million instances of the same load, half of them spot; not all find room."""
    generator = np.random.default_rng(1)
    starts = np.sort(generator.uniform(0.0, INSTANCES * 27.3, INSTANCES))
    stops = starts + generator.lognormal(6.0, 1.5, INSTANCES)
    spot = generator.random(INSTANCES) < 0.5
    number = np.arange(INSTANCES)
    times, until_s = np.concatenate((starts, stops)), float(starts[-1]) + 1.0
    kinds = np.concatenate((np.where(spot, START_SPOT, START_ON_DEMAND), np.full(INSTANCES, STOP)))
    order = np.lexsort((kinds, times))
    order = order[times[order] < until_s]
    log = EventLog(
        times[order],
        kinds[order].astype(np.int8),
        np.concatenate((number, number))[order],
        np.ones(len(order), np.int64),
    )
    fed_s, total_s, samples = best_s(SamplerSpec(NODES, 1), log, until_s)
    began = time.thread_time()
    table = QuantileTable.from_samples([samples], NODES, until_s)
    for slots in range(33):
        table.estimate(1, slots, HOUR_S)
    asked = time.thread_time()
    data = samples.to_bytes()
    return {
        "what": "a million instances, 8 x 4",
        "events": len(log),
        "intervals": len(samples),
        "million_instances_ms": round(fed_s * 1e3, 1),
        "with_samples_ms": round(total_s * 1e3, 1),
        "ns_an_event": round(fed_s / len(log) * 1e9, 1),
        "all_cells_ms": round((asked - began) * 1e3),
        "bytes_an_interval": round(len(data) / len(samples), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--births", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    lines = [side_by_side(seed, arguments.births) for seed in range(1, arguments.seeds + 1)]
    lines += [side_by_side(1, arguments.births, always_youngest=True), million()]
    for line in lines:
        if arguments.json:
            sys.stdout.write(json.dumps(line) + "\n")
            continue
        for name, value in line.items():
            goal = f"  (goal {GOALS[name]})" if name in GOALS else ""
            sys.stdout.write(f"{value}\n" if name == "what" else f"  {name:24} {value:>12,}{goal}\n")


if __name__ == "__main__":
    main()
