"""Our side of the benchmark: the product's inventory and pipeline, timed as ``compare`` asks.

The line-up is the paper's (``partial-hour``: exact least cost over all hosts and sets of victims) with a
weigher that prefers the emptiest host, as nova's handlers spread. Filters are the product's: room for cores
and memory, cordon, labels, affinity and anti-affinity. A request is timed from the call of ``plan`` until its
victims have left the inventory and it is placed.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from dataclasses import replace
from time import process_time

from cloudsim.model.instances import Instance, Placement
from cloudsim.model.nodes import NodeGroup, nodes_of
from cloudsim.model.requests import Amounts, Kind, Request
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import PARTIAL_HOUR, LineUp
from cloudsim.scheduling.pipeline import plan
from cloudsim.scheduling.victims import Choose, PlacementRequest
from cloudsim.scheduling.weighers import most_free_cores
from tests.bench.nova.scenarios import MEMORY_MB, SIZES, VCPUS, Scenario, Size, run_times_s

#: Seconds of the cloud's time at which the requests come; residents started earlier.
NOW_S = 1e6
_WARM_UP = 3


def _nobody(_inventory: Inventory, _wanted: PlacementRequest, _choose: Choose) -> Placement | None:
    return None


AWARE = replace(
    PARTIAL_HOUR, name="aware", weighers=((most_free_cores, 1.0),), spot_weighers=((most_free_cores, 1.0),)
)
#: Knows nothing of preemption: nobody is ever evicted.
PLAIN = replace(AWARE, name="plain", victims=_nobody)
CYCLES: dict[str, tuple[LineUp, ...]] = {"plain": (PLAIN,), "aware": (AWARE,), "retry": (PLAIN, AWARE)}


def measure(hosts: int, scenario: Scenario, requests: int) -> list[float]:
    """ms of process time of each request, in order; RuntimeError as ``compare`` describes."""
    _round(hosts, scenario, _WARM_UP)
    return _round(hosts, scenario, requests)


def _round(hosts: int, scenario: Scenario, count: int) -> list[float]:
    inventory = _infrastructure(hosts, saturated=scenario.state == "saturated")
    requests = list(_requests(scenario, count))
    cycles = CYCLES[scenario.scheduler]
    gc.collect()
    gc.freeze()
    times_ms, evicted = [], 0
    for number, request in enumerate(requests, start=hosts * VCPUS):
        begun = process_time()
        for lineup in cycles:
            placement = plan(inventory, request, lineup, NOW_S)
            if isinstance(placement, Placement):
                break
        if not isinstance(placement, Placement):
            raise RuntimeError(f"{scenario}: {request.id} of {count} was refused: {placement}")
        for victim in placement.victims:
            inventory.remove(victim.id)
        inventory.place(
            Instance(
                request.id,
                request.kind,
                request.cores,
                placement.node,
                NOW_S,
                math.inf,
                number,
                amounts=request.amounts,
            )
        )
        times_ms.append((process_time() - begun) * 1e3)
        evicted += len(placement.victims)
    gc.unfreeze()
    if (evicted > 0) != (scenario.state == "saturated"):
        raise RuntimeError(f"{scenario}: {evicted} instances were evicted")
    return times_ms


def _infrastructure(hosts: int, *, saturated: bool) -> Inventory:
    inventory = Inventory(*nodes_of([NodeGroup(hosts, VCPUS, (("memory_mb", MEMORY_MB),))]))
    small = SIZES["small"]
    if saturated:
        # In order of start, as instances of a cloud come.
        residents = sorted(
            (NOW_S - run_s, host) for host, runs in enumerate(run_times_s(hosts)) for run_s in runs
        )
        for number, (start_s, host) in enumerate(residents):
            inventory.place(
                Instance(
                    f"resident-{number}",
                    Kind.SPOT,
                    small.vcpus,
                    host,
                    start_s,
                    math.inf,
                    number,
                    amounts=_memory(small),
                )
            )
        assert len(inventory.spots)  # its columns are kept from the first use on
    return inventory


def _requests(scenario: Scenario, count: int) -> Iterator[Request]:
    size = SIZES[scenario.size]
    kind = Kind.SPOT if scenario.kind == "preemptible" else Kind.ON_DEMAND
    for number in range(count):
        yield Request(f"request-{number}", kind, size.vcpus, 3600.0, amounts=_memory(size))


def _memory(size: Size) -> Amounts:
    """What an instance takes beside cores. Disks are left out, as in docs/design/preemption.md: eight small
    ones of 20 GB do not fit on 140 GB."""
    return (("memory_mb", size.memory_mb),)
