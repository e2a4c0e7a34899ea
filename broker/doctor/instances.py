"""Checks the instances of real clouds, and the agents that start and end them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from broker.contract import CloudInfo, read_message
from broker.contract.instances import STUCK, InstanceCatalogue
from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.leases.instances import read_instance_records
from cloudsim.model.reserved_ids import is_block


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
    silence = cast("bytes | None", client.get(keys.silent_cloud(cloud.id)))
    if silence is not None:
        return failure(
            f"the cloud's API has not answered {silence.decode(errors='replace')}: no lease is sent there",
            "look at the cloud, and at the way to it; instances stay as they are, and no lease ends",
            name=name,
        )
    records = read_instance_records(client, keys, cloud.id)
    states = Counter(record.state for record in records if record.lease is not None)
    others = [record for record in records if record.lease is None]
    # A request that failed and is offered to other clouds holds nothing here.
    foreign = [record for record in others if not is_block(record.on_demand or "")]
    stuck = [str(record.own_id) for record in foreign if (record.why or "").startswith(STUCK)]
    if stuck:
        return failure(
            f"{len(stuck)} instances of ended leases cannot be ended, and count as used: {', '.join(stuck)}",
            "end them at the cloud; the agent goes on trying, and its log says what the cloud answers",
            name=name,
        )
    counts = ", ".join(f"{states[state]} {state}" for state in sorted(states)) or "none"
    found = f"of leases: {counts}; started by the cloud's own users: {len(foreign)}"
    if len(others) > len(foreign):
        found += f"; of theirs, offered to other clouds: {len(others) - len(foreign)}"
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
