"""A history of more, larger or other nodes is replayed on those of now: what finds no room is turned away."""

from __future__ import annotations

import random

import pytest

from cloudsim.history.event_log import EventLog
from cloudsim.history.history import History
from cloudsim.model.instances import Instance
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.requests import Kind
from cloudsim.prediction.predictor import Sampler, SamplerSpec, replay_sampler
from cloudsim.prediction.samples import Samples
from tests.support.reference.youngest_first import replay

UNTIL_S = 1500.0


def history(sizes: tuple[int, ...], resources: tuple[str, ...] | None = None) -> EventLog:
    """A busy cloud of 64 cores with a label and a resource."""
    rng, recorded, now_s = random.Random(20), History(resources), 0.0
    for number in range(150):
        now_s += rng.expovariate(1 / 8)
        own = rng.random() < 0.7
        instance = Instance(
            *(f"i{number}", Kind.ON_DEMAND if own else Kind.SPOT, rng.choice(sizes), 0, now_s),
            *(now_s + rng.expovariate(1 / 200), number),
            sla=None if own else 0.05,
            amounts=(("gpu", 3),) if rng.random() < 0.3 else (),
            labels=frozenset({("zone", "gone")}) if rng.random() < 0.3 else frozenset(),
        )
        recorded.record_start(instance)
    return recorded.cut(UNTIL_S)


def sampled(sampler: Sampler, events: EventLog) -> Samples:
    sampler.feed(events, UNTIL_S)
    samples = sampler.samples()
    assert len(samples.number)
    return samples


@pytest.mark.parametrize("nodes", [(4,), (2, 2), (4, 2)])
def test_replays_are_those_of_the_reference(nodes: tuple[int, ...]) -> None:
    events = history((1, 2, 8))
    sampler = replay_sampler(SamplerSpec(nodes, seed=1, births=30), 2)
    sampler.feed(events, UNTIL_S)
    samples = sampler.samples()
    rows = zip(samples.birth_s.tolist(), samples.free_slots.tolist(), samples.evicted.tolist(), strict=True)
    for birth_s, free_slots, evicted in rows:
        expected = replay(nodes, events, UNTIL_S, 2, birth_s)
        assert expected is not None
        assert (expected.free_slots, expected.evicted) == (free_slots, evicted)


@pytest.mark.parametrize("size", [1, 2, 8])
def test_uniform_sizes_that_no_longer_fit_stop_no_table(size: int) -> None:
    sampled(Sampler(SamplerSpec((1, 4), seed=1, births=30), 1), history((size,)))


def test_labels_and_resources_that_are_gone_stop_no_table() -> None:
    for details, resources in (
        (NodeDetails((("gpu", (1, 0)),)), ("gpu",)),
        (NodeDetails((), (frozenset({("zone", "a")}), frozenset())), ()),
    ):
        spec = SamplerSpec((2, 4), seed=1, births=20, details=details, lineup="consolidation")
        sampled(Sampler(spec, 1), history((1, 2, 8), resources))
