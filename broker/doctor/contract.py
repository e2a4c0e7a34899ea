"""Checks that all processes of the federation speak a version of the contract that the others read."""

from __future__ import annotations

import json
from typing import Any, cast

from broker.contract import VERSION
from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.storage.negotiation import list_older_processes, read_federation_version


@check("contract")
def check_contract(installation: Installation) -> CheckResult:
    """Check that owners write what this version reads, and that nobody speaks an older version."""
    unread = [
        cloud
        for cloud, info in installation.clouds.items()
        if info is None or (_last_version(installation, cloud) or 0) > VERSION
    ]
    if unread:
        return failure(
            f"this version (contract {VERSION}) cannot read what is written by: {', '.join(unread)}",
            "install the same spotfed here as on their owners' machines",
        )
    client, keys = installation.redis_client, installation.keys
    current = read_federation_version(client, keys)
    if current > VERSION:
        return failure(
            f"the federation speaks version {current} of the contract, and this spotfed up to {VERSION}",
            "install the version that the others have",
        )
    if held_back_by := list_older_processes(client, keys):
        return warning(
            f"the federation speaks version {current} of the contract instead of {VERSION}, because of: "
            f"{', '.join(held_back_by)}",
            "upgrade them (README, Upgrading); a member that will not come back is to be taken out",
        )
    if current < VERSION:
        return ok(f"everybody speaks version {VERSION} of the contract; in a moment it is written")
    return ok(f"the federation speaks version {VERSION} of the contract")


def _last_version(installation: Installation, cloud: str) -> int | None:
    """Return the contract version of a cloud's last journal entry, without judging the rest of it."""
    journal = installation.keys.journal(cloud)
    entries = cast("list[tuple[bytes, Any]]", installation.redis_client.xrevrange(journal, count=1))
    try:
        version = json.loads(entries[0][1][b"e"])["version"]
    except (ValueError, LookupError, TypeError):
        return None
    return version if isinstance(version, int) else None
