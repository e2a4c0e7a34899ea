"""The kernel against its plain reference on recorded histories, and what the whole of one takes."""

from pathlib import Path

import numpy as np
import pytest

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from tests.support.reference import youngest_first
from tests.unit.cloudsim.prediction.clouds import DAY_S, from_rows, part


def recorded(path: Path, kind: int, from_s: float = 0.0) -> list[tuple[float, float, int, int]]:
    """start, stop, kind, cores of the instances of a trace, in file order."""
    instances: dict[str, list[float]] = {}
    for line in path.read_text().splitlines():
        word, time, name, *rest = line.split()
        if word == "START":
            instances[name] = [float(time) + from_s, np.inf, float(rest[1])]
        elif word == "STOP":
            instances[name][1] = float(time) + from_s
    return [(start, stop, kind, int(cores)) for start, stop, cores in instances.values()]


def history(instances: list[tuple[float, float, int, int]], until_s: float) -> EventLog:
    instances = sorted(instances, key=lambda one: (one[0], one[2]))
    events = []
    for number, (start, stop, kind, cores) in enumerate(instances):
        events.append((start, 1 if kind == START_ON_DEMAND else 2, number, kind, cores))
        events.append((stop, 3 if stop == start else 0, number, STOP, cores))
    return from_rows([event for event in sorted(events) if event[0] < until_s])


@pytest.mark.parametrize(
    ("on_demand", "spot", "nodes", "cores", "days"),
    [
        ("DS3", "DS2", (8,) * 5, 2, 60),
        ("DS5", "DS6", (32,) * 12, 4, 8),
        ("DS5", "DS6", (32,) * 12, 16, 8),
    ],
)
def test_equals_its_reference(
    data_dir: Path, on_demand: str, spot: str, nodes: tuple[int, ...], cores: int, days: int
):
    """On fewer nodes than were recorded, so that there are evictions. Files disagree on the papers' clouds'
    names.
    """
    directory, until_s = data_dir / "eucalyptus", days * DAY_S
    log = history(
        recorded(directory / f"{on_demand}-trace.txt", START_ON_DEMAND)
        + recorded(directory / f"{spot}-trace.txt", START_SPOT, DAY_S),
        until_s,
    )
    one = ReplaySampler(SamplerSpec(nodes, seed=1, births=60), cores)
    for boundary_s in (DAY_S, until_s / 2, until_s):
        one.feed(part(log, one.until_s, boundary_s), boundary_s)
    result = one.samples()
    for row in range(len(result)):
        reference = youngest_first.replay(nodes, log, until_s, cores, float(result.birth_s[row]))
        assert reference == youngest_first.ReferenceSample(
            int(result.free_slots[row]), float(result.duration_s[row]), bool(result.evicted[row])
        ), f"sample {result.number[row]}"
    assert len(result) >= 60
    assert np.count_nonzero(result.evicted) > 10
