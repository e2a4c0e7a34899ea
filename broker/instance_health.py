"""What ``spotfed doctor`` makes of the instances of real clouds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from broker.contract import CloudInfo
from broker.finding import Finding, failure, ok, warning
from broker.instances import InstanceRecord


def instance_findings(
    clouds: Sequence[CloudInfo],
    agents: Collection[str],
    records: Mapping[str, Sequence[InstanceRecord]],
) -> list[Finding]:
    """Nothing where no cloud is real.

    agents: the clouds whose agents show signs of life. records: what they know, by cloud.
    """
    return [
        _finding(one, records.get(one.id, ()), alive=one.id in agents)
        for one in clouds
        if one.instances is not None
    ]


def _finding(cloud: CloudInfo, records: Sequence[InstanceRecord], *, alive: bool) -> Finding:
    name = f"instances of {cloud.id}"
    if not alive:
        return failure(
            name,
            f"no agent runs: leases get no {cloud.instances} instances, and those of ended leases run on",
            f"start it: python -m workers.instances --cloud {cloud.id} --federation FILE",
        )
    states = Counter(one.state for one in records if one.lease is not None)
    foreign = [one for one in records if one.lease is None]
    told = ", ".join(f"{states[state]} {state}" for state in sorted(states)) or "none"
    said = f"of leases: {told}; started by the cloud's own users: {len(foreign)}"
    homeless = [one for one in foreign if not one.counted]
    if homeless:
        return warning(
            name,
            f"{said}, of which {len(homeless)} have no room in its owner's books",
            "the federation file names fewer or smaller nodes than the cloud has: correct nodes, and restart "
            "its owner",
        )
    stuck = next((one for one in records if one.state == "asked" and one.why), None)
    if stuck is not None:
        return warning(
            name,
            f"{said}; {stuck.lease} waits: {stuck.why}",
            "look at the cloud, and into the agent's log",
        )
    return ok(name, said)
