"""Checks whether the leases of a cloud can become instances, before the first one is promised."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from uuid import uuid4

from broker.doctor.check import CheckResult, State, failure, ok, warning
from cloudsim.model.nodes import CORES, CORES_ONLY, NodeDetails, NodeGroup, shape_of
from workers.cloud_agent.drivers.base import (
    DISK,
    HOST,
    MEMORY,
    CommonOptions,
    DesiredInstance,
    InstanceDriver,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
    guard_check,
)

#: Seconds that a test instance may take to run, and to end.
START_LIMIT_S = 600.0
_LOOK_S = 1.0


def check_cloud(
    options: CommonOptions,
    driver: InstanceDriver,
    node_cores: Sequence[int],
    details: NodeDetails = CORES_ONLY,
    *,
    start: bool = False,
) -> Iterator[CheckResult]:
    """Yield what was found of a cloud; without access to it that is the only result.

    Parameters
    ----------
    node_cores, details:
        The nodes in the federation file.
    start:
        Start an instance of the smallest size, and end it.
    """
    try:
        yield from _check_load(options, driver)
    except InstanceError as error:
        yield failure(
            f"the cloud cannot be used: {error}",
            "correct endpoint and credentials, then check again",
            name="access",
        )
        return
    yield from guard_check("cloud", driver.check())
    yield from guard_check("flavours", _check_sizes(options, driver, node_cores))
    yield from guard_check("hosts", _check_hosts(driver, node_cores, details))
    if start:
        yield from guard_check("test instance", _check_start(options, driver))


def list_faults(
    driver: InstanceDriver, node_cores: Sequence[int] = (), details: NodeDetails = CORES_ONLY
) -> Iterator[str]:
    """Yield in words what a driver finds wrong with its cloud, and with the nodes that the file gives it."""
    yield from _faults(guard_check("cloud", driver.check()))
    yield from _faults(guard_check("hosts", _check_hosts(driver, node_cores, details)))


def _faults(results: Iterator[CheckResult]) -> Iterator[str]:
    return (f"{result.name}: {result.found}" for result in results if result.state is not State.OK)


def _check_load(options: CommonOptions, driver: InstanceDriver) -> Iterator[CheckResult]:
    """Yield whether the cloud is reached, and what its own users run there."""
    instances = [one for one in driver.list_instances() if one.state is not InstanceState.ENDED]
    yield ok(f"the cloud lists {len(instances)} instances to these credentials", name="access")
    foreign = [one for one in instances if one.lease is None]
    cores = [options.cores(one.size) if one.cores is None else one.cores for one in foreign]
    found = f"the cloud's own users run {len(foreign)} instances of {sum(filter(None, cores))} cores"
    unknown = sorted({one.size for one, count in zip(foreign, cores, strict=True) if count is None})
    if unknown:
        advice = f"say the cores of {', '.join(unknown)} in foreign_sizes, or they are not counted"
        yield warning(found, advice, name="own load")
    elif not options.lists_all_users:
        advice = (
            "only instances of this account are seen: set all_users, or the load of others is not counted"
        )
        yield warning(found, advice, name="own load")
    else:
        yield ok(found, f"for a first table, import {options.export}", name="own load")


def _check_sizes(
    options: CommonOptions, driver: InstanceDriver, node_cores: Sequence[int]
) -> Iterator[CheckResult]:
    """Yield whether each size of the file is there, and fits a node of the file."""
    flavours = driver.list_flavours()
    missing = sorted(set(options.sizes.values()) - {flavour.name for flavour in flavours})
    if missing:
        yield failure(f"the cloud has no {', '.join(missing)}", "correct sizes", name="flavours")
    if flavours:
        named = ", ".join(f"{flavour.name} ({flavour.cores} cores)" for flavour in flavours[:20])
        yield ok(f"leases get {named}", name="flavours")
    large = [
        flavour.name for flavour in flavours if not flavour.is_divisible and flavour.cores > max(node_cores)
    ]
    if large:
        advice = "no lease ever gets them: correct nodes, or leave them out"
        yield warning(f"{', '.join(large)}: larger than any node of the file", advice, name="nodes")
    free = driver.free_cores()
    if free is not None and free < sum(node_cores):
        yield warning(
            f"the cloud gives {free} cores more, and the file has nodes of {sum(node_cores)}",
            "raise the quota, or wait until own users leave room, or correct nodes",
            name="room",
        )


def _check_hosts(
    driver: InstanceDriver, node_cores: Sequence[int], details: NodeDetails
) -> Iterator[CheckResult]:
    """Yield whether the cloud's hosts have what the file says of its nodes."""
    hosts = {host.name: host for host in sorted(driver.list_hosts(), key=lambda host: host.name)}
    if not hosts:
        return
    groups = [
        NodeGroup(1, host.cores, host.amounts, frozenset({(HOST, host.name)})) for host in hosts.values()
    ]
    advice = f"the cloud's hosts give away {shape_of(groups)}"
    named = {host: node for node, labels in enumerate(details.labels) for key, host in labels if key == HOST}
    missing = sorted(named.keys() - hosts.keys())
    faults = [f"no host that takes servers is called {host}" for host in missing]
    for host in sorted(named.keys() & hosts.keys()):
        has = {CORES: hosts[host].cores, **dict(hosts[host].amounts)}
        said = {CORES: node_cores[named[host]]}
        said |= {name: each[named[host]] for name, each in details.amounts}
        faults += [
            f"{host} has {has.get(name, 0)} of the {amount} {name} of its node"
            for name, amount in said.items()
            if has.get(name, 0) < amount
        ]
    if not named:
        faults.append("nodes name no host: room for own users may be freed on several of them")
    faults += [
        f"nodes have no {name}: room is freed for own users without it"
        for name in (MEMORY, DISK)
        if name not in details.resources
    ]
    if faults:
        yield (failure if missing else warning)("; ".join(faults), advice, name="hosts")
    else:
        yield ok("hosts have what the file says of nodes", name="hosts")


def _check_start(options: CommonOptions, driver: InstanceDriver) -> Iterator[CheckResult]:
    """Start an instance of the smallest size, wait until it runs, and end it."""
    lease, began_s = f"check-{uuid4().hex[:12]}.1", time.monotonic()
    cores = 1 if not options.sizes else min(options.sizes)
    try:
        state = _start(driver, DesiredInstance(lease, cores, "check"))
        took_s = time.monotonic() - began_s
    finally:
        driver.end(lease)
    if state is not InstanceState.RUNNING:
        yield failure(
            f"an instance of {cores} cores did not run ({state or 'not listed'})", "look at it at the cloud",
            name="test instance",
        )  # fmt: skip
    elif _await(driver, lease, {InstanceState.ENDED, None}) not in (InstanceState.ENDED, None):
        yield failure("the test instance does not end", "end it at the cloud", name="test instance")
    else:
        yield ok(
            f"an instance of {cores} cores ran after {took_s:.1f} s, and was ended", name="test instance"
        )


def _start(driver: InstanceDriver, desired: DesiredInstance) -> InstanceState | None:
    """Start an instance as the agent does, again where the cloud cannot do it yet; return its state."""
    until_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            driver.start(desired)
            break
        except InstanceError as error:
            if isinstance(error, NoRoomError | RefusedError) or time.monotonic() > until_s:
                raise
            time.sleep(_LOOK_S)
    return _await(driver, desired.lease, {InstanceState.RUNNING, InstanceState.ENDED})


def _await(driver: InstanceDriver, lease: str, states: set[InstanceState | None]) -> InstanceState | None:
    """Wait until a lease's instance is in one of these states, and return its state, None if not listed."""
    until_s = time.monotonic() + START_LIMIT_S
    while True:
        listed = [one.state for one in driver.list_instances() if one.lease == lease]
        state = listed[0] if listed else None
        if state in states or time.monotonic() > until_s:
            return state
        time.sleep(_LOOK_S)
