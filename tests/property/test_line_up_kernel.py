"""The kernel's samples are those of the scheduler itself under every line-up."""

from dataclasses import replace

import numpy as np
import pytest

from cloudsim.prediction.samplers.line_up import LineUpSampler
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.scheduling import lineups
from cloudsim.scheduling.eviction import ByKey, Cost, youngest_first
from cloudsim.scheduling.lineups import LINEUPS, LineUp
from cloudsim.scheduling.victims import Cheapest, InOrder
from tests.support.reference import line_up
from tests.support.reference.youngest_first import ReferenceSample
from tests.unit.cloudsim.prediction.clouds import DAY_S, part, random_details, random_log, random_nodes

CLOUDS = 24
#: Line-ups under which the virtual instance may always be the youngest: those that evict by age.
BY_AGE = {lineup.name for lineup in LINEUPS if lineup.victims is LINEUPS[0].victims}


#: Policies that no kernel was written for.
NEW = (
    LineUp("largest-first", InOrder(ByKey(lambda cores, sla: -cores))),
    LineUp("smallest-and-oldest-first", InOrder(ByKey(lambda cores, sla: cores, oldest=True))),
    LineUp("work-and-promises", Cheapest(Cost(core_s=1 / 3600, promise=1.0))),
)
ALL = (*LINEUPS, *NEW)


@pytest.mark.parametrize("number", range(len(ALL)), ids=[lineup.name for lineup in ALL])
def test_samples_are_those_of_the_scheduler_itself(number: int, monkeypatch):
    lineup, evicted, survived = ALL[number].name, 0, 0
    monkeypatch.setitem(lineups._BY_NAME, lineup, ALL[number])
    for seed in range(CLOUDS):
        generator = np.random.default_rng([seed, number])
        nodes = random_nodes(generator)
        log = random_log(generator, nodes, int(generator.integers(10, 120)))
        resources = int(generator.integers(0, 3))
        details, log = random_details(
            generator, len(nodes), log, resources=resources, labels=seed % 3 == 0, groups=seed % 4 == 0
        )
        needs = zip(details.resources[1:], generator.integers(0, 4, resources).tolist(), strict=True)
        amounts = tuple((name, amount) for name, amount in needs if amount)
        cores = int(generator.integers(1, max(nodes) + 1))
        spec = SamplerSpec(
            nodes, seed, births=8, details=details, lineup=lineup, sla=float(generator.choice([0.01, 0.05])),
            always_youngest=lineup in BY_AGE and seed % 5 == 0,
        )  # fmt: skip
        one = LineUpSampler(spec, cores, amounts=amounts)
        for until_s in (DAY_S / 3, float(generator.uniform(DAY_S / 3, DAY_S)), DAY_S):
            one.feed(part(log, one.until_s, until_s), until_s)
        found = one.samples()
        for row, birth_s in enumerate(found.birth_s.tolist()):
            sample = ReferenceSample(
                int(found.free_slots[row]), float(found.duration_s[row]), bool(found.evicted[row])
            )
            assert sample == line_up.replay(spec, log, DAY_S, cores, birth_s, amounts), (seed, row)
        evicted += int(found.evicted.sum())
        survived += int((~found.evicted).sum())
    assert min(evicted, survived) > CLOUDS / 2


def test_line_ups_that_choose_otherwise_are_refused():
    from cloudsim.model.errors import SpecError
    from cloudsim.prediction.kernels.line_up_replays import rules_of

    for other in (
        replace(LINEUPS[0], draws=True),
        replace(LINEUPS[0], filters=()),
        replace(LINEUPS[0], victims=lambda *_: None),
        replace(LINEUPS[0], victims=InOrder(youngest_first)),
        replace(LINEUPS[0], weighers=LINEUPS[-1].weighers * 2),
    ):
        with pytest.raises(SpecError, match="no table can be made for the line-up"):
            rules_of(other)
