"""A cloud's own load takes the amounts of the flavour with as many cores."""

from dataclasses import replace

import numpy as np
import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation
from cloudsim.federation.replay import replay
from cloudsim.model.changes import Started, TurnedAway
from cloudsim.model.nodes import NodeGroup, nodes_of
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind
from cloudsim.traces.trace import Trace

#: Four instances at once; 1 core with 3000 MB, 2 cores with nothing else.
LOAD = Trace.checked("own", list("abcd"), np.arange(4.0), np.full(4, 100.0), [1, 1, 1, 2])


def spec(memory_mb: int) -> CloudSpec:
    cores, details = nodes_of([NodeGroup(1, 8, (("memory_mb", memory_mb),))])
    return CloudSpec("A", cores, replace(details, flavours=((1, (("memory_mb", 3000),)),)))


def test_it_is_turned_away_when_its_memory_is_used_up() -> None:
    cloud = Cloud(spec(6000), LOAD)
    changes = cloud.advance(50.0)
    started = [change.instance for change in changes if isinstance(change, Started)]
    assert [(one.cores, one.amounts) for one in started] == [
        (1, (("memory_mb", 3000),)),
        (1, (("memory_mb", 3000),)),
        (2, ()),
    ]
    (turned_away,) = [change for change in changes if isinstance(change, TurnedAway)]
    assert turned_away.refusal.reason is RefusalReason.NO_CAPACITY
    assert turned_away.refusal.removed == (("room", 1),)
    assert turned_away.request.kind is Kind.ON_DEMAND
    cloud.inventory.validate()


@pytest.mark.parametrize(("memory_mb", "admitted"), [(6000, 3), (9000, 4)])
def test_in_a_replay_too(memory_mb: int, admitted: int) -> None:
    whole = Federation((FederatedCloud(spec(memory_mb), "1x8", LOAD),), ())
    counted = replay(whole, seed=1, births=10)["clouds"]["A"]["on_demand"]
    assert counted == {"requests": 4, "admitted": admitted}


def test_what_overflows_takes_them_along() -> None:
    """There is a core for it elsewhere, but not the memory."""
    home = FederatedCloud(spec(6000), "1x8", LOAD, overflow=True)
    other = FederatedCloud(CloudSpec("B", (8,)), "1x8", LOAD.head(1))
    counted = replay(Federation((home, other), ()), seed=1, births=10)["overflow"]["A"]
    assert (counted["requests"], counted["admitted"], counted["refusals"]) == (1, 0, {"too_large": 1})
