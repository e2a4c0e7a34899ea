"""OpenStack's scheduler, measured: runs in .venv-nova, in one process, without database or message bus.

    .venv-nova/bin/python -W ignore -m tests.bench.nova.nova_side --hosts 24,100,1000 [--scheduler plain]
        [--state empty] [--kind normal] [--size small] [--requests 130] [--line-up default]

Prints a JSON object a line: the case, and what each request took in ms of process time. ``--serve`` reads
cases of the same form, a line each, from standard input instead, as ``compare.py`` sends them.

Timed, from a request to the changed states: nova's own ``SchedulerManager._get_sorted_hosts`` (filters,
weighers, sorting), the paper's choice of whom to end, and nova's ``_consume_selected_host``. Not timed:
making the hosts and the request.

What nova's side does more than ours, in the line-up ``default``: it asks whether the compute service is up,
matches flavour extra specs and image properties, and rates hosts by all 13 of its weighers; ``alike``
leaves it the filters that ours has (RAM, cores, server-group anti-affinity and affinity) and the weigher of
free RAM. In both it sorts all hosts that pass, since it also names alternates, and calls log functions.
What it does less here than in service: no host state is refreshed from the database and nothing is claimed
from Placement, which would filter by capacity first.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nova.conf
from nova import objects
from nova.scheduler.manager import SchedulerManager

from tests.bench.nova import preemptible, scenarios
from tests.bench.nova.scenarios import Scenario

CONF = nova.conf.CONF
#: Capacity first, where nova had it while it still had these filters; then the defaults of nova 34.
LINE_UPS = {
    "default": (
        ["RamFilter", "CoreFilter", "ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter",
         "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"],
        ["nova.scheduler.weights.all_weighers"],
    ),
    "alike": (
        ["RamFilter", "CoreFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"],
        ["nova.scheduler.weights.ram.RAMWeigher"],
    ),
}  # fmt: skip
WARM_UP = 20  # requests of each scheduler that nobody counts


def configure() -> None:
    """Nova's options: their defaults, but for the filters of 18.3 and services that never count as down."""
    sys.path.append(str(Path(sys.prefix) / "filters-18.3.0"))
    CONF([], project="nova", default_config_files=[], default_config_dirs=[])
    CONF.set_override("service_down_time", 10**7)
    CONF.set_override("track_instance_changes", False, "filter_scheduler")
    available = ["nova.scheduler.filters.all_filters", "ram_filter.RamFilter", "core_filter.CoreFilter"]
    CONF.set_override("available_filters", available, "filter_scheduler")
    objects.register_all()


def schedulers(line_up: str) -> dict[str, preemptible.Schedule]:
    """The paper's three schedulers on nova's handlers."""
    enabled, weighers = LINE_UPS[line_up]
    CONF.set_override("enabled_filters", enabled, "filter_scheduler")
    CONF.set_override("weight_classes", weighers, "filter_scheduler")
    plain, aware = SchedulerManager.__new__(SchedulerManager), SchedulerManager.__new__(SchedulerManager)
    plain.host_manager = preemptible.LocalHostManager()
    aware.host_manager = preemptible.PreemptibleHostManager()
    return {
        "plain": preemptible.Plain(plain),
        "aware": preemptible.Aware(aware),
        "retry": preemptible.Retry(preemptible.Plain(plain), preemptible.Aware(aware)),
    }


def infrastructure(hosts: int, state: str) -> list[preemptible.FullState]:
    """Host states made of compute nodes, as nova does on every request."""
    seen = datetime.now(UTC)
    run_times_s = scenarios.run_times_s(hosts) if state == "saturated" else [[] for _ in range(hosts)]
    return [preemptible.host(number, run_times_s[number], seen) for number in range(hosts)]


def request(scenario: Scenario, number: int) -> Any:
    """One instance, in no server group."""
    size = scenarios.SIZES[scenario.size]
    flavor = objects.Flavor(
        vcpus=size.vcpus,
        memory_mb=size.memory_mb,
        root_gb=size.disk_gb,
        ephemeral_gb=0,
        swap=0,
        extra_specs={},
    )
    hints = {preemptible.HINT: ["yes"]} if scenario.kind == "preemptible" else {}
    return objects.RequestSpec(
        flavor=flavor, image=objects.ImageMeta(properties=objects.ImageMetaProps()), num_instances=1,
        instance_uuid=str(uuid.UUID(int=(1 << 100) + number)), project_id="bench", pci_requests=None,
        numa_topology=None, ignore_hosts=None, force_hosts=None, force_nodes=None, requested_destination=None,
        retry=None, limits=objects.SchedulerLimits(), instance_group=None, scheduler_hints=hints,
        requested_resources=[],
    )  # fmt: skip


def measure(schedule: preemptible.Schedule, hosts: int, scenario: Scenario, requests: int) -> dict[str, Any]:
    """One round on an infrastructure of its own: ms a request, and how many instances were ended."""
    scenario.check(hosts, requests)
    gc.unfreeze()
    gc.collect()
    random.seed(scenarios.SEED)  # nova draws among equals
    states = infrastructure(hosts, scenario.state)
    specs = [request(scenario, number) for number in range(requests)]
    gc.freeze()
    ms: list[float] = []
    ended = 0
    for spec in specs:
        began = time.process_time()
        victims = schedule(spec, states)
        ms.append(round((time.process_time() - began) * 1e3, 4))
        if victims is None or bool(victims) != (scenario.state == "saturated"):
            raise AssertionError(
                f"{scenario}: a request {'failed' if victims is None else f'ended {victims}'}"
            )
        ended += len(victims)
    return {"hosts": hosts, **scenario.as_row(), "requests": requests, "ended": ended, "ms": ms}


def warm_up(parties: dict[str, preemptible.Schedule]) -> None:
    """Imports, caches and log records of the first requests are no part of a measurement."""
    for scenario in scenarios.FIGURE_2:
        measure(parties[scenario.scheduler], 24, scenario, WARM_UP)


def asked(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The cases of the command line, or those of standard input."""
    if arguments.serve:
        for line in sys.stdin:
            yield json.loads(line)
        return
    fields = ("scheduler", "state", "kind", "size", "requests", "line_up")
    for hosts in arguments.hosts.split(","):
        yield {"hosts": int(hosts), **{field: getattr(arguments, field) for field in fields}}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", default="24", help="numbers of hosts, with commas between")
    parser.add_argument("--scheduler", default="plain", choices=scenarios.SCHEDULERS)
    parser.add_argument("--state", default="empty", choices=scenarios.STATES)
    parser.add_argument("--kind", default="normal", choices=scenarios.KINDS)
    parser.add_argument("--size", default="small", choices=tuple(scenarios.SIZES))
    parser.add_argument("--requests", type=int, default=130)
    parser.add_argument("--line-up", default="default", choices=tuple(LINE_UPS))
    parser.add_argument("--serve", action="store_true", help="read cases from standard input")
    configure()
    parties: dict[str, dict[str, preemptible.Schedule]] = {}
    for case in asked(parser.parse_args()):
        line_up = case["line_up"]
        if line_up not in parties:
            parties[line_up] = schedulers(line_up)
            warm_up(parties[line_up])
        scenario = Scenario(case["scheduler"], case["state"], case["kind"], case["size"])
        result = measure(parties[line_up][scenario.scheduler], case["hosts"], scenario, case["requests"])
        print(json.dumps({"line_up": line_up, **result}), flush=True)


if __name__ == "__main__":
    main()
