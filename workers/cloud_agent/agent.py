"""The loop of the cloud agent makes the instances of a real cloud agree with the leases of its owner.

It reads leases whenever something happens to one, and lists instances as often as the options say. Nothing
ends while Redis or the cloud is away.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import redis
import structlog

from broker.backoff import Backoff
from broker.contract import (
    Answer,
    Command,
    Gone,
    Lease,
    LeaseGranted,
    RefusalView,
    StartOnDemand,
    StopOnDemand,
)
from broker.contract.instances import STUCK
from broker.signing.agent_keys import SealError
from cloudsim.model.flavours import CloudFlavour
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from cloudsim.model.requests import Kind
from cloudsim.model.reserved_ids import FREED, FREED_S
from workers.cloud_agent import reconcile
from workers.cloud_agent.background_calls import BackgroundCalls, FinishedCall
from workers.cloud_agent.check import list_faults
from workers.cloud_agent.drivers.base import (
    HOST,
    CloudInstance,
    DesiredInstance,
    InstanceDriver,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
)
from workers.cloud_agent.instance_history import (
    TrackedForeign,
    TrackedLease,
    freed_id,
    renamed_after_refusal,
    track_arrival,
)
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.overflow import OverflowDriver, OverflowRequests
from workers.cloud_agent.owner_client import OwnerClient
from workers.cloud_agent.reconcile import InstanceDecision, InstanceStep, decide_foreign, decide_lease
from workers.cloud_agent.sales import SoldLeases
from workers.cloud_agent.user_refusals import SETTLE_S, UserRefusal, UserRefusals

POLL_S = 0.5
#: Seconds for which instances are listed every POLL_S after the cloud reported a change: a listing shows it
#: a little later.
_HEARD_S = 3.0
#: The least time from one listing to the next, as a multiple of what the last one took.
_LIST_SHARE = 4.0
#: The same after a refusal, where an own user waits for room.
_REFUSAL_LIST_SHARE = 1.0
#: Seconds that the owner may take to answer.
_ANSWER_S = 5.0
_LONGEST_LIST_PAUSE_S = 20.0
#: The largest number of unknown sizes that are warned of.
_SIZES_WARNED = 100
_LIST = "list"
_FLAVOURS = "flavours"
_HEADROOM = "headroom"
#: Seconds between two looks at the cloud's flavours.
_FLAVOURS_S = 300.0

log = structlog.get_logger(__name__)


class CloudAgent:
    """Manages all instances of one cloud. Only ``wake`` and ``hear`` may be called from other threads."""

    def __init__(
        self,
        cloud: str,
        driver: InstanceDriver,
        leases: CloudLeases,
        owner: OwnerClient,
        calls: Callable[[Callable[[], None]], BackgroundCalls],
        cores_of: Callable[[str], int | None],
        poll_s: float,
        now_s: Callable[[], float] = time.monotonic,
        node_cores: Sequence[int] = (),
        details: NodeDetails = CORES_ONLY,
        headroom: Sequence[int] = (),
        overflow: OverflowDriver | None = None,
        *,
        sells_on_demand: bool = False,
    ):
        """Set up the agent; it does nothing before ``run`` or ``step``.

        Parameters
        ----------
        calls:
            Makes the agent's background calls; its argument wakes the agent when one has finished.
        cores_of:
            Returns the cores of an instance size, None if the options do not say.
        poll_s:
            Seconds between two listings of the instances.
        now_s:
            A clock that never jumps.
        node_cores, details:
            The owner's nodes. Where the label ``host`` names a node's host, instances of leases run on the
            host of their node, and foreign ones are counted on theirs; else the cloud chooses. Of the amounts
            of foreign instances those are counted that nodes have.
        headroom:
            Cores of the blocks that the owner keeps free for own users.
        overflow:
            Reads and tells what is offered to the federation where the owner frees no room for a failed
            request of an own user. None offers nothing.
        sells_on_demand:
            True if other members may start on-demand instances here.
        """
        self._cloud, self._driver, self._leases, self._owner = cloud, driver, leases, owner
        self._cores_of, self._poll_s, self._now_s = cores_of, poll_s, now_s
        self._node_cores, self._details = node_cores, details
        self._hosts = [dict(labels).get(HOST) for labels in details.labels]
        self._headroom, self._headroom_due_s = Counter(headroom), float("-inf")
        self._short_since_s: float | None = None
        self._label_names = {name for labels in details.labels for name, _ in labels}
        self._wakened = threading.Event()
        self._calls = calls(self.wake)
        self._tracked: dict[str, TrackedLease] = {}
        self._foreign: dict[str, TrackedForeign] = {}
        self._has_read_records = False
        self._list_due_s, self._list_failures = float("-inf"), 0
        self._flavours_due_s = float("-inf")
        self._list_began_s, self._list_took_s = 0.0, 0.0
        self._list_backoff = Backoff(2 * poll_s, max(_LONGEST_LIST_PAUSE_S, poll_s))
        self._limit_s = reconcile.MISSING_S
        self._warned: set[str] = set()
        self._away = False
        self._refusals = UserRefusals()
        self._sells_on_demand, self._sold = sells_on_demand, SoldLeases(owner, self._calls, now_s)
        self._overflow = OverflowRequests(cloud, overflow, leases, owner, self._calls, now_s)
        self._heard_s = now_s()
        self._is_silent: bool | None = None  # None: what the agent before this one said is not known
        self._has_heard, self._heard_until_s = threading.Event(), float("-inf")
        self._has_heard_refusal = threading.Event()

    def wake(self) -> None:
        """Make the loop look at once whether there is something to do."""
        self._wakened.set()

    def hear(self, *, is_refusal: bool = False) -> None:
        """Make the loop list instances at once, and often for a moment: the cloud reports a change.

        A refusal is listed at once even where listings take long: an own user waits for room.
        """
        if is_refusal:
            self._has_heard_refusal.set()
        self._has_heard.set()
        self._wakened.set()

    def run(self, stopping: threading.Event) -> None:
        """Run the loop until the event is set. Instances that run go on."""
        while not stopping.is_set():
            self.step()
            self._wakened.wait(min(POLL_S, self._poll_s))
            self._wakened.clear()

    def step(self) -> None:
        """Run the loop once: note finished calls, read leases, and begin the calls that follow from them."""
        try:
            self._read_records()
            for finished in self._calls.take_finished():
                self._note_result(finished)
            self._read_leases()
            for name in list(self._tracked):
                self._handle_lease(name)
            for own_id in list(self._foreign):
                self._handle_foreign(own_id)
            for refusal in self._refusals.due():
                self._free_room_for_user(refusal)
            self._overflow.step(self._limit_s)
            self._list_instances()
            self._list_flavours()
            self._check_headroom()
        except redis.RedisError as error:
            if not self._away:
                log.warning("redis is away; instances stay as they are", why=str(error))
            self._away = True
        else:
            if self._away:
                log.info("redis is back")
            self._away = False

    def _read_leases(self) -> None:
        if self._sells_on_demand or any(tracked.record.is_sold for tracked in self._tracked.values()):
            self._sold.step()
        leases = self._sold.add_to(self._leases.read_leases(list(self._tracked)))
        for name, lease in leases.items():
            tracked = self._tracked.get(name)
            if tracked is None and lease is not None:
                tracked = self._tracked[name] = TrackedLease.new(name)
            if tracked is not None and (self._sold.is_known or not tracked.record.is_sold):
                tracked.note_lease(lease, self._now_s())

    def _read_records(self) -> None:
        """Take up the instances that the agent before this one recorded."""
        if self._has_read_records:
            return
        for name, record in self._leases.read_records().items():
            if self._overflow.take_up(record):
                continue
            if record.lease is not None:
                self._tracked[name] = TrackedLease.from_record(record, self._now_s())
            elif record.own_id is not None:
                self._foreign[record.own_id] = TrackedForeign.from_record(record)
        self._has_read_records = True

    # -- what the cloud lists -------------------------------------------------------------------------------

    def _list_flavours(self) -> None:
        now_s = self._now_s()
        if now_s >= self._flavours_due_s and self._calls.begin(_FLAVOURS, _FLAVOURS, self._describe_cloud):
            self._flavours_due_s = now_s + _FLAVOURS_S

    def _describe_cloud(self) -> tuple[list[CloudFlavour], list[str]]:
        return self._driver.list_flavours(), list(list_faults(self._driver, self._node_cores, self._details))

    def _note_flavours(self, finished: FinishedCall) -> None:
        if finished.error is None:
            flavours, faults = finished.result
            self._leases.write_catalogue(flavours, self._driver.rules, faults)
        else:
            log.warning("the cloud's flavours cannot be listed", why=str(finished.error))
            self._flavours_due_s = self._now_s() + _LONGEST_LIST_PAUSE_S

    def _check_headroom(self) -> None:
        now_s = self._now_s()
        is_due = bool(self._headroom) and now_s >= self._headroom_due_s
        if is_due and self._calls.begin(_HEADROOM, _HEADROOM, self._driver.count_free):
            self._headroom_due_s = now_s + self._poll_s

    def _note_free(self, free: Mapping[str, int]) -> None:
        """Free room where the cloud could not start what is to be kept free, although its books say so.

        Own users may have taken it a moment ago, and spot that leaves for that may not have left yet.
        """
        now_s, missing = self._now_s(), Counter[int]()
        for cores, count in self._headroom.items():
            counts = [free[size] for size in free if self._cores_of(size) == cores]
            missing[cores] = max(0, count - max(counts, default=count))
        runs_spot = any(tracked.lease and tracked.lease.state.is_open for tracked in self._tracked.values())
        if not missing.total() or not runs_spot:
            self._short_since_s = None
            return
        if self._short_since_s is None:
            self._short_since_s = now_s
        if now_s - self._short_since_s >= SETTLE_S:
            log.warning("the cloud has less room than is to be kept free: freeing some", blocks=dict(missing))
            for cores in missing.elements():
                block = f"{self._cloud}/{FREED}{uuid4().hex[:12]}"
                self._free_room(block, block, cores, {})
            self._short_since_s = now_s

    def _list_instances(self) -> None:
        now_s = self._now_s()
        if self._has_heard.is_set():
            self._has_heard.clear()
            self._heard_until_s = now_s + _HEARD_S
            if not self._list_failures:
                # A listing of thousands of servers takes seconds: a busy cloud is not listed all the time.
                share = _REFUSAL_LIST_SHARE if self._has_heard_refusal.is_set() else _LIST_SHARE
                soon_s = max(now_s, self._list_began_s + share * self._list_took_s)
                self._list_due_s = min(self._list_due_s, soon_s)
            self._has_heard_refusal.clear()
        if now_s >= self._list_due_s and self._calls.begin(_LIST, _LIST, self._call_list):
            often_s = max(POLL_S, _LIST_SHARE * self._list_took_s)
            pause_s = min(often_s, self._poll_s) if now_s < self._heard_until_s else self._poll_s
            self._list_began_s, self._list_due_s = now_s, now_s + pause_s

    def _call_list(self) -> list[CloudInstance]:
        began_s = self._now_s()
        listing = self._driver.list_instances()
        self._list_took_s = self._now_s() - began_s
        return listing

    def _note_listing(self, finished: FinishedCall) -> None:
        now_s = self._now_s()
        if finished.error is not None:
            self._list_failures += 1
            if now_s - self._heard_s > reconcile.SILENT_S + self._poll_s and not self._is_silent:
                since = datetime.now(UTC) - timedelta(seconds=now_s - self._heard_s)
                self._leases.note_silence(f"since {since:%Y-%m-%dT%H:%M:%SZ} ({finished.error})"[:500])
                self._is_silent = True
                log.error("the cloud is silent; it gets no more leases", why=str(finished.error))
            self._list_due_s = now_s + self._list_backoff.pause_s(self._list_failures)
            log.warning("instances cannot be listed; none ends for that", why=str(finished.error))
            return
        self._list_failures, self._heard_s = 0, now_s
        if self._is_silent is not False:
            self._leases.note_silence(None)
            self._is_silent = False
        listing: list[CloudInstance] = finished.result
        own: dict[str, CloudInstance] = {}
        foreign: dict[str, CloudInstance] = {}
        for instance in listing:
            if instance.lease is None or self._is_stuck(instance, now_s):
                foreign[instance.id] = instance
            if instance.lease is None:
                continue
            if instance.lease not in own or own[instance.lease].state is InstanceState.ENDED:
                own[instance.lease] = instance
        lacks_all = not any(
            instance.lease in self._tracked or instance.id in self._foreign for instance in listing
        )
        self._limit_s = reconcile.ALL_MISSING_S if lacks_all else reconcile.MISSING_S
        for name in own.keys() - self._tracked.keys():
            self._tracked[name] = TrackedLease.new(name)
        for name, tracked in self._tracked.items():
            tracked.note_listing(own.get(name), now_s)
            if tracked.history.asked_s is not None and tracked.history.ended_s is None:
                self._leases.write_record(name, tracked.record)
        for own_id, tracked_foreign in self._foreign.items():
            tracked_foreign.note_listing(foreign.get(own_id), now_s)
        is_settled = not any(
            tracked.history.ending_s is not None
            and tracked.instance is not None
            and tracked.instance.state is not InstanceState.ENDED
            for tracked in self._tracked.values()
        )
        self._refusals.note_listing(foreign, self._cores, time.time(), is_settled=is_settled)
        for own_id in foreign.keys() - self._foreign.keys():
            self._add_foreign(foreign[own_id])
        self._overflow.note_listing(foreign.keys(), now_s, self._limit_s)

    def _is_stuck(self, instance: CloudInstance, now_s: float) -> bool:
        """Return True if the instance of an ended lease stays, and takes room like a foreign one."""
        tracked = self._tracked.get(instance.lease or "")
        is_stuck = tracked is not None and reconcile.is_stuck(instance, tracked.history, now_s)
        return is_stuck or instance.id in self._foreign

    def _cores(self, instance: CloudInstance) -> int | None:
        return self._cores_of(instance.size) if instance.cores is None else instance.cores

    def _add_foreign(self, instance: CloudInstance) -> None:
        """Begin to track a foreign instance that is new."""
        if decide_foreign(instance, None, self._now_s(), self._limit_s).step is not InstanceStep.ARRIVE:
            return
        cores = self._cores(instance)
        if cores is not None:
            if instance.lease is not None:
                instance = replace(instance, why=f"{STUCK}its lease {instance.lease} has ended")
                log.error("an instance counts as used", instance=instance.id, why=instance.why)
            self._foreign[instance.id] = track_arrival(self._cloud, instance, cores)
            self._refusals.note_arrival(instance)
        elif instance.size not in self._warned and len(self._warned) < _SIZES_WARNED:
            self._warned.add(instance.size)
            log.warning(
                "foreign instances of this size are not counted: enter its cores in foreign_sizes",
                size=instance.size,
                instance=instance.id,
            )

    # -- leases ---------------------------------------------------------------------------------------------

    def _handle_lease(self, name: str) -> None:
        tracked, now_s = self._tracked[name], self._now_s()
        decision = decide_lease(tracked.lease, tracked.instance, tracked.history, now_s, self._limit_s)
        match decision.step:
            case InstanceStep.START if not self._calls.is_busy(name):
                self._start(name, tracked, now_s)
            case InstanceStep.END if self._calls.begin("end", name, partial(self._driver.end, name)):
                ending_s = now_s if tracked.history.ending_s is None else tracked.history.ending_s
                tracked.history = replace(tracked.history, ending_s=ending_s)
                log.info("ending an instance", lease=name, instance=tracked.record.own_id)
            case InstanceStep.NOTICE if tracked.lease is not None and tracked.lease.evict_at_s is not None:
                leaves_at = self._leases.wall_time(tracked.lease.evict_at_s)
                self._calls.begin("notice", name, partial(self._driver.give_notice, name, leaves_at))
            case InstanceStep.LEAVING if tracked.instance is not None and not self._calls.is_busy(name):
                self._report_leaving(name, tracked.instance, decision.why)
            case InstanceStep.EVICTED | InstanceStep.FAILED:
                self._report_gone(name, decision)
            case InstanceStep.FORGET:
                self._leases.drop_record(name)
                if tracked.instance is None:
                    del self._tracked[name]

    def _start(self, name: str, tracked: TrackedLease, now_s: float) -> None:
        lease = tracked.lease
        assert lease is not None
        # Recorded before it is asked for: the next agent must know that there may be an instance.
        self._leases.write_record(name, tracked.record)
        again = tracked.instance is not None
        tracked.history = replace(
            tracked.history,
            asked_s=tracked.history.asked_s or now_s,
            tried_s=now_s,
            again=tracked.history.again or again,
        )
        host = self._hosts[lease.node] if lease.node < len(self._hosts) else None
        self._calls.begin("start", name, partial(self._start_instance, lease, host))

    def _start_instance(self, lease: Lease, host: str | None) -> None:
        try:
            launch = self._leases.open_launch(lease)
        except SealError as error:
            raise RefusedError(str(error)) from error
        desired = DesiredInstance(
            lease.id, lease.cores, lease.origin, lease.amounts, lease.labels, launch, host,
            is_preemptible=lease.kind is Kind.SPOT,
        )  # fmt: skip
        self._driver.start(desired)

    def _note_start(self, name: str, error: Exception | None) -> None:
        tracked = self._tracked.get(name)
        if tracked is None:
            return
        now_s, history = self._now_s(), tracked.history
        if error is None:
            log.info("asked for an instance", lease=name)
            # If its lease has ended meanwhile, the end may not have reached this instance. That one before it
            # failed and is not listed any more says nothing about this one.
            tracked.history = replace(history, retry_s=None, ended_s=None, listed=False, missing=None)
            self._list_due_s = min(self._list_due_s, now_s + 1.0)
            return
        why = str(error)[:500] or type(error).__name__
        if isinstance(error, RefusedError):
            log.warning("the cloud refuses an instance", lease=name, why=why)
            self._report_gone(name, InstanceDecision(InstanceStep.FAILED, why))
        tracked.history = replace(history, retry_s=now_s + reconcile.AGAIN_S, why=why)
        tracked.record = tracked.record.model_copy(update={"why": why})
        self._leases.write_record(name, tracked.record)
        if isinstance(error, NoRoomError):
            tracked.history = replace(tracked.history, no_room_s=history.no_room_s or now_s)
            # Spot makes room for spot once; for what was sold it leaves until there is enough.
            is_sold = tracked.lease is not None and tracked.lease.kind is Kind.ON_DEMAND
            if tracked.lease is not None and (is_sold or history.no_room_s is None):
                log.warning("the cloud has no room for a lease: freeing some", lease=name)
                block = f"{self._cloud}/{FREED}{uuid4().hex[:12]}"
                self._free_room(name, block, tracked.lease.cores, {"resources": tracked.lease.amounts})
        elif not isinstance(error, RefusedError):
            log.warning("an instance cannot be started yet", lease=name, why=why)

    def _free_room(self, about: str, block: str, cores: int, needs: Mapping[str, Any]) -> bool:
        """Ask the owner to free room that the cloud turned out not to have; False while it is being asked."""
        fields: dict[str, Any] = {"instance": block, "cores": cores, "lifetime_s": FREED_S, **needs}
        command = StartOnDemand(id=f"{block}:start", reply_to=self._owner.reply_to, **fields)
        return self._ask("freed", about, command)

    def _free_room_for_user(self, refusal: UserRefusal) -> None:
        """Ask the owner to free what the cloud refused to an own user, on a node that it could run on."""
        own_id, cores, labels = refusal.instance.id, refusal.cores, refusal.instance.labels
        resources = self._counted(refusal.instance)
        needs = {
            "resources": resources,
            "labels": {name: value for name, value in labels if name in self._label_names},
        }
        if self._free_room(own_id, freed_id(self._cloud, own_id), cores, needs):
            log.warning(
                "an own user was refused: freeing room", instance=own_id, cores=cores, resources=resources
            )

    def _counted(self, instance: CloudInstance) -> dict[str, int]:
        """Return what an instance takes beside cores, as far as its owner counts it."""
        return {name: amount for name, amount in instance.amounts if name in self._details.resources}

    def _report_gone(self, name: str, decision: InstanceDecision) -> None:
        how: Any = decision.step.value
        command = Gone(
            id=f"{name}:gone", reply_to=self._owner.reply_to, lease=name, how=how, by="its cloud",
            why=decision.why[:500],
        )  # fmt: skip
        if self._ask("gone", name, command):
            log.warning("an instance is gone", lease=name, how=how, why=decision.why)

    def _report_leaving(self, name: str, instance: CloudInstance, why: str) -> None:
        """Tell the owner that the cloud gave notice, so that the holder hears of it in time."""
        assert instance.ends_at is not None
        in_s = max(0.0, instance.ends_at - time.time())
        command = Gone(
            id=f"{name}:leaves:{instance.ends_at:.0f}", reply_to=self._owner.reply_to, lease=name,
            how="evicted", by="its cloud", why=why[:500], in_s=in_s,
        )  # fmt: skip
        if self._ask("leaving", name, command):
            log.warning("the cloud takes an instance back soon", lease=name, in_s=round(in_s), why=why)

    # -- foreign instances ----------------------------------------------------------------------------------

    def _handle_foreign(self, own_id: str) -> None:
        tracked = self._foreign[own_id]
        target = {"reply_to": self._owner.reply_to, "instance": tracked.on_demand}
        match decide_foreign(tracked.instance, tracked.history, self._now_s(), self._limit_s).step:
            case InstanceStep.ARRIVE if not self._calls.is_busy(own_id):
                # Recorded before the owner is told: the next agent must know that it may be counted.
                self._leases.write_record(tracked.on_demand, tracked.record)
                instance = tracked.instance
                host = None if instance is None else instance.host
                labels = {HOST: host} if host in self._hosts else {}
                resources = {} if instance is None else self._counted(instance)
                fields: dict[str, Any] = {"labels": labels, "resources": resources, **target}
                fields |= {"cores": tracked.record.cores, "lifetime_s": None}
                self._ask("arrive", own_id, StartOnDemand(id=f"{tracked.on_demand}:start", **fields))
            case InstanceStep.DEPART if not self._calls.is_busy(own_id):
                self._ask("depart", own_id, StopOnDemand(id=f"{tracked.on_demand}:stop", **target))

    def _note_arrival(self, own_id: str, answer: Answer | None) -> None:
        tracked = self._foreign[own_id]
        if isinstance(answer, LeaseGranted):
            log.info("a foreign instance", instance=own_id, cores=tracked.record.cores)
            why = None if tracked.record.tries else tracked.record.why  # not that it was refused before
            tracked.record = tracked.record.model_copy(update={"counted": True, "why": why})
            tracked.history = replace(tracked.history, counted=True)
            self._leases.write_record(tracked.on_demand, tracked.record)
        elif answer is not None:
            why = answer.detail if isinstance(answer, RefusalView) else None
            if not tracked.record.tries:
                log.warning("a foreign instance has no room in the owner's books", instance=own_id, why=why)
            self._leases.drop_record(tracked.on_demand)
            tracked.record = renamed_after_refusal(
                self._cloud, tracked.record, why or "it has no room in the owner's books"
            )
            self._leases.write_record(tracked.on_demand, tracked.record)
            tracked.history = replace(tracked.history, retry_s=self._now_s() + reconcile.RECOUNT_S)

    def _note_departure(self, own_id: str, answer: Answer | None) -> None:
        if answer is not None:
            log.info("a foreign instance has left", instance=own_id)
            self._leases.drop_record(self._foreign.pop(own_id).on_demand)

    # -- calls ----------------------------------------------------------------------------------------------

    def _ask(self, kind: str, about: str, command: Command) -> bool:
        def ask() -> Answer | None:
            return self._owner.ask([command], _ANSWER_S).get(command.id)

        return self._calls.begin(kind, about, ask)

    def _note_result(self, finished: FinishedCall) -> None:
        """Handle the result of a finished call."""
        if finished.error is not None and not isinstance(finished.error, InstanceError | redis.RedisError):
            log.error("a call broke", kind=finished.kind, about=finished.about, exc_info=finished.error)
        match finished.kind:
            case "list":
                self._note_listing(finished)
            case "flavours":
                self._note_flavours(finished)
            case "headroom" if finished.error is None:
                self._note_free(finished.result)
            case "start":
                self._note_start(finished.about, finished.error)
            case "end" | "notice":
                self._note_end_or_notice(finished)
            case "arrive" if finished.error is None:
                self._note_arrival(finished.about, finished.result)
            case "leaving" if finished.error is None and finished.result is not None:
                self._note_told(finished.about)
            case "freed" if finished.error is None and finished.result is not None:
                self._note_freed(finished.about, finished.result)
            case "depart" if finished.error is None:
                self._note_departure(finished.about, finished.result)
            case "sold" if finished.error is None:
                self._sold.note_answer(finished.result)
            case _:
                self._overflow.note_result(finished)

    def _note_freed(self, own_id: str, answer: Answer) -> None:
        if not isinstance(answer, RefusalView):
            self._refusals.note_freed(own_id, time.time())
            return
        refusal = self._refusals.note_unfreed(own_id)
        if refusal is not None:
            self._overflow.note_refused(own_id, refusal.instance, refusal.cores, answer)

    def _note_told(self, name: str) -> None:
        tracked = self._tracked.get(name)
        if tracked is not None and tracked.instance is not None:
            tracked.history = replace(tracked.history, leaves_at=tracked.instance.ends_at)

    def _note_end_or_notice(self, finished: FinishedCall) -> None:
        tracked = self._tracked.get(finished.about)
        if finished.error is not None:
            log.warning(
                "the cloud was not told", kind=finished.kind, lease=finished.about, why=str(finished.error)
            )
            if tracked is not None and finished.kind == "end":
                retry_s = self._now_s() + reconcile.END_AGAIN_S
                tracked.history = replace(tracked.history, end_retry_s=retry_s)
        elif tracked is not None and finished.kind == "end":
            tracked.history = replace(tracked.history, ended_s=self._now_s())
            tracked.record = tracked.record.model_copy(update={"state": "ended", "since": time.time()})
            self._leases.write_record(finished.about, tracked.record)
        elif tracked is not None:
            tracked.history = replace(tracked.history, noticed=True)
