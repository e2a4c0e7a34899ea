"""Any history, boundaries, split, horizon and way of searching nodes: the kernel's samples equal those of the
plain replay.
"""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP
from cloudsim.prediction import history_chunks
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Samples
from tests.support.reference import youngest_first
from tests.unit.cloudsim.prediction.clouds import from_rows, part

HOUR_S = 3600.0
UNTIL_S = 24 * HOUR_S

hours = st.integers(0, 23).map(lambda hour: hour * HOUR_S)
instances = st.lists(
    st.tuples(hours, st.integers(0, 30), st.sampled_from([START_ON_DEMAND, START_SPOT]), st.integers(1, 7)),
    max_size=25,
)


@given(
    instances,
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.integers(1, 7),
    st.lists(st.one_of(hours, st.floats(0, UNTIL_S)), max_size=3),
    st.sampled_from([1, 3, 5]),
    st.integers(0, 2**64 - 1),
    st.one_of(st.just(np.inf), hours.filter(bool), st.floats(1.0, UNTIL_S)),
    st.sampled_from([0, 64]),
)
def test_samples_are_those_of_the_plain_replay(
    started, nodes, cores, bounds, shares, seed, horizon_s, one_by_one
):
    events = []
    for number, (start, length, kind, size) in enumerate(sorted(started, key=lambda one: (one[0], one[2]))):
        stop = start + length * HOUR_S
        events.append((start, 1 if kind == START_ON_DEMAND else 2, number, kind, size))
        events.append((stop, 3 if stop == start else 0, number, STOP, size))
    log = from_rows([event for event in sorted(events) if event[0] < UNTIL_S])
    spec = SamplerSpec(tuple(nodes), seed, births=6, horizon_s=horizon_s)
    parts = []
    for share in range(shares):
        with patch.object(history_chunks, "NODES_SEARCHED_ONE_BY_ONE", one_by_one):
            one = ReplaySampler(spec, cores, share, shares)
        for until_s in (*sorted(bounds), UNTIL_S):
            one.feed(part(log, one.until_s, until_s), until_s)
        parts.append(one.samples())
    merged = Samples.merge(parts)
    for row in range(len(merged)):
        reference = youngest_first.replay(nodes, log, UNTIL_S, cores, float(merged.birth_s[row]))
        assert reference is not None
        cut = youngest_first.ReferenceSample(
            reference.free_slots,
            min(reference.duration_s, horizon_s),
            reference.evicted and reference.duration_s < horizon_s,
        )
        assert cut == youngest_first.ReferenceSample(
            int(merged.free_slots[row]), float(merged.duration_s[row]), bool(merged.evicted[row])
        )
    if cores <= max(nodes) and not started:
        assert len(merged) >= 6
    assert np.all(np.diff(merged.number) > 0)
    assert Samples.from_bytes(merged.to_bytes()) == merged
