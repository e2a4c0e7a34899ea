"""A cloud that lives in this process: a driver without a network, for the agent's tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from broker.contract import OverflowTerms
from broker.contract.launch import LaunchRules
from broker.doctor.check import CheckResult, failure, ok
from cloudsim.model.flavours import CloudFlavour
from workers.cloud_agent.drivers.base import (
    CloudHost,
    CloudInstance,
    DesiredInstance,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
)


class InMemoryCloud:
    """Instances have as many cores as they are asked for; ``room``: how many cores there are in all.

    away: every call fails. refuses: starts are refused. blind: listings are empty. starting: new instances do
    not run yet. immortal: none ends. Those that ended are listed for as long as ``forget`` is not called.
    """

    def __init__(self, room: int = 1000):
        self.room = room
        self.away = self.refuses = self.blind = self.starting = self.immortal = False
        self.instances: dict[str, CloudInstance] = {}
        self.notices: dict[str, float] = {}
        self.rules = LaunchRules(keys=True)
        self.findings = [failure("there is none", "make one", name="image"), ok("it is there", name="key")]
        self.hosts: dict[str, str | None] = {}  # by lease, where it was to start
        self.has: list[CloudHost] = []
        self.tells_room = False
        self.preemptible: dict[str, bool] = {}  # by lease
        self.overflow: dict[str, OverflowTerms | None] = {}  # by id, what is offered elsewhere
        self.told: dict[str, str] = {}  # by id, where it went
        self.calls: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    # -- the driver -----------------------------------------------------------------------------------------

    def list_instances(self) -> list[CloudInstance]:
        with self._lock:
            self._called("listed", "")
            return [] if self.blind else list(self.instances.values())

    def list_flavours(self) -> list[CloudFlavour]:
        with self._lock:
            self._called("flavours", "")
            return [CloudFlavour("any", self.room, is_divisible=True)]

    def check(self) -> Iterator[CheckResult]:
        return iter(self.findings)

    def start(self, wanted: DesiredInstance) -> None:
        with self._lock:
            self._called("start", wanted.lease)
            self.hosts[wanted.lease] = wanted.host
            self.preemptible[wanted.lease] = wanted.is_preemptible
            if self.refuses:
                raise RefusedError("there is no such image")
            if any(one.lease == wanted.lease for one in self.instances.values()):
                return
            if self._free() < wanted.cores:
                raise NoRoomError("InsufficientInstanceCapacity")
            self._add(
                wanted.lease, wanted.cores, InstanceState.STARTING if self.starting else InstanceState.RUNNING
            )

    def give_notice(self, lease: str, leaves_at: float) -> bool:
        with self._lock:
            self._called("notice", lease)
            self.notices[lease] = leaves_at
            return True

    def end(self, lease: str) -> None:
        with self._lock:
            self._called("end", lease)
            if self.immortal:
                return
            for one in self.of(lease):
                self.instances[one.id] = replace(one, state=InstanceState.ENDED, why=one.why or "terminated")

    def free_cores(self) -> int | None:
        with self._lock:
            self._called("free_cores", "")
            return self._free()

    def list_hosts(self) -> list[CloudHost]:
        return self.has

    def count_free(self) -> dict[str, int]:
        with self._lock:
            self._called("count_free", "")
            return {} if not self.tells_room else {"small": self._free(), "large": self._free() // 4}

    def read_overflow(self, own_id: str) -> OverflowTerms | None:
        with self._lock:
            self._called("overflow", own_id)
            if own_id not in self.overflow:
                raise RefusedError("other clouds do not have its image")
            return self.overflow[own_id]

    def tell_user(self, own_id: str, text: str) -> None:
        with self._lock:
            self._called("told", own_id)
            self.told[own_id] = text

    # -- what its users and operators do --------------------------------------------------------------------

    def arrive(self, cores: int | None = 1, size: str = "small") -> str:
        """An instance of its own users; returns its id."""
        return self._add(None, cores, InstanceState.RUNNING, size)

    def refuse(
        self, cores: int = 1, account: str = "someone", failed_at: float | None = None, **needs: Any
    ) -> str:
        """An instance of its own users for which there was no room; returns its id."""
        own_id = self._add(None, cores, InstanceState.ENDED, str(cores))
        at = time.time() if failed_at is None else failed_at
        self.instances[own_id] = replace(self.instances[own_id], account=account, no_room_at=at, **needs)
        return own_id

    def take(self, own_id: str, why: str = "Server.SpotInstanceTermination") -> None:
        """Ends an instance, whosever it is."""
        self.instances[own_id] = replace(self.instances[own_id], state=InstanceState.ENDED, why=why)

    def forget(self, own_id: str) -> None:
        """It is not listed any more."""
        del self.instances[own_id]

    def of(self, lease: str) -> list[CloudInstance]:
        """The instances of a lease that have not ended."""
        return [
            one
            for one in self.instances.values()
            if one.lease == lease and one.state is not InstanceState.ENDED
        ]

    def count(self, call: str, lease: str) -> int:
        """How often it was asked."""
        return self.calls.count((call, lease))

    def _called(self, call: str, lease: str) -> None:
        self.calls.append((call, lease))
        if self.away:
            raise InstanceError("the cloud does not answer")

    def _free(self) -> int:
        used = (one.cores or 0 for one in self.instances.values() if one.state is not InstanceState.ENDED)
        return self.room - sum(used)

    def _add(self, lease: str | None, cores: int | None, state: InstanceState, size: str = "any") -> str:
        own_id = f"i-{len(self.instances)}"
        self.instances[own_id] = CloudInstance(
            own_id, lease, state, size, cores, ("192.0.2.1",), account=None if lease else "someone"
        )
        return own_id
