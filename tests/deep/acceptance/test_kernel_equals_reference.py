"""At least 10,000 samples of the recorded clouds, each equal to the plain replay.

The plain replay in Python takes up to half a second a sample here, so most are held against its compiled copy
(tests/unit/cloudsim/prediction/compiled_reference.py), which a property test holds against it, and some
against itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloudsim.history.event_log import EventLog
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Samples
from tests.bench.bench_prediction import DAY_S, admitted, recorded
from tests.support.reference import youngest_first
from tests.support.reference.youngest_first import ReferenceSample
from tests.unit.cloudsim.prediction.compiled_reference import CompiledReference

SAMPLES = 4000  # of each cloud at least
PLAIN = 5  # of these through the plain reference itself

CLOUDS = [
    ("A-B", "DS2", "DS3", (12,) * 7),
    ("B-A", "DS3", "DS2", (8,) * 7),
    ("C-D", "DS5", "DS6", (32,) * 31),
]


def fed(spec: SamplerSpec, cores: int, log: EventLog, until_s: float) -> Samples:
    """In two feeds, and as three shares."""
    middle = int(np.searchsorted(log.time_s, until_s / 3))
    halves = [
        EventLog(log.time_s[part], log.kind[part], log.instance[part], log.cores[part])
        for part in (slice(middle), slice(middle, None))
    ]
    parts = []
    for share in range(3):
        one = ReplaySampler(spec, cores, share, 3)
        one.feed(halves[0], until_s / 3)
        one.feed(halves[1], until_s)
        parts.append(one.samples())
    return Samples.merge(parts)


@pytest.mark.parametrize(
    ("on_demand", "spot", "nodes"), [row[1:] for row in CLOUDS], ids=[c[0] for c in CLOUDS]
)
def test_samples_of_recorded_clouds(
    data_dir: Path, on_demand: str, spot: str, nodes: tuple[int, ...]
) -> None:
    own = recorded(data_dir / "eucalyptus" / f"{on_demand}-trace.txt")
    until_s = max(stop for _, stop, _ in own if stop < np.inf) + 1.0
    log = admitted(nodes, own, recorded(data_dir / "eucalyptus" / f"{spot}-trace.txt", DAY_S), until_s)
    sizes = np.unique(log.cores).tolist()
    compared = evicted = 0
    reference = CompiledReference(nodes, log)
    for cores in sizes:
        spec = SamplerSpec(nodes, seed=11, births=-(-SAMPLES // len(sizes)))
        whole = fed(spec, cores, log, until_s)
        day = fed(SamplerSpec(nodes, 11, spec.births, horizon_s=DAY_S), cores, log, until_s)
        for row in range(len(whole)):
            birth_s = float(whole.birth_s[row])
            expected = reference.replay(until_s, cores, birth_s)
            assert expected == sample(whole, row), f"size {cores}, born at {birth_s} s"
            short = expected.evicted and expected.duration_s < DAY_S
            cut = ReferenceSample(expected.free_slots, min(expected.duration_s, DAY_S), short)
            assert cut == sample(day, row), f"size {cores}, born at {birth_s} s"
        for row in np.linspace(0, len(whole) - 1, PLAIN).astype(int).tolist() if cores == sizes[0] else ():
            assert youngest_first.replay(nodes, log, until_s, cores, float(whole.birth_s[row])) == sample(
                whole, row
            )
        compared += len(whole)
        evicted += int(np.count_nonzero(whole.evicted))
    assert compared >= SAMPLES
    assert evicted >= SAMPLES / 100


def sample(samples: Samples, row: int) -> ReferenceSample:
    return ReferenceSample(
        int(samples.free_slots[row]), float(samples.duration_s[row]), bool(samples.evicted[row])
    )
