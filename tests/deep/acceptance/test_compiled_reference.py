"""The compiled reference, which stands in for the plain replay where that takes hours, equals it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.reference import youngest_first
from tests.unit.cloudsim.prediction.clouds import DAY_S, random_log, random_nodes
from tests.unit.cloudsim.prediction.compiled_reference import CompiledReference


@given(st.integers(0, 2**32 - 1), st.integers(1, 120))
def test_equals_the_plain_replay(seed: int, instances: int):
    generator = np.random.default_rng(seed)
    nodes = random_nodes(generator)
    log = random_log(generator, nodes, instances)
    reference = CompiledReference(nodes, log)
    births = np.concatenate((generator.uniform(0, DAY_S, 5), log.time_s[:: max(len(log) // 5, 1)]))
    for birth_s in births.tolist():
        cores = int(generator.integers(1, max(nodes) + 2))
        until_s = float(generator.uniform(birth_s, DAY_S))
        assert reference.replay(until_s, cores, birth_s) == youngest_first.replay(
            nodes, log, until_s, cores, birth_s
        )
