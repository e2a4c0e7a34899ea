"""Checks the instances of real clouds, and the agents that start and end them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.contract import CloudInfo, read_message
from broker.contract.instances import InstanceCatalogue
from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.leases.instances import read_instance_records


@check("instances")
def check_instances(installation: Installation) -> Iterator[CheckResult]:
    """Check that every real cloud has an agent and that its instances agree with the owner's books."""
    for cloud in installation.readable_clouds:
        if cloud.instances is not None:
            yield _judge_cloud(installation, cloud)
            yield from _tell_faults(installation, cloud)


def _judge_cloud(installation: Installation, cloud: CloudInfo) -> CheckResult:
    client, keys, name = installation.redis_client, installation.keys, f"instances of {cloud.id}"
    if not client.exists(keys.agent(cloud.id)):
        return failure(
            f"no agent runs: leases get no {cloud.instances} instances, and those of ended leases run on",
            f"start it: python -m workers.cloud_agent --cloud {cloud.id} --federation FILE",
            name=name,
        )
    records = read_instance_records(client, keys, cloud.id)
    states = Counter(record.state for record in records if record.lease is not None)
    foreign = [record for record in records if record.lease is None]
    counts = ", ".join(f"{states[state]} {state}" for state in sorted(states)) or "none"
    found = f"of leases: {counts}; started by the cloud's own users: {len(foreign)}"
    roomless = sum(not record.counted for record in foreign)
    if roomless:
        return warning(
            f"{found}, of which {roomless} have no room in its owner's books",
            "the federation file names fewer or smaller nodes than the cloud has: correct nodes, and "
            "restart its owner",
            name=name,
        )
    waiting = next((record for record in records if record.state == "asked" and record.why), None)
    if waiting is not None:
        advice = "look at the cloud, and into the agent's log"
        return warning(f"{found}; {waiting.lease} waits: {waiting.why}", advice, name=name)
    return ok(found, name=name)


def _tell_faults(installation: Installation, cloud: CloudInfo) -> Iterator[CheckResult]:
    """Yield what the agent finds wrong with its cloud, as ``spotfed cloud check`` does."""
    catalogue = installation.redis_client.hget(installation.keys.catalogue(cloud.id), "c")
    if catalogue is not None and (faults := read_message(InstanceCatalogue, catalogue).faults):
        advice = f"spotfed cloud check FEDERATION.toml --cloud {cloud.id} says more"
        yield warning("; ".join(faults), advice, name=f"leases of {cloud.id}")
