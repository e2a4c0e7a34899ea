"""Headroom is in the history that tables are made of: where a cloud keeps some, its promises hold too."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.promise.pairs import TRACES, needs
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.binomial import clopper_pearson
from cloudsim.traces.formats import read

SLA, NODES, BLOCKS = 0.05, 6, 2


@pytest.mark.parametrize("retry_s", [None, 60.0], ids=["ask the owner", "call the cloud"])
@pytest.mark.parametrize("pair", ["A-B", "B-A"])
def test_the_promise_is_kept(data_dir: Path, pair: str, retry_s: float | None) -> None:
    own, spot = (read(data_dir / name)[0] for name in needs(pair))
    cores = TRACES[pair[0]][1]
    spec = CloudSpec(pair[0], (cores,) * NODES, headroom=(cores // 2,) * BLOCKS)
    member = FederatedCloud(spec, f"{NODES}x{cores}", own, retry_s=retry_s)
    workload = Workload(pair[2], spot, 86_400.0, SLA, (pair[0],))
    guests = replay(Federation((member,), (workload,)), seed=0, births=2_000)["origins"][pair[2]]
    assert guests["admitted"] > 500
    assert clopper_pearson(guests["evicted"], guests["admitted"])[0] <= SLA
