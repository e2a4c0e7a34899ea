"""The instance agent's loop: makes the instances of a real cloud and the leases of its owner agree.

Leases are looked at whenever something happens to one, instances as often as the options say. While Redis or
the cloud is away nothing ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import redis
import structlog

from broker.backoff import Backoff
from broker.contract import Answer, Command, Gone, LeaseGranted, RefusalView, StartOnDemand, StopOnDemand
from cloudsim.model.reserved_ids import FREED, FREED_S
from workers.cloud_agent import reconcile
from workers.cloud_agent.background_calls import BackgroundCalls, FinishedCall
from workers.cloud_agent.drivers.base import (
    CloudInstance,
    DesiredInstance,
    InstanceDriver,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
)
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.owner_client import OwnerClient
from workers.cloud_agent.reconcile import InstanceDecision, InstanceStep, decide, decide_foreign
from workers.cloud_agent.tracked import TrackedForeign, TrackedLease, arrived, refused

POLL_S = 0.5
#: So long the owner may take to answer.
_ANSWER_S = 5.0
_LONGEST_LIST_PAUSE_S = 20.0
_SIZES_WARNED = 100  # so many at most
_LIST = "list"

log = structlog.get_logger(__name__)


class InstanceAgent:
    """All instances of one cloud. Other threads may call ``wake``."""

    def __init__(
        self,
        cloud: str,
        driver: InstanceDriver,
        leases: CloudLeases,
        line: OwnerClient,
        calls: Callable[[Callable[[], None]], BackgroundCalls],
        cores_of: Callable[[str], int | None],
        poll_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ):
        """``calls``: makes the agent's calls, told how to wake it. ``cores_of``: a size, by the options.
        ``poll_s``: how often instances are listed. ``now_s``: a clock that never jumps."""
        self._cloud, self._driver, self._leases, self._line = cloud, driver, leases, line
        self._cores_of, self._poll_s, self._now_s = cores_of, poll_s, now_s
        self._wakened = threading.Event()
        self._calls = calls(self.wake)
        self._held: dict[str, TrackedLease] = {}
        self._foreign: dict[str, TrackedForeign] = {}
        self._read = False
        self._list_due_s, self._list_failures = float("-inf"), 0
        self._list_backoff = Backoff(2 * poll_s, max(_LONGEST_LIST_PAUSE_S, poll_s))
        self._limit_s = reconcile.MISSING_S
        self._warned: set[str] = set()
        self._away = False

    def wake(self) -> None:
        """There may be something to do."""
        self._wakened.set()

    def run(self, stopping: threading.Event) -> None:
        """Until told to stop; what runs goes on."""
        while not stopping.is_set():
            self.step()
            self._wakened.wait(min(POLL_S, self._poll_s))
            self._wakened.clear()

    def step(self) -> None:
        """Once."""
        try:
            self._take_up()
            for called in self._calls.done():
                self._note(called)
            for name, lease in self._leases.shown(list(self._held)).items():
                if lease is not None or name in self._held:
                    self._held.setdefault(name, TrackedLease.new(name)).shown(lease, self._now_s())
            for name in list(self._held):
                self._look_after(name)
            for own_id in list(self._foreign):
                self._look_after_foreign(own_id)
            self._list_instances()
        except redis.RedisError as error:
            if not self._away:
                log.warning("redis is away; instances stay as they are", why=str(error))
            self._away = True
        else:
            if self._away:
                log.info("redis is back")
            self._away = False

    def _take_up(self) -> None:
        """What an agent before this one kept."""
        if self._read:
            return
        for name, record in self._leases.records().items():
            if record.lease is not None:
                self._held[name] = TrackedLease.known(record, self._now_s())
            elif record.own_id is not None:
                self._foreign[record.own_id] = TrackedForeign.known(record)
        self._read = True

    # -- what the cloud lists -------------------------------------------------------------------------------

    def _list_instances(self) -> None:
        now_s = self._now_s()
        if now_s >= self._list_due_s and self._calls.begin(_LIST, _LIST, self._driver.listed):
            self._list_due_s = now_s + self._poll_s

    def _note_listing(self, called: FinishedCall) -> None:
        now_s = self._now_s()
        if called.error is not None:
            self._list_failures += 1
            self._list_due_s = now_s + self._list_backoff.pause_s(self._list_failures)
            log.warning("instances cannot be listed; none ends for that", why=str(called.error))
            return
        self._list_failures = 0
        listing: list[CloudInstance] = called.result
        own: dict[str, CloudInstance] = {}
        foreign: dict[str, CloudInstance] = {}
        for instance in listing:
            if instance.lease is None:
                foreign[instance.id] = instance
            elif instance.lease not in own or own[instance.lease].state is InstanceState.ENDED:
                own[instance.lease] = instance
        lacks_all = not any(one.lease in self._held or one.id in self._foreign for one in listing)
        self._limit_s = reconcile.ALL_MISSING_S if lacks_all else reconcile.MISSING_S
        for name in own.keys() - self._held.keys():
            self._held[name] = TrackedLease.new(name)
        for name, held in self._held.items():
            held.listed(own.get(name), now_s)
            if held.kept.asked_s is not None and held.kept.ended_s is None:
                self._leases.keep(name, held.record)
        for own_id, known in self._foreign.items():
            known.listed(foreign.get(own_id), now_s)
        for own_id in foreign.keys() - self._foreign.keys():
            self._meet(foreign[own_id])

    def _meet(self, instance: CloudInstance) -> None:
        """A foreign instance that is new."""
        if decide_foreign(instance, None, self._now_s(), self._limit_s).step is not InstanceStep.ARRIVE:
            return
        cores = self._cores_of(instance.size) if instance.cores is None else instance.cores
        if cores is not None:
            self._foreign[instance.id] = arrived(self._cloud, instance, cores)
        elif instance.size not in self._warned and len(self._warned) < _SIZES_WARNED:
            self._warned.add(instance.size)
            log.warning(
                "foreign instances of this size are not counted: say its cores in foreign_sizes",
                size=instance.size,
                instance=instance.id,
            )

    # -- leases ---------------------------------------------------------------------------------------------

    def _look_after(self, name: str) -> None:
        held, now_s = self._held[name], self._now_s()
        decision = decide(held.lease, held.instance, held.kept, now_s, self._limit_s)
        match decision.step:
            case InstanceStep.START if not self._calls.busy(name):
                self._start(name, held, now_s)
            case InstanceStep.END if self._calls.begin("end", name, partial(self._driver.end, name)):
                log.info("ending an instance", lease=name, instance=held.record.own_id)
            case InstanceStep.NOTICE if held.lease is not None and held.lease.evict_at_s is not None:
                leaves_at = self._leases.wall_time(held.lease.evict_at_s)
                self._calls.begin("notice", name, partial(self._driver.notice, name, leaves_at))
            case InstanceStep.EVICTED | InstanceStep.FAILED:
                self._tell_gone(name, decision)
            case InstanceStep.FORGET:
                self._leases.drop(name)
                if held.instance is None:
                    del self._held[name]

    def _start(self, name: str, held: TrackedLease, now_s: float) -> None:
        lease = held.lease
        assert lease is not None
        # Kept before it is asked for: an agent after this one must know that there may be an instance.
        self._leases.keep(name, held.record)
        again = held.instance is not None
        held.kept = replace(
            held.kept, asked_s=held.kept.asked_s or now_s, tried_s=now_s, again=held.kept.again or again
        )
        wanted = DesiredInstance(name, lease.cores, lease.origin, lease.amounts)
        self._calls.begin("start", name, partial(self._driver.start, wanted))

    def _note_start(self, name: str, error: Exception | None) -> None:
        held = self._held.get(name)
        if held is None:
            return
        now_s, kept = self._now_s(), held.kept
        if error is None:
            log.info("asked for an instance", lease=name)
            # Where its lease has ended meanwhile, what was ended then may not have been this one.
            held.kept = replace(kept, retry_s=None, no_room_s=None, ended_s=None)
            self._list_due_s = min(self._list_due_s, now_s + 1.0)
            return
        why = str(error)[:500] or type(error).__name__
        if isinstance(error, RefusedError):
            log.warning("the cloud refuses an instance", lease=name, why=why)
            self._tell_gone(name, InstanceDecision(InstanceStep.FAILED, why))
        held.kept = replace(kept, retry_s=now_s + reconcile.AGAIN_S, why=why)
        held.record = held.record.model_copy(update={"why": why})
        self._leases.keep(name, held.record)
        if isinstance(error, NoRoomError):
            held.kept = replace(held.kept, no_room_s=kept.no_room_s or now_s)
            if held.lease is not None:
                self._free_room(name, held.lease.cores)
        elif not isinstance(error, RefusedError):
            log.warning("an instance cannot be started yet", lease=name, why=why)

    def _free_room(self, name: str, cores: int) -> None:
        """The owner believes in room that the cloud does not have: a block takes that, or somebody's."""
        block = f"{self._cloud}/{FREED}{uuid4().hex[:12]}"
        log.warning("the cloud has no room: asking the owner to free some", lease=name, cores=cores)
        self._ask(
            "freed",
            name,
            StartOnDemand(
                id=f"{block}:start",
                reply_to=self._line.reply_to,
                instance=block,
                cores=cores,
                lifetime_s=FREED_S,
            ),
        )

    def _tell_gone(self, name: str, decision: InstanceDecision) -> None:
        how: Any = decision.step.value
        command = Gone(
            id=f"{name}:gone", reply_to=self._line.reply_to, lease=name, how=how, by="its cloud",
            why=decision.why[:500],
        )  # fmt: skip
        if self._ask("gone", name, command):
            log.warning("an instance is gone", lease=name, how=how, why=decision.why)

    # -- foreign instances ----------------------------------------------------------------------------------

    def _look_after_foreign(self, own_id: str) -> None:
        held = self._foreign[own_id]
        named = {"reply_to": self._line.reply_to, "instance": held.on_demand}
        match decide_foreign(held.instance, held.foreign, self._now_s(), self._limit_s).step:
            case InstanceStep.ARRIVE if not self._calls.busy(own_id):
                # Kept before it is told: an agent after this one must know that it may be counted.
                self._leases.keep(held.on_demand, held.record)
                told = {"cores": held.record.cores, "lifetime_s": None, **named}
                self._ask("arrive", own_id, StartOnDemand(id=f"{held.on_demand}:start", **told))
            case InstanceStep.DEPART if not self._calls.busy(own_id):
                self._ask("depart", own_id, StopOnDemand(id=f"{held.on_demand}:stop", **named))

    def _note_arrival(self, own_id: str, answer: Answer | None) -> None:
        held = self._foreign[own_id]
        if isinstance(answer, LeaseGranted):
            log.info("a foreign instance", instance=own_id, cores=held.record.cores)
            held.record = held.record.model_copy(update={"counted": True, "why": None})
            held.foreign = replace(held.foreign, counted=True)
            self._leases.keep(held.on_demand, held.record)
        elif answer is not None:
            why = answer.detail if isinstance(answer, RefusalView) else None
            if not held.record.tries:
                log.warning("a foreign instance has no room in the owner's books", instance=own_id, why=why)
            self._leases.drop(held.on_demand)
            held.record = refused(self._cloud, held.record, why or "it has no room in the owner's books")
            self._leases.keep(held.on_demand, held.record)
            held.foreign = replace(held.foreign, retry_s=self._now_s() + reconcile.RECOUNT_S)

    def _note_departure(self, own_id: str, answer: Answer | None) -> None:
        if answer is not None:
            log.info("a foreign instance has left", instance=own_id)
            self._leases.drop(self._foreign.pop(own_id).on_demand)

    # -- calls ----------------------------------------------------------------------------------------------

    def _ask(self, kind: str, about: str, command: Command) -> bool:
        def asked() -> Answer | None:
            return self._line.ask([command], _ANSWER_S).get(command.id)

        return self._calls.begin(kind, about, asked)

    def _note(self, called: FinishedCall) -> None:
        """What came of a call."""
        if called.error is not None and not isinstance(called.error, InstanceError | redis.RedisError):
            log.error("a call broke", kind=called.kind, about=called.about, exc_info=called.error)
        match called.kind:
            case "list":
                self._note_listing(called)
            case "start":
                self._note_start(called.about, called.error)
            case "end" | "notice":
                self._note_told(called)
            case "arrive" if called.error is None:
                self._note_arrival(called.about, called.result)
            case "depart" if called.error is None:
                self._note_departure(called.about, called.result)

    def _note_told(self, called: FinishedCall) -> None:
        held = self._held.get(called.about)
        if called.error is not None:
            log.warning("the cloud was not told", kind=called.kind, lease=called.about, why=str(called.error))
            if held is not None and called.kind == "end":
                retry_s = self._now_s() + reconcile.END_AGAIN_S
                held.kept = replace(held.kept, end_retry_s=retry_s)
        elif held is not None and called.kind == "end":
            held.kept = replace(held.kept, ended_s=self._now_s())
            held.record = held.record.model_copy(update={"state": "ended", "since": time.time()})
            self._leases.keep(called.about, held.record)
        elif held is not None:
            held.kept = replace(held.kept, noticed=True)
