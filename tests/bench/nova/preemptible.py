"""The paper's preemptible-aware scheduling on nova's own host states, filters and weighers. Runs in
.venv-nova.

A host has two states (§3.1): the full one counts everything, the normal one leaves preemptible instances out.
Both are kept up to date from request to request, which spares nova's side what the paper's prototype did:
deriving the second state anew for each request. Normal requests are filtered on the normal state, preemptible
ones on the full state; hosts are always rated on the full state. The two weighers are Algorithms 3 and 4 as
printed. Algorithm 4 charges a host for all its preemptible instances, which finds a host faster than rating
each host's cheapest sufficient set, as ours does, but not always the right host.
"""

# mypy: disable-error-code="import-not-found"
# mypy: allow-subclassing-any

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from nova import objects
from nova.scheduler.host_manager import HostManager, HostState
from nova.scheduler.weights import BaseHostWeigher

from tests.bench.nova import scenarios
from tests.bench.nova.termination import Resident, period_cost, select_victims

HINT = "preemptible"  # the scheduler hint that makes a request preemptible
_SMALL = scenarios.SIZES["small"]
_CELL = str(uuid.UUID(int=1))
_Victims = tuple[Resident, ...]


def is_preemptible(spec: Any) -> bool:
    """Whether a request asks for a preemptible instance."""
    return spec.get_scheduler_hint(HINT) is not None


class FullState(HostState):
    """A host with all that runs on it; ``normal`` is the same host without its preemptible instances."""

    def __init__(self, host: str, node: str, cell: str) -> None:
        super().__init__(host, node, cell)
        self.normal = HostState(host, node, cell)
        self.normal.full = self
        self.residents: list[Resident] = []

    def short_of(self, spec: Any) -> tuple[int, int]:
        """The vCPUs and MB that a request lacks here; zero or less where there is enough."""
        free_vcpus = self.vcpus_total - self.vcpus_used
        return spec.vcpus - free_vcpus, spec.memory_mb - self.free_ram_mb

    def overcommitted_by(self, spec: Any) -> bool:
        """Whether a request needs the end of a preemptible instance here."""
        return any(lacking > 0 for lacking in self.short_of(spec))

    def consume_from_request(self, spec: Any) -> None:
        """Both states take a normal instance in, the full one alone a preemptible one."""
        super().consume_from_request(spec)
        if is_preemptible(spec):
            self.residents.append(Resident(spec.instance_uuid, spec.vcpus, spec.memory_mb, 0.0))
        else:
            self.normal.consume_from_request(spec)

    def end(self, victims: _Victims) -> None:
        """Gives back what some preemptible instances held."""
        for victim in victims:
            self.residents.remove(victim)
            del self.instances[victim.uuid]
            self.vcpus_used -= victim.vcpus
            self.free_ram_mb += victim.memory_mb
            self.num_instances -= 1


class LocalHostManager(HostManager):
    """Nova's, asking no database when it starts."""

    def refresh_cells_caches(self) -> None:
        """No cells."""

    def _init_aggregates(self) -> None:
        """No aggregates."""

    def _init_instance_info(self, computes_by_cell: Any = None) -> None:
        """No instances but those of the host states."""


class PreemptibleHostManager(LocalHostManager):
    """Algorithm 2: filters on the state that a request's kind calls for, rates on the full state."""

    def __init__(self) -> None:
        super().__init__()
        self.weighers += [OvercommitWeigher(), PeriodWeigher()]

    def get_filtered_hosts(self, hosts: Sequence[FullState], spec_obj: Any, index: int = 0) -> Any:
        """The full states of the hosts that pass."""
        if is_preemptible(spec_obj):
            return super().get_filtered_hosts(hosts, spec_obj, index)
        passed = super().get_filtered_hosts([state.normal for state in hosts], spec_obj, index)
        return [state.full for state in passed]


class OvercommitWeigher(BaseHostWeigher):
    """Algorithm 3: hosts with room before hosts without; the multiplier outweighs nova's own weighers."""

    def weight_multiplier(self, host_state: Any) -> float:
        return 1e5

    def _weigh_object(self, host_state: Any, spec: Any) -> float:
        return -1.0 if host_state.overcommitted_by(spec) else 0.0


class PeriodWeigher(BaseHostWeigher):
    """Algorithm 4: hosts with little begun of the hours of their preemptible instances first."""

    def weight_multiplier(self, host_state: Any) -> float:
        return 1e3

    def _weigh_object(self, host_state: Any, spec: Any) -> float:
        return -period_cost(host_state.residents)


class Schedule(Protocol):
    """A scheduler: places a request, changes the states, returns whom it ended; None when it found no
    host."""

    def __call__(self, spec: Any, states: Sequence[FullState]) -> _Victims | None: ...


class Plain:
    """Nova's scheduler as it is."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __call__(self, spec: Any, states: Sequence[FullState]) -> _Victims | None:
        found = self._manager._get_sorted_hosts(spec, states, 0)
        if not found:
            return None
        self._manager._consume_selected_host(found[0], spec, spec.instance_uuid)
        return ()


class Aware:
    """Algorithm 6: one cycle; the best host, and whom to end there if it is overcommitted."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __call__(self, spec: Any, states: Sequence[FullState]) -> _Victims | None:
        found = self._manager._get_sorted_hosts(spec, states, 0)
        if not found:
            return None
        best = found[0]
        victims: _Victims = ()
        if best.overcommitted_by(spec):
            sufficient = select_victims(best.residents, *best.short_of(spec))
            assert sufficient is not None, "a host that passes on its normal state has a sufficient set"
            victims = sufficient
            best.end(victims)
        self._manager._consume_selected_host(best, spec, spec.instance_uuid)
        return victims


class Retry:
    """The paper's comparison (§4.5): a plain cycle, and a second, aware one when a normal request failed
    it."""

    def __init__(self, first: Plain, second: Aware) -> None:
        self._first, self._second = first, second

    def __call__(self, spec: Any, states: Sequence[FullState]) -> _Victims | None:
        placed = self._first(spec, states)
        return self._second(spec, states) if placed is None and not is_preemptible(spec) else placed


def host(number: int, run_times_s: Sequence[float], seen: datetime) -> FullState:
    """A host with small preemptible instances that have run so long, its service last heard of at
    ``seen``."""
    name = f"host-{number}"
    state = FullState(name, name, _CELL)
    state.residents = [
        Resident(str(uuid.UUID(int=(number << 8) + n + 2)), _SMALL.vcpus, _SMALL.memory_mb, run_time_s)
        for n, run_time_s in enumerate(run_times_s)
    ]
    service = {"host": name, "disabled": False, "last_seen_up": seen, "created_at": seen}
    running = {one.uuid: objects.Instance(uuid=one.uuid) for one in state.residents}
    for half, inside in ((state, running), (state.normal, {})):
        half.update(_compute_node(number, name, len(inside), seen), service, [], inside)
    return state


def _compute_node(number: int, name: str, small: int, seen: datetime) -> Any:
    """What a compute service reports that runs so many small instances."""
    disk_gb, memory_mb = small * _SMALL.disk_gb, small * _SMALL.memory_mb
    return objects.ComputeNode(
        id=number, uuid=str(uuid.UUID(int=(1 << 90) + number)), host=name, hypervisor_hostname=name,
        vcpus=scenarios.VCPUS, memory_mb=scenarios.MEMORY_MB, local_gb=scenarios.DISK_GB,
        vcpus_used=small * _SMALL.vcpus, memory_mb_used=memory_mb, local_gb_used=disk_gb,
        free_ram_mb=scenarios.MEMORY_MB - memory_mb, free_disk_gb=scenarios.DISK_GB - disk_gb,
        disk_available_least=None, running_vms=small, current_workload=0, hypervisor_type="QEMU",
        hypervisor_version=6002000, cpu_info="{}", metrics="[]", numa_topology=None, supported_hv_specs=[],
        stats={"num_instances": str(small), "io_workload": "0", "failed_builds": "0"},
        pci_device_pools=objects.PciDevicePoolList(objects=[]), host_ip="192.0.2.1", updated_at=seen,
        cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0, disk_allocation_ratio=1.0,
    )  # fmt: skip
