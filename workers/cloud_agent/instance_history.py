"""Hold what the cloud agent knows of each instance, and the record that it shows of it."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any

from broker.contract import Lease
from broker.contract.instances import InstanceRecord
from cloudsim.model.requests import Kind
from cloudsim.model.reserved_ids import FREED
from workers.cloud_agent.drivers.base import CloudInstance, InstanceState
from workers.cloud_agent.reconcile import Absence, ForeignHistory, InstanceHistory

_ID = re.compile(r"[A-Za-z0-9._:@/-]{1,64}")
_SHOWN_WHY = 500


@dataclass
class TrackedLease:
    """A lease and its instance. ``record`` is shown to operators and outlives the agent."""

    record: InstanceRecord
    history: InstanceHistory = field(default_factory=InstanceHistory)
    lease: Lease | None = None
    instance: CloudInstance | None = None

    @classmethod
    def new(cls, lease: str) -> TrackedLease:
        """Track a lease whose instance has not been asked for."""
        return cls(InstanceRecord(lease=lease, since=time.time()))

    @classmethod
    def from_record(cls, record: InstanceRecord, now_s: float) -> TrackedLease:
        """Track a lease that the agent before this one left."""
        listed = record.own_id is not None
        history = InstanceHistory(asked_s=now_s, listed=listed, ran=record.state in ("running", "ending"))
        return cls(record, history)

    def note_lease(self, lease: Lease | None, now_s: float) -> None:
        """Note how its owner shows the lease now."""
        self.lease = lease
        if lease is not None and lease.kind is Kind.ON_DEMAND and not self.record.is_sold:
            self.record = self.record.model_copy(update={"is_sold": True})
        since_s = None if lease is not None else self.history.unknown_s or now_s
        self.history = replace(self.history, unknown_s=since_s)

    def note_listing(self, instance: CloudInstance | None, now_s: float) -> None:
        """Note how the cloud lists the instance now, None if it does not."""
        self.instance = instance
        if instance is None:
            if self.history.listed:
                missing = self.history.missing
                self.history = replace(
                    self.history, missing=missing.extended(now_s) if missing else Absence(now_s, now_s)
                )
            return
        there = instance.state in (InstanceState.STARTING, InstanceState.RUNNING)
        history = replace(self.history, listed=True, missing=None)
        history = replace(history, ran=history.ran or instance.state is InstanceState.RUNNING)
        if there:
            history = replace(history, asked_s=history.asked_s or now_s, retry_s=None, again=False)
        if instance.state is InstanceState.RUNNING:
            history = replace(history, no_room_s=None)
        self.history = history
        self.record = _update_record(self.record, instance)


@dataclass
class TrackedForeign:
    """An instance that the cloud's own users started."""

    record: InstanceRecord
    history: ForeignHistory = field(default_factory=ForeignHistory)
    instance: CloudInstance | None = None

    @classmethod
    def from_record(cls, record: InstanceRecord) -> TrackedForeign:
        """Track an instance that the agent before this one left."""
        return cls(record, ForeignHistory(counted=record.counted))

    @property
    def on_demand(self) -> str:
        """The id of the instance in the owner's books."""
        assert self.record.on_demand is not None
        return self.record.on_demand

    def note_listing(self, instance: CloudInstance | None, now_s: float) -> None:
        """Note how the cloud lists the instance now, None if it does not."""
        self.instance = instance
        if instance is not None:
            self.history = replace(self.history, missing=None)
            self.record = _update_record(self.record, instance)
        else:
            missing = self.history.missing
            self.history = replace(
                self.history, missing=missing.extended(now_s) if missing else Absence(now_s, now_s)
            )


def track_arrival(cloud: str, instance: CloudInstance, cores: int) -> TrackedForeign:
    """Begin to track a foreign instance that is new."""
    record = InstanceRecord(
        lease=None,
        own_id=instance.id,
        since=time.time(),
        cores=cores,
        on_demand=_on_demand_id(cloud, instance.id, 0),
    )
    return TrackedForeign(_update_record(record, instance), instance=instance)


def renamed_after_refusal(cloud: str, record: InstanceRecord, why: str) -> InstanceRecord:
    """Return the record with a new on-demand id, for the owner had no room and a refused id stays refused."""
    assert record.own_id is not None
    tries = record.tries + 1
    update = {
        "tries": tries,
        "on_demand": _on_demand_id(cloud, record.own_id, tries),
        "why": why[:_SHOWN_WHY],
    }
    return record.model_copy(update=update)


def freed_id(cloud: str, own_id: str) -> str:
    """Return the id of the room that is freed for a foreign instance, in the owner's books."""
    return f"{cloud}/{FREED}{_short_id(own_id)}"


def _on_demand_id(cloud: str, own_id: str, tries: int) -> str:
    """Return the id of a foreign instance in the owner's books."""
    return f"{cloud}/direct-{_short_id(own_id)}" + (f".{tries}" if tries else "")


def _short_id(own_id: str) -> str:
    return own_id if _ID.fullmatch(own_id) else hashlib.sha256(own_id.encode()).hexdigest()[:32]


def _update_record(record: InstanceRecord, instance: CloudInstance) -> InstanceRecord:
    update: dict[str, Any] = {
        "own_id": instance.id,
        "size": instance.size,
        "cores": record.cores if instance.cores is None else instance.cores,
        "addresses": instance.addresses,
        "why": record.why if instance.why is None else instance.why[:_SHOWN_WHY],
    }
    if record.state != instance.state.value:
        update |= {"state": instance.state.value, "since": time.time()}
    return record.model_copy(update=update)
