"""Where an extension makes an instance the newest, the kernel's samples are those of the scheduler itself;
and owners that crashed, with or without a snapshot, go on in the same order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.admission.pools import Pools
from cloudsim.history.event_log import RENEWAL, START_SPOT, STOP, EventLog
from cloudsim.prediction.samplers.line_up import LineUpSampler
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import EVICTIONS, FIFO, LIFO_RECENCY, LineUp
from tests.property.test_snapshots import FromSnapshots
from tests.support.reference import line_up
from tests.support.reference.youngest_first import ReferenceSample
from tests.unit.cloudsim.prediction.clouds import DAY_S, part, random_details, random_log, random_nodes
from tests.unit.workers.owners import FOREVER_S, harmless_table, reserve, spec
from tests.unit.workers.test_owner_machine import CARE, COMMANDS, CROWDS, play, steps_of

RENEWING = [FIFO, LIFO_RECENCY]
CLOUDS = 40


def renewed(generator: np.random.Generator, log: EventLog, share: float) -> EventLog:
    """The log with renewals of some of its spot instances, at times when nothing else happens."""
    rows = [
        (time, order, int(kind), int(number), int(cores))
        for order, (time, kind, number, cores) in enumerate(
            zip(log.time_s.tolist(), log.kind, log.instance, log.cores, strict=True)
        )
    ]
    stops = {number: time for time, _, kind, number, _ in rows if kind == STOP}
    for time, _, kind, number, cores in list(rows):
        for _ in range(int(generator.integers(0, 3))):
            until_s = stops.get(number, DAY_S)
            if kind == START_SPOT and until_s > time and generator.random() < share:
                rows.append((float(generator.uniform(time, until_s)), -1, RENEWAL, number, cores))
    rows.sort()
    return EventLog(
        np.array([row[0] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.int8),
        np.array([row[3] for row in rows], np.int64),
        np.array([row[4] for row in rows], np.int64),
    )


@pytest.mark.parametrize("lineup", RENEWING, ids=lambda one: one.name)
def test_samples_are_those_of_the_scheduler_itself(lineup: LineUp) -> None:
    evicted, otherwise = 0, 0
    for seed in range(CLOUDS):
        generator = np.random.default_rng([seed, 17])
        nodes = random_nodes(generator)
        plain = random_log(generator, nodes, int(generator.integers(10, 90)))
        log = renewed(generator, plain, float(generator.uniform(0.3, 1.0)))
        details, log = random_details(
            generator,
            len(nodes),
            log,
            resources=int(generator.integers(0, 2)),
            labels=seed % 3 == 0,
            groups=False,
        )
        cores = int(generator.integers(1, max(nodes) + 1))
        sampler = SamplerSpec(nodes, seed, births=8, details=details, lineup=lineup.name)
        one = LineUpSampler(sampler, cores)
        for until_s in (DAY_S / 3, float(generator.uniform(DAY_S / 3, DAY_S)), DAY_S):
            one.feed(part(log, one.until_s, until_s), until_s)
        found = one.samples()
        for row, birth_s in enumerate(found.birth_s.tolist()):
            sample = ReferenceSample(
                int(found.free_slots[row]), float(found.duration_s[row]), bool(found.evicted[row])
            )
            assert sample == line_up.replay(sampler, log, DAY_S, cores, birth_s), (seed, row)
        evicted += int(found.evicted.sum())
        without = LineUpSampler(sampler, cores)
        assert log.details is not None
        kept = np.flatnonzero(log.kind != RENEWAL)
        without.feed(_rows(log, kept), DAY_S)
        otherwise += without.samples() != found
    assert evicted > 20
    assert otherwise > 0  # renewals matter


def _rows(log: EventLog, kept: Any) -> EventLog:
    of = log.details
    assert of is not None
    details = type(of)(
        of.resources, of.label_sets, of.amounts[kept], of.sla[kept], of.labels[kept], of.group[kept],
        of.spread[kept],
    )  # fmt: skip
    return EventLog(
        log.time_s[kept], log.kind[kept], log.instance[kept], log.cores[kept], log.end_s[kept], details
    )


@settings(max_examples=30)
@given(
    crowd=CROWDS,
    steps=steps_of(COMMANDS, CARE),
    trace_time=st.booleans(),
    promised=st.booleans(),
    eviction=st.sampled_from(["fifo", "lifo-recency", "lifo-pools"]),
    grace_s=st.sampled_from([0.0, 2.0]),
)
def test_owners_that_crash_go_on_in_the_same_order(
    crowd: list[int], steps: list[Any], trace_time: bool, promised: bool, eviction: str, grace_s: float
) -> None:
    told = spec((4, 3), grace_s, trace_time=trace_time, renewal_s=2.0)
    told = replace(told, cloud=replace(told.cloud, lineup=EVICTIONS[eviction], pools=2))
    harmless = list(harmless_table((4, 3)).samples.values())
    of_pools = [replace(harmless[0], amounts=amounts) for _, amounts in Pools.cut(7, 2).flavours]
    live = FromSnapshots(told, QuantileTable.from_samples([*harmless, *of_pools], (4, 3), FOREVER_S))
    live.take(live.owner.open(0.0, "2026-01-01T00:00:00+00:00"))
    for number, cores in enumerate(crowd):
        live.tell(reserve(f"crowd-{number}.1", cores, 30.0, 0.5 if promised else None))
    play(live, [(0.0, "crash"), *steps], trace_time, promised)
