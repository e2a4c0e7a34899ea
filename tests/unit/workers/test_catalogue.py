"""An owner of a real cloud promises what its agent says that instances may be."""

from __future__ import annotations

from typing import Any, cast

import pytest
import redis

from broker.contract import EventKind, RefusalView, Reserve, write_message
from broker.contract.instances import InstanceCatalogue
from broker.contract.launch import Launch
from broker.signing.signer import MessageSigner
from broker.storage.keys import RedisKeys
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.flavours import CloudFlavour
from cloudsim.model.nodes import NodeGroup, nodes_of
from cloudsim.model.refusals import RefusalReason
from tests.unit.workers.owners import Live, ask, check_journal, confirm, lease_state, reserve
from workers.owner.catalogue import CatalogueReader
from workers.owner.state import OwnerSpec

CATALOGUE = InstanceCatalogue(
    cloud="A",
    flavours=(
        CloudFlavour("m1.small", 1, (("memory_mb", 2000),)),
        CloudFlavour("m1.large", 4, (("memory_mb", 8000),)),
        CloudFlavour("g1.large", 4, (("gpus", 1), ("memory_mb", 16000)), frozenset({("zone", "north")})),
    ),
)


#: They would have room for all of it.
NODES = NodeGroup(2, 8, (("gpus", 4), ("memory_mb", 256_000)), frozenset({("zone", "north")}))


def real(catalogue: InstanceCatalogue | None = CATALOGUE, nodes: NodeGroup = NODES) -> Live:
    cores, details = nodes_of([nodes])
    return Live(OwnerSpec(CloudSpec("A", cores, details), catalogue=lambda: catalogue))


def needing(name: str, cores: int, **needs: Any) -> Reserve:
    return reserve(name, cores).model_copy(update=needs)


def test_what_no_flavour_has_is_refused_before_it_is_promised() -> None:
    live = real()
    refusals = (
        (needing("a.1", 1, resources={"gpus": 1, "memory_mb": 64000}), "lacks gpus=1, memory_mb=64000"),
        (
            needing("b.1", 4, resources={"memory_mb": 64000}),
            "4 cores has all of this: m1.large lacks memory_mb=64000",
        ),
        (needing("c.1", 1, labels={"zone": "north"}), "m1.small lacks zone=north"),
        (needing("d.1", 3), "no instance of 3 cores here, but of 1, 4"),
    )
    for number, (command, why) in enumerate(refusals, 1):
        refused = live.tell(command)
        assert isinstance(refused, RefusalView)
        assert refused.reason is RefusalReason.NO_SUCH_FLAVOUR
        assert why in (refused.detail or "")
        assert live.kinds() == [EventKind.DECLINED] * number
    assert live.owner.cloud.inventory.free.tolist() == [8, 8]
    check_journal(live.events)


def test_what_a_flavour_has_is_promised() -> None:
    live = real()
    needs = {"resources": {"gpus": 1, "memory_mb": 16000}, "labels": {"zone": "north"}}
    assert lease_state(live.tell(needing("a.1", 4, **needs))) == "reserved"
    assert lease_state(live.tell(confirm("a.1"))) == "running"
    assert lease_state(live.tell(needing("b.1", 1, resources={"memory_mb": 2000}))) == "reserved"


def test_a_lease_takes_all_that_its_flavour_has_of_what_nodes_have() -> None:
    live = real()
    for name, cores in (("a.1", 4), ("b.1", 1)):
        assert lease_state(live.tell(needing(name, cores))) == "reserved"
        live.tell(confirm(name))
    assert live.tell(needing("c.1", 4, resources={"gpus": 1})) is not None
    taken = {one.id: one.amounts for one in live.owner.cloud.inventory}
    assert taken == {
        "a.1": (("memory_mb", 8000),),
        "b.1": (("memory_mb", 2000),),
        "c.1": (("gpus", 1), ("memory_mb", 16000)),
    }
    # So memory runs out before cores, and tables are made for what instances really take.
    named = live.owner.name_resources(needing("d.1", 4))
    assert isinstance(named, Reserve)
    assert named.resources == {"memory_mb": 8000}
    full = real(CATALOGUE.model_copy(update={"flavours": (CloudFlavour("x", 1, (("memory_mb", 100_000),)),)}))
    for number in range(4):
        assert lease_state(full.tell(needing(f"r{number}.1", 1))) == "reserved"
    refused = full.tell(needing("r5.1", 1))
    assert isinstance(refused, RefusalView)
    assert refused.reason is RefusalReason.NO_CAPACITY
    check_journal(full.events)


def test_only_sizes_that_there_are_are_offered_instead() -> None:
    refused = real().tell(ask(6).model_copy(update={"other_sizes": True}))
    assert isinstance(refused, RefusalView)
    assert (refused.reason, refused.counter_offers.cores) == (RefusalReason.NO_SUCH_FLAVOUR, 4)
    assert [offer.cores for offer in refused.other_sizes if offer.admitted] == [1, 4]


def test_before_the_agent_has_told_there_are_cores_alone() -> None:
    live = real(None, NodeGroup(2, 8))
    assert lease_state(live.tell(needing("a.1", 3))) == "reserved"
    launched = needing("b.1", 1, launch=Launch(image="debian-12"))
    for cloud, command in ((live, launched), (real(None), needing("c.1", 1))):
        refused = cloud.tell(command)
        assert isinstance(refused, RefusalView)
        assert refused.reason is RefusalReason.NO_SUCH_FLAVOUR
        assert "has not described its flavours yet" in (refused.detail or "")


class Stored:
    """What Redis has under one key, or an error that reading it meets."""

    def __init__(self, fields: dict[bytes, bytes] | Exception):
        self.fields = fields

    def hgetall(self, key: str) -> dict[bytes, bytes]:
        assert key == "spotfed:catalogue:A"
        if isinstance(self.fields, Exception):
            raise self.fields
        return self.fields


@pytest.mark.parametrize("then", [redis.ConnectionError("away"), {b"c": b"{}"}])
def test_a_catalogue_that_cannot_be_read_is_the_last_one(then: Any) -> None:
    now_s, stored = [0.0], Stored({})
    reader = CatalogueReader(cast("redis.Redis", stored), RedisKeys(), "A", MessageSigner(), lambda: now_s[0])
    assert reader() is None
    stored.fields = {b"c": write_message(CATALOGUE).encode()}
    assert reader() is None, "it was read a moment ago"
    now_s[0] = 2.0
    assert reader() == CATALOGUE
    stored.fields, now_s[0] = then, 4.0
    assert reader() == CATALOGUE
