"""What the agent has of each instance, and what it shows of it."""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any

from broker.contract import Lease
from broker.contract.instances import InstanceRecord
from workers.cloud_agent.drivers.base import CloudInstance, InstanceState
from workers.cloud_agent.reconcile import Absence, ForeignHistory, InstanceHistory

_ID = re.compile(r"[A-Za-z0-9._:@/-]{1,64}")
_SHOWN_WHY = 500


@dataclass
class TrackedLease:
    """A lease, or an instance of one. ``record`` is what is shown of it and kept over a restart."""

    record: InstanceRecord
    kept: InstanceHistory = field(default_factory=InstanceHistory)
    lease: Lease | None = None
    instance: CloudInstance | None = None

    @classmethod
    def new(cls, lease: str) -> TrackedLease:
        """Nothing was asked for yet."""
        return cls(InstanceRecord(lease=lease, since=time.time()))

    @classmethod
    def known(cls, record: InstanceRecord, now_s: float) -> TrackedLease:
        """As an agent before this one left it."""
        listed = record.own_id is not None
        kept = InstanceHistory(asked_s=now_s, listed=listed, ran=record.state in ("running", "ending"))
        return cls(record, kept)

    def shown(self, lease: Lease | None, now_s: float) -> None:
        """How its owner shows the lease now."""
        self.lease = lease
        since_s = None if lease is not None else self.kept.unknown_s or now_s
        self.kept = replace(self.kept, unknown_s=since_s)

    def listed(self, instance: CloudInstance | None, now_s: float) -> None:
        """How the cloud lists the instance now."""
        self.instance = instance
        if instance is None:
            if self.kept.listed:
                missing = self.kept.missing
                self.kept = replace(
                    self.kept, missing=missing.again(now_s) if missing else Absence(now_s, now_s)
                )
            return
        there = instance.state in (InstanceState.STARTING, InstanceState.RUNNING)
        kept = replace(self.kept, listed=True, missing=None)
        kept = replace(kept, ran=kept.ran or instance.state is InstanceState.RUNNING)
        if there:
            kept = replace(kept, asked_s=kept.asked_s or now_s, retry_s=None, no_room_s=None, again=False)
        self.kept = kept
        self.record = _noted(self.record, instance)


@dataclass
class TrackedForeign:
    """An instance that the cloud's users started."""

    record: InstanceRecord
    foreign: ForeignHistory = field(default_factory=ForeignHistory)
    instance: CloudInstance | None = None

    @classmethod
    def known(cls, record: InstanceRecord) -> TrackedForeign:
        """As an agent before this one left it."""
        return cls(record, ForeignHistory(counted=record.counted))

    @property
    def on_demand(self) -> str:
        """Its name in the owner's books."""
        assert self.record.on_demand is not None
        return self.record.on_demand

    def listed(self, instance: CloudInstance | None, now_s: float) -> None:
        """How the cloud lists it now."""
        self.instance = instance
        if instance is not None:
            self.foreign = replace(self.foreign, missing=None)
            self.record = _noted(self.record, instance)
        else:
            missing = self.foreign.missing
            self.foreign = replace(
                self.foreign, missing=missing.again(now_s) if missing else Absence(now_s, now_s)
            )


def track_arrival(cloud: str, instance: CloudInstance, cores: int) -> TrackedForeign:
    """A foreign instance that is new."""
    record = InstanceRecord(
        lease=None, own_id=instance.id, since=time.time(), cores=cores, on_demand=_name(cloud, instance.id, 0)
    )
    return TrackedForeign(_noted(record, instance), instance=instance)


def renamed_after_refusal(cloud: str, record: InstanceRecord, why: str) -> InstanceRecord:
    """It has no room in the owner's books: an id that was refused stays so, the next try takes another."""
    assert record.own_id is not None
    tries = record.tries + 1
    update = {"tries": tries, "on_demand": _name(cloud, record.own_id, tries), "why": why[:_SHOWN_WHY]}
    return record.model_copy(update=update)


def _name(cloud: str, own_id: str, tries: int) -> str:
    """In the owner's books."""
    if not _ID.fullmatch(own_id):
        own_id = hashlib.sha256(own_id.encode()).hexdigest()[:32]
    return f"{cloud}/direct-{own_id}" + (f".{tries}" if tries else "")


def _noted(record: InstanceRecord, instance: CloudInstance) -> InstanceRecord:
    told: dict[str, Any] = {
        "own_id": instance.id,
        "size": instance.size,
        "cores": record.cores if instance.cores is None else instance.cores,
        "addresses": instance.addresses,
        "why": record.why if instance.why is None else instance.why[:_SHOWN_WHY],
    }
    if record.state != instance.state.value:
        told |= {"state": instance.state.value, "since": time.time()}
    return record.model_copy(update=told)
