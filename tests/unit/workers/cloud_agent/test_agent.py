"""The cloud agent between a real owner and a cloud in memory, with a clock of the test's own."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import redis

from broker.contract import Answer, Command, EventKind, Lease, LeaseState
from broker.contract.instances import InstanceCatalogue, InstanceRecord
from broker.contract.launch import LaunchRules
from cloudsim.federation.direct_cloud import DirectCloud
from cloudsim.model.changes import End, Ended
from cloudsim.model.flavours import CloudFlavour
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from tests.unit.workers.cloud_agent.in_memory import InMemoryCloud
from tests.unit.workers.owners import Live, cancel, confirm, load, reserve, spec
from workers.cloud_agent import agent as agent_module
from workers.cloud_agent import reconcile
from workers.cloud_agent.agent import CloudAgent
from workers.cloud_agent.background_calls import BackgroundCalls
from workers.cloud_agent.drivers.base import CloudInstance, DesiredInstance, InstanceState, NoRoomError
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.overflow import CLOUD_CALLS, OWNER_CALLS
from workers.cloud_agent.owner_client import OwnerClient
from workers.cloud_agent.sales import SOLD

KINDS = (
    *("list", "flavours", "start", "end", "notice", "gone", "leaving", "freed", "arrive", "depart"),
    *("headroom", SOLD, *CLOUD_CALLS, *OWNER_CALLS),
)


class AtOnce(Executor):
    """Calls on the caller's own thread."""

    def submit(self, call: Callable[..., Any], /, *told: Any, **named: Any) -> Future[Any]:
        call(*told, **named)
        return Future()


class Shown(CloudLeases):
    """What a real owner shows, and records that outlive an agent. away: as if Redis were."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.kept: dict[str, InstanceRecord] = {}
        self.silence: str | None = "since yesterday"

    def read_leases(self, known: Collection[str]) -> Mapping[str, Lease | None]:
        if self.scene.redis_away:
            raise redis.ConnectionError("away")
        leases = {e.lease.id: e.lease for e in self.scene.live.events if e.lease and e.lease.kind == "spot"}
        return {**dict.fromkeys(known), **leases}

    def wall_time(self, cloud_s: float) -> float:
        return 1e9 + cloud_s

    def read_records(self) -> dict[str, InstanceRecord]:
        return dict(self.kept)

    def note_silence(self, words: str | None) -> None:
        self.silence = words

    def write_record(self, name: str, record: InstanceRecord) -> None:
        self.kept[name] = record

    def drop_record(self, name: str) -> None:
        self.kept.pop(name, None)

    def write_catalogue(
        self, flavours: Sequence[CloudFlavour], rules: LaunchRules, faults: Sequence[str] = ()
    ) -> None:
        assert list(faults) == ["image: there is none"]
        assert rules == self.scene.cloud.rules
        self.flavours = list(flavours)


class Line(OwnerClient):
    """To that owner. silent: it does not answer."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.reply_to = "me"
        self.asked: list[Command] = []

    def ask(self, commands: Sequence[Command], deadline_s: float) -> dict[str, Answer]:
        if self.scene.owner_silent:
            return {}
        self.asked += commands
        return {one.id: self.scene.live.tell(one, self.scene.now_s) for one in commands}


class Scene:
    """A cloud of 8 cores, its owner and its agent."""

    def __init__(
        self,
        grace_s: float = 0.0,
        hosts: tuple[str, ...] = (),
        amounts: tuple[tuple[str, int], ...] = (),
        headroom: tuple[int, ...] = (),
        *,
        overflow: bool = False,
    ):
        self.overflow, self.sells = overflow, False
        labels = tuple(frozenset({("host", host), ("zone", host[-1])}) for host in hosts)
        plain = spec((4, 4), grace_s)
        self.details = NodeDetails(tuple((name, (amount,) * 2) for name, amount in amounts), labels)
        self.headroom = headroom
        cloud = replace(plain.cloud, details=self.details, headroom=headroom)
        described = InstanceCatalogue(
            cloud="A", flavours=(CloudFlavour("any", 8, amounts, is_divisible=True),)
        )
        catalogue = described if amounts else None
        self.live = Live(replace(plain, cloud=cloud, overflow=overflow, catalogue=lambda: catalogue))
        self.live.owner.cloud.inventory.may_spread = False  # as the owner of a real cloud has it
        self.cloud = InMemoryCloud()
        self.now_s = 100.0
        self.redis_away = self.owner_silent = False
        self.executors: dict[str, Executor] = dict.fromkeys(KINDS, AtOnce())
        self.leases, self.line = Shown(self), Line(self)
        self.begin()

    def begin(self) -> None:
        """A new agent, as after the last one was killed."""

        def calls(wake: Callable[[], None]) -> BackgroundCalls:
            return BackgroundCalls(self.executors, wake)

        sizes = {"small": 1, "large": 4}
        self.agent = CloudAgent(
            "A", self.cloud, self.leases, self.line, calls, sizes.get, 5.0, lambda: self.now_s,
            node_cores=(4, 4), details=self.details, headroom=self.headroom,
            overflow=self.cloud if self.overflow else None, sells_on_demand=self.sells,
        )  # fmt: skip

    def lease(self, name: str = "r.1", cores: int = 1, *, confirmed: bool = True) -> None:
        self.live.tell(reserve(name, cores, 1e6), self.now_s)
        if confirmed:
            self.live.tell(confirm(name), self.now_s)

    def step(self, times: int = 3) -> None:
        """What happens in this moment: looks, and what came of calls."""
        for _ in range(times):
            self.agent.step()

    def later(self, seconds: float) -> None:
        """Time passes, a second and a look at a time."""
        for _ in range(int(seconds)):
            self.now_s += 1.0
            self.agent.step()

    def state(self, name: str = "r.1") -> LeaseState:
        lease = self.leases.read_leases([name])[name]
        assert lease is not None
        return lease.state

    def cause(self, name: str = "r.1") -> str | None:
        lease = self.leases.read_leases([name])[name]
        assert lease is not None
        return lease.cause

    def silence(self) -> str | None:
        """What is told of a cloud that does not answer."""
        return self.leases.silence

    def own_users(self) -> list[str]:
        """What the owner counts for them."""
        return [one.id for one in self.live.owner.cloud.inventory if one.kind == "on_demand"]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_flavours_of_the_cloud_are_told_again_and_again(scene: Scene) -> None:
    scene.cloud.away = True
    scene.step()
    scene.cloud.away = False
    scene.later(19)
    assert not hasattr(scene.leases, "flavours")
    scene.later(10)
    assert scene.leases.flavours == [CloudFlavour("any", 1000, is_divisible=True)]
    scene.cloud.room = 7
    scene.later(300)
    assert scene.leases.flavours == [CloudFlavour("any", 7, is_divisible=True)]


def test_an_instance_when_the_lease_runs_and_its_end_when_that_ends(scene: Scene) -> None:
    scene.lease(confirmed=False)
    scene.step()
    assert scene.cloud.instances == {}
    scene.live.tell(confirm("r.1"), scene.now_s)
    scene.later(10)
    (instance,) = scene.cloud.of("r.1")
    record = scene.leases.kept["r.1"]
    assert (record.state, record.own_id, record.addresses) == ("running", instance.id, instance.addresses)
    scene.live.tell(cancel("r.1"), scene.now_s)
    scene.step(1)
    assert scene.cloud.of("r.1") == []
    scene.later(20)
    assert (scene.cloud.count("start", "r.1"), scene.cloud.count("end", "r.1")) == (1, 1)
    assert scene.leases.kept == {}
    assert scene.state() is LeaseState.CANCELLED


def test_a_foreign_instance_evicts_and_the_evicted_one_is_ended_at_once(scene: Scene) -> None:
    for name in ("a.1", "b.1"):
        scene.lease(name, 4)
    scene.later(9)
    arrived = scene.cloud.arrive(4, "large")
    scene.later(9)
    assert (scene.state("a.1"), scene.state("b.1")) == (LeaseState.RUNNING, LeaseState.EVICTED)
    assert (len(scene.cloud.of("a.1")), scene.cloud.of("b.1")) == (1, [])
    assert scene.own_users() == [f"A/direct-{arrived}"]
    scene.cloud.forget(arrived)
    scene.later(9)
    assert scene.own_users() == [f"A/direct-{arrived}"], "missing for a moment is not gone"
    scene.later(10)
    assert scene.own_users() == []
    scene.live.owner.validate()


def test_a_killed_agent_doubles_and_loses_nothing(scene: Scene) -> None:
    scene.lease("a.1", 2)
    scene.cloud.arrive(1)
    gone = scene.cloud.arrive(2)
    scene.later(9)
    scene.begin()
    scene.later(9)
    assert scene.cloud.count("start", "a.1") == 1
    assert len(scene.own_users()) == 2
    # While no agent runs, a lease and a foreign instance go, and another lease comes.
    scene.live.tell(cancel("a.1"), scene.now_s)
    scene.cloud.take(gone)
    scene.lease("b.1", 1)
    scene.begin()
    scene.later(9)
    assert (scene.cloud.of("a.1"), len(scene.cloud.of("b.1"))) == ([], 1)
    assert len(scene.own_users()) == 1


def test_killed_between_asking_and_knowing_it_asks_again(scene: Scene) -> None:
    scene.lease()
    scene.cloud.away = True
    scene.step()
    assert scene.leases.kept["r.1"].own_id is None
    scene.cloud.away = False
    scene.begin()
    scene.step()
    assert len(scene.cloud.of("r.1")) == 1


@pytest.mark.parametrize("listed", [True, False])
def test_what_the_cloud_takes_is_evicted_with_its_words(scene: Scene, listed: bool) -> None:
    scene.lease()
    scene.lease("other.1")
    scene.later(9)
    (instance,) = scene.cloud.of("r.1")
    scene.cloud.take(instance.id, "Client.UserInitiatedShutdown")
    if not listed:
        scene.cloud.forget(instance.id)
    scene.later(9 if listed else 25)
    assert scene.state() is LeaseState.EVICTED
    why = "Client.UserInitiatedShutdown" if listed else "the cloud does not list it any more"
    assert scene.cause() == f"taken back: {why}"
    assert scene.state("other.1") is LeaseState.RUNNING
    assert scene.live.kinds().count(EventKind.EVICTED) == 1


def test_an_api_that_fails_or_lists_nothing_ends_no_lease(scene: Scene) -> None:
    scene.lease()
    arrived = scene.cloud.arrive(1)
    scene.later(9)
    scene.cloud.blind = True
    scene.later(reconcile.ALL_MISSING_S - 20)
    scene.cloud.away, scene.cloud.blind = True, False
    scene.later(600)
    assert (scene.state(), scene.own_users()) == (LeaseState.RUNNING, [f"A/direct-{arrived}"])
    scene.cloud.away = False
    scene.later(70)
    assert (scene.state(), len(scene.own_users())) == (LeaseState.RUNNING, 1)
    assert scene.leases.kept["r.1"].state == "running"


def test_redis_or_the_owner_away_ends_no_instance(scene: Scene) -> None:
    scene.lease()
    scene.later(9)
    scene.redis_away = True
    scene.later(120)
    scene.redis_away, scene.owner_silent = False, True
    (instance,) = scene.cloud.of("r.1")
    scene.cloud.take(instance.id)
    scene.cloud.arrive(1)
    scene.later(60)
    assert (scene.state(), scene.own_users()) == (LeaseState.RUNNING, [])
    scene.owner_silent = False
    scene.later(9)
    assert scene.state() is LeaseState.EVICTED
    assert len(scene.own_users()) == 1


def test_the_instance_of_a_lease_that_nobody_knows_is_ended_after_some_time(scene: Scene) -> None:
    scene.cloud._add("forgotten.1", 1, InstanceState.RUNNING)
    foreign = scene.cloud.arrive(1)
    scene.later(reconcile.UNKNOWN_S - 5)
    assert len(scene.cloud.of("forgotten.1")) == 1
    scene.later(15)
    assert scene.cloud.of("forgotten.1") == []
    assert scene.cloud.instances[foreign].state is InstanceState.RUNNING


def test_a_refused_start_fails_the_lease(scene: Scene) -> None:
    scene.cloud.refuses = True
    scene.lease()
    scene.step()
    assert (scene.state(), scene.cause()) == (LeaseState.FAILED, "there is no such image")
    scene.later(30)
    assert scene.cloud.count("start", "r.1") == 1


def test_without_room_the_owner_frees_some_and_the_start_is_tried_again(scene: Scene) -> None:
    scene.cloud.room = 4
    taken = scene.cloud.arrive(3)
    scene.lease(cores=4)
    scene.step(1)
    scene.cloud.room += 3
    scene.later(reconcile.AGAIN_S + 2)
    assert len(scene.cloud.of("r.1")) == 1
    freed = [one.instance for one in scene.line.asked if one.kind == "start_on_demand"]
    assert freed[0].startswith("A/freed-")
    assert scene.own_users() == [f"A/direct-{taken}"], "who took the room is known, and has the block's"
    assert scene.cloud.instances[taken].state is InstanceState.RUNNING


def test_an_instance_that_is_started_again_is_not_missing_because_the_first_one_was(scene: Scene) -> None:
    scene.lease("other.1")
    scene.later(6)
    scene.cloud.starting = True
    scene.lease()
    scene.later(6)
    (first,) = scene.cloud.of("r.1")
    start = scene.cloud.start

    def start_again(wanted: DesiredInstance) -> None:
        if first.id in scene.cloud.instances:  # as OpenStack's driver does
            scene.cloud.forget(first.id)
            raise NoRoomError("No valid host was found.")
        start(wanted)

    scene.cloud.take(first.id, "No valid host was found.")
    scene.cloud.start = start_again  # type: ignore[method-assign]
    scene.cloud.starting = False
    for _ in range(30):
        known = set(scene.cloud.instances)
        scene.cloud.list_instances = lambda known=known: [  # type: ignore[method-assign, misc]
            one for one in scene.cloud.instances.values() if one.id in known
        ]  # a listing shows what has started only a little later
        scene.agent.hear()
        scene.later(1)
    assert scene.state() is LeaseState.RUNNING
    assert len(scene.cloud.of("r.1")) == 1


def test_without_room_for_long_the_lease_ends(scene: Scene) -> None:
    scene.cloud.room = 0
    scene.lease(cores=1)
    scene.later(reconcile.NO_ROOM_S + 15)
    assert scene.state() in (LeaseState.FAILED, LeaseState.EVICTED)
    assert scene.cloud.instances == {}


def test_what_ends_before_it_ever_ran_is_asked_for_once_more_and_fails(scene: Scene) -> None:
    scene.cloud.starting = True
    scene.lease()
    scene.step(2)
    (instance,) = scene.cloud.of("r.1")
    scene.cloud.take(instance.id, "No valid host was found")
    scene.later(25)
    assert (scene.state(), scene.cause()) == (LeaseState.FAILED, "No valid host was found")
    assert scene.cloud.count("start", "r.1") == 2


def test_a_notice_is_passed_on_once(scene: Scene) -> None:
    scene = Scene(grace_s=300.0)
    scene.lease(cores=4)
    scene.later(9)
    for _ in range(2):
        scene.cloud.arrive(4, "large")
    scene.later(20)
    lease = scene.leases.read_leases(["r.1"])["r.1"]
    assert lease is not None
    assert lease.evict_at_s is not None
    assert scene.cloud.notices == {"r.1": 1e9 + lease.evict_at_s}
    assert scene.cloud.count("notice", "r.1") == 1
    assert len(scene.cloud.of("r.1")) == 1


def test_sizes_of_foreign_instances_come_from_the_options_or_are_not_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = mock.Mock()
    monkeypatch.setattr(agent_module, "log", log)
    known, unknown = scene.cloud.arrive(None, "large"), scene.cloud.arrive(None, "x9.huge")
    scene.later(9)
    assert scene.own_users() == [f"A/direct-{known}"]
    counted = scene.live.owner.cloud.inventory.get(f"A/direct-{known}")
    assert counted is not None
    assert counted.cores == 4
    (warning,) = log.warning.call_args_list
    assert "foreign_sizes" in warning.args[0]
    assert warning.kwargs == {"size": "x9.huge", "instance": unknown}


def test_a_foreign_one_without_room_is_counted_when_there_is_some(scene: Scene) -> None:
    first = scene.cloud.arrive(4)
    scene.cloud.arrive(4)
    scene.later(9)
    third = scene.cloud.arrive(2)
    scene.later(40)
    assert len(scene.own_users()) == 2
    assert next(one.tries for one in scene.leases.kept.values() if one.own_id == third) >= 1
    scene.cloud.take(first)
    scene.later(40)
    assert any(third in one for one in scene.own_users())
    scene.cloud.take(third)
    scene.later(9)
    assert len(scene.own_users()) == 1
    assert [one.own_id for one in scene.leases.kept.values()] == ["i-1"]


def test_an_end_that_fails_is_tried_again(scene: Scene) -> None:
    scene.lease()
    scene.later(9)
    scene.cloud.away = True
    scene.live.tell(cancel("r.1"), scene.now_s)
    scene.later(10)
    assert 3 <= scene.cloud.count("end", "r.1") <= 6
    scene.cloud.away = False
    scene.later(4)
    assert scene.cloud.of("r.1") == []


def test_what_the_cloud_lists_after_its_end_is_left_alone(scene: Scene) -> None:
    scene.lease()
    scene.later(9)
    scene.live.tell(cancel("r.1"), scene.now_s)
    scene.later(30)
    assert scene.cloud.count("end", "r.1") == 1
    scene.begin()
    scene.later(30)
    assert scene.cloud.count("end", "r.1") == 1
    assert scene.leases.kept == {}


def test_a_start_that_comes_back_after_the_end_of_its_lease_is_ended_too(scene: Scene) -> None:
    starting: list[Callable[[], None]] = []

    class Slow(AtOnce):
        def submit(self, call: Callable[..., Any], /, *told: Any, **named: Any) -> Future[Any]:
            starting.append(lambda: call(*told, **named))
            return Future()

    scene.executors["start"] = Slow()
    scene.begin()
    scene.lease()
    scene.step()
    scene.live.tell(cancel("r.1"), scene.now_s)
    scene.step()
    assert scene.cloud.count("end", "r.1") == 1, "it may be there already"
    starting.pop()()
    assert len(scene.cloud.of("r.1")) == 1
    scene.step()
    assert scene.cloud.of("r.1") == []


def test_a_notice_of_the_cloud_reaches_the_holder_once_and_the_lease_ends_in_time(scene: Scene) -> None:
    scene.lease()
    scene.lease("other.1")
    scene.later(9)
    (instance,) = scene.cloud.of("r.1")
    leaves_at = time.time() + 120.0
    scene.cloud.instances[instance.id] = replace(instance, ends_at=leaves_at, why="marked-for-termination")
    scene.owner_silent = True
    scene.later(9)
    scene.owner_silent = False
    scene.later(9)
    (noticed,) = (event for event in scene.live.events if event.kind is EventKind.NOTICED)
    assert noticed.lease is not None
    assert noticed.lease.id == "r.1"
    assert noticed.cause == "taken back: marked-for-termination"
    assert noticed.lease.evict_at_s == pytest.approx(noticed.at_s + 120.0, abs=5.0)
    assert scene.cloud.count("notice", "r.1") == 1
    scene.live.crash()
    scene.live.advance(scene.now_s + 200.0)
    assert (scene.state(), scene.cause()) == (LeaseState.EVICTED, "taken back: marked-for-termination")
    assert scene.live.owner.cloud.take_backs.taken == 1
    scene.later(3)
    assert scene.cloud.of("r.1") == []
    assert scene.state("other.1") is LeaseState.RUNNING


def test_an_instance_that_goes_before_its_notice_is_over_is_evicted_then(scene: Scene) -> None:
    scene.lease()
    scene.later(9)
    (instance,) = scene.cloud.of("r.1")
    scene.cloud.instances[instance.id] = replace(instance, ends_at=time.time() + 120.0)
    scene.later(9)
    scene.cloud.take(instance.id)
    scene.later(9)
    assert (scene.state(), scene.cause()) == (LeaseState.EVICTED, "taken back: its cloud gave notice")
    assert scene.live.owner.cloud.take_backs.taken == 1


def test_a_cloud_that_is_silent_for_too_long_is_told(scene: Scene) -> None:
    scene.lease()
    scene.later(9)
    assert scene.silence() is None
    scene.cloud.away = True
    scene.later(40)
    assert scene.silence() is None
    scene.later(80)
    assert (scene.silence() or "").endswith("(the cloud does not answer)")
    assert scene.state() is LeaseState.RUNNING
    scene.begin()
    scene.cloud.away = False
    scene.later(30)
    assert scene.silence() is None


def test_an_instance_that_cannot_be_ended_counts_as_used_until_it_is_gone(scene: Scene) -> None:
    scene.lease("a.1", 4)
    scene.later(9)
    (instance,) = scene.cloud.of("a.1")
    scene.cloud.immortal = True
    scene.live.tell(cancel("a.1"), scene.now_s)
    scene.later(100)
    assert scene.own_users() == []
    scene.later(60)
    assert scene.own_users() == [f"A/direct-{instance.id}"]
    tries = scene.cloud.count("end", "a.1")
    assert tries > 5
    record = scene.leases.kept[f"A/direct-{instance.id}"]
    assert record.why == "cannot be ended: its lease a.1 has ended"
    scene.begin()
    scene.later(60)
    assert scene.own_users() == [f"A/direct-{instance.id}"]
    scene.cloud.immortal = False
    scene.later(30)
    assert scene.cloud.of("a.1") == []
    assert scene.own_users() == []
    scene.live.owner.validate()


# -- own users who were refused ------------------------------------------------------------------------------


def test_an_own_user_who_was_refused_finds_room_as_a_replay_has_it(scene: Scene) -> None:
    for name in ("a.1", "b.1", "c.1"):
        scene.lease(name, 2)
        scene.later(1)
    scene.later(9)
    refused = scene.cloud.refuse(4)
    scene.agent.hear()
    scene.step()
    evicted = {name for name in ("a.1", "b.1", "c.1") if scene.state(name) is LeaseState.EVICTED}
    assert evicted == {"c.1"}
    assert scene.cloud.of("c.1") == []
    assert scene.own_users() == [f"A/freed-{refused}"]
    arrived = scene.cloud.arrive(4)
    scene.later(9)
    assert scene.own_users() == [f"A/direct-{arrived}"], "it takes the room that was freed for it"
    scene.live.owner.validate()
    assert evicted == _evicted_in_a_replay()


def _evicted_in_a_replay() -> set[str]:
    """The same users of the same cloud, whose requests a trace holds."""
    cloud = DirectCloud(spec((4, 4)).cloud, load((110.0, 400.0, 4)), 1e6, retry_s=10.0)
    for second, name in enumerate(("a.1", "b.1", "c.1")):
        cloud.advance(100.0 + second)
        request = Request(name, Kind.SPOT, 2, 1e6)
        assert not isinstance(cloud.admit(request, 100.0 + second), Refusal)
    changes = cloud.advance(200.0)
    assert cloud.delays_s == [10.0]
    return {
        change.instance.id for change in changes if isinstance(change, Ended) and change.how is End.EVICTED
    }


def test_each_refused_request_frees_room_once(scene: Scene) -> None:
    for name in ("a.1", "b.1", "c.1", "d.1"):
        scene.lease(name, 2)
    scene.later(9)
    scene.cloud.immortal = True
    first = scene.cloud.refuse(2)
    scene.later(9)
    scene.begin()  # another agent
    scene.later(9)
    again = scene.cloud.refuse(2)  # the same user, impatient: the cloud is still ending the instance
    scene.later(9)
    scene.cloud.immortal = False
    scene.later(9)
    assert [scene.state(name) for name in ("c.1", "d.1")] == [LeaseState.RUNNING, LeaseState.EVICTED]
    other = scene.cloud.refuse(2, "another")
    scene.later(9)
    assert scene.state("c.1") is LeaseState.EVICTED
    assert scene.own_users() == [f"A/freed-{first}", f"A/freed-{other}"]
    assert f"A/freed-{again}" not in scene.own_users()


def test_who_is_refused_after_the_room_was_there_needs_more(scene: Scene) -> None:
    for name in ("a.1", "b.1", "c.1", "d.1"):
        scene.lease(name, 2)
    scene.later(9)
    scene.cloud.refuse(2, failed_at=time.time() - 20)
    scene.later(9)
    assert scene.state("d.1") is LeaseState.EVICTED
    scene.cloud.refuse(2, failed_at=time.time() + 3)  # of the same project, for another one took the room
    scene.later(9)
    assert [scene.state(name) for name in ("b.1", "c.1")] == [LeaseState.RUNNING, LeaseState.EVICTED]


def test_who_was_served_before_the_refusal_was_seen_needs_no_room(scene: Scene) -> None:
    for name in ("a.1", "b.1"):
        scene.lease(name, 4)
        scene.later(1)
    scene.later(9)
    building = scene.cloud.arrive(4, "4")  # it is counted while it is being built, and evicts
    scene.later(9)
    assert scene.state("b.1") is LeaseState.EVICTED
    failed = replace(scene.cloud.instances[building], state=InstanceState.ENDED, no_room_at=time.time() - 5)
    scene.cloud.instances[building] = failed
    again = scene.cloud.arrive(4, "4")
    served = replace(scene.cloud.instances[again], account=failed.account, created_at=time.time() - 4)
    scene.cloud.instances[again] = served
    scene.later(9)
    assert scene.state("a.1") is LeaseState.RUNNING
    assert scene.own_users() == [f"A/direct-{again}"]


def test_memory_is_freed_too_on_a_node_that_the_user_may_be_on() -> None:
    scene = Scene(hosts=("n1", "n2"), amounts=(("memory_mb", 8000),))
    for name in ("a.1", "b.1", "c.1"):  # the cores of a node would do, its memory does not
        scene.live.tell(
            reserve(name, 1, 1e6).model_copy(update={"resources": {"memory_mb": 4000}}), scene.now_s
        )
        scene.live.tell(confirm(name), scene.now_s)
    scene.later(9)
    nodes = {name: scene.live.owner.cloud.inventory.get(name) for name in ("a.1", "b.1", "c.1")}
    assert [lease.node for lease in nodes.values() if lease] == [0, 0, 1]
    needs: dict[str, Any] = {
        "amounts": (("disk_gb", 5), ("memory_mb", 6000)),
        "labels": frozenset({("zone", "1"), ("other", "label")}),
    }
    scene.cloud.refuse(1, **needs)
    scene.later(9)
    assert [scene.state(name) for name in nodes] == [
        LeaseState.EVICTED,
        LeaseState.EVICTED,
        LeaseState.RUNNING,
    ]
    (block,) = [one for one in scene.live.owner.cloud.inventory if "/freed-" in one.id]
    assert (block.node, block.amounts) == (0, (("memory_mb", 6000),)), "disk is not in the books"
    # An own user's server is counted with its memory, where it runs.
    own_id = scene.cloud.arrive(1)
    scene.cloud.instances[own_id] = replace(
        scene.cloud.instances[own_id], host="n2", amounts=(("memory_mb", 7000),)
    )
    scene.later(9)
    assert scene.state("c.1") is LeaseState.EVICTED
    scene.live.owner.validate()


def test_an_old_refusal_and_one_that_nothing_helps_evict_nobody(scene: Scene) -> None:
    scene.lease("a.1", 4)
    scene.later(9)
    scene.cloud.refuse(4, failed_at=time.time() - 301)
    scene.cloud.refuse(5)
    scene.later(9)
    assert scene.state("a.1") is LeaseState.RUNNING
    assert scene.own_users() == []


def test_a_refusal_waits_for_an_owner_that_does_not_answer(scene: Scene) -> None:
    scene.lease("a.1", 4)
    scene.lease("b.1", 4)
    scene.later(9)
    scene.owner_silent = True
    scene.cloud.refuse(4)
    scene.later(9)
    scene.owner_silent = False
    scene.later(3)
    assert scene.state("b.1") is LeaseState.EVICTED


def test_what_the_cloud_reports_is_listed_at_once_and_again_for_a_moment(scene: Scene) -> None:
    scene.later(5)
    before = scene.cloud.count("listed", "")
    scene.agent.hear()
    scene.step(1)
    assert scene.cloud.count("listed", "") == before + 1
    scene.later(3)
    assert scene.cloud.count("listed", "") >= before + 3
    after = scene.cloud.count("listed", "")
    scene.later(4)
    assert scene.cloud.count("listed", "") == after


def test_a_busy_cloud_whose_listing_takes_long_is_not_listed_all_the_time(scene: Scene) -> None:
    def take_long() -> list[CloudInstance]:
        scene.now_s += 2.0
        return []

    scene.later(5)
    scene.cloud.list_instances = take_long  # type: ignore[method-assign]
    began_s, lists = scene.now_s, 0
    for _ in range(100):
        scene.agent.hear()
        before_s = scene.now_s
        scene.agent.step()
        lists += scene.now_s > before_s
        scene.now_s += 1.0
    assert lists <= (scene.now_s - began_s) / 5.0 + 1  # every `poll`, however much is heard


def test_a_refusal_is_looked_for_at_once_even_where_listings_take_long(scene: Scene) -> None:
    listed_s: list[float] = []

    def take_long() -> list[CloudInstance]:
        listed_s.append(scene.now_s)
        scene.now_s += 4.0
        return []

    scene.cloud.list_instances = take_long  # type: ignore[method-assign]
    scene.step(2)
    for is_refusal, then in ((False, 1), (True, 2)):
        scene.agent.hear(is_refusal=is_refusal)
        scene.step(2)
        assert len(listed_s) == then


def test_headroom_follows_what_the_cloud_tells_of_its_room() -> None:
    scene = Scene(headroom=(4,))
    scene.lease("a.1", 4)
    scene.cloud.tells_room = True
    scene.later(30)
    assert scene.state("a.1") is LeaseState.RUNNING
    scene.cloud.room = 7  # somebody has taken a core, and nobody lists it
    scene.later(50)
    assert scene.state("a.1") is LeaseState.RUNNING, "spot that was told to go may not have left yet"
    scene.later(20)
    assert scene.state("a.1") is LeaseState.EVICTED
    assert scene.cloud.of("a.1") == []
    asked = [one for one in scene.line.asked if one.kind == "start_on_demand"]
    scene.later(300)
    assert [one for one in scene.line.asked if one.kind == "start_on_demand"] == asked, "there is room now"


def test_instances_run_on_the_host_of_their_node_and_foreign_ones_count_on_theirs() -> None:
    scene = Scene(hosts=("n1", "n2"))
    for name in ("a.1", "b.1", "c.1", "d.1"):
        scene.lease(name, 2)
    scene.later(9)
    nodes = {lease.id: lease.node for lease in scene.leases.read_leases([]).values() if lease is not None}
    assert scene.cloud.hosts == {name: f"n{node + 1}" for name, node in nodes.items()}
    arrived = scene.cloud.arrive(2)
    scene.cloud.instances[arrived] = replace(scene.cloud.instances[arrived], host="n1")
    scene.later(9)
    evicted = [name for name in nodes if scene.state(name) is LeaseState.EVICTED]
    assert [nodes[name] for name in evicted] == [0]
    elsewhere = scene.cloud.arrive(2)
    scene.cloud.instances[elsewhere] = replace(scene.cloud.instances[elsewhere], host="unknown")
    scene.later(9)
    assert f"A/direct-{elsewhere}" in scene.own_users()


# -- whatever happens ----------------------------------------------------------------------------------------


class Outages:
    """A scene to which anything happens in any order; all leases and own users fit beside each other."""

    def __init__(self, seed: int):
        self.scene, self.random = Scene(), random.Random(seed)
        self.names = itertools.count()
        self.running: set[str] = set()
        self.foreign: set[str] = set()

    def borrow(self) -> None:
        if len(self.running) < 4:
            name = f"r{next(self.names)}.1"
            self.scene.lease(name)
            self.running.add(name)

    def give_back(self) -> None:
        if self.running:
            name = self.random.choice(sorted(self.running))
            self.scene.live.tell(cancel(name), self.scene.now_s)
            self.running.remove(name)

    def come(self) -> None:
        if len(self.foreign) < 3:
            self.foreign.add(self.scene.cloud.arrive(1))

    def leave(self) -> None:
        if self.foreign:
            own_id = self.random.choice(sorted(self.foreign))
            self.scene.cloud.take(own_id)
            self.foreign.remove(own_id)

    def kill_agent(self) -> None:
        self.scene.begin()

    def toggle_redis(self) -> None:
        self.scene.redis_away = not self.scene.redis_away

    def toggle_cloud(self) -> None:
        self.scene.cloud.away = not self.scene.cloud.away

    def toggle_owner(self) -> None:
        self.scene.owner_silent = not self.scene.owner_silent

    def toggle_listing(self) -> None:
        self.scene.cloud.blind = not self.scene.cloud.blind

    def wait(self) -> None:
        self.scene.later(self.random.choice((1, 3, 12)))
        for name in {one.lease for one in self.scene.cloud.instances.values() if one.lease}:
            assert len(self.scene.cloud.of(name)) <= 1, f"{name} was started twice"

    def heal(self) -> None:
        scene = self.scene
        scene.redis_away = scene.owner_silent = scene.cloud.away = scene.cloud.blind = False
        scene.later(200)


def check_outages(seed: int) -> None:
    """Outages in any order leak no instance, end none wrongly and start none twice."""
    world = Outages(seed)
    happenings = [
        world.borrow, world.give_back, world.come, world.leave, world.kill_agent, world.toggle_redis,
        world.toggle_cloud, world.toggle_owner, world.toggle_listing, world.wait, world.wait,
    ]  # fmt: skip
    for _ in range(30):
        world.random.choice(happenings)()
    world.heal()
    cloud, leases = world.scene.cloud, world.scene.leases.read_leases([])
    assert {name for name, lease in leases.items() if lease and lease.state.is_open} == world.running
    assert {lease.state for lease in leases.values() if lease and not lease.state.is_open} <= {
        LeaseState.CANCELLED
    }
    alive = [one for one in cloud.instances.values() if one.state is not InstanceState.ENDED]
    assert sorted(one.lease for one in alive if one.lease) == sorted(world.running)
    assert {one.id for one in alive if one.lease is None} == world.foreign
    assert set(world.scene.own_users()) == {f"A/direct-{own_id}" for own_id in world.foreign}
    world.scene.live.owner.validate()


@pytest.mark.parametrize("seed", range(10))
def test_outages_in_any_order(seed: int) -> None:
    """A hundred more are among the deep tests."""
    check_outages(seed)
