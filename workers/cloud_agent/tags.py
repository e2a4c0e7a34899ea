"""How an instance tells whose it is: marks that a cloud keeps with it, as tags or as metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.cloud_agent.drivers.base import DesiredInstance, RefusedError

#: EC2 keeps 256 characters of a tag, OpenStack 255 of a value.
MOST_VALUE = 255


@dataclass(frozen=True)
class InstanceTags:
    """Of one federation's leases on one of its clouds. Two clouds of a federation may share an account."""

    prefix: str
    cloud: str

    def of(self, wanted: DesiredInstance) -> dict[str, str]:
        """Those of an instance that is to start. Raises RefusedError for a lease that no cloud can keep."""
        if len(wanted.lease) > MOST_VALUE:
            raise RefusedError(f"clouds keep {MOST_VALUE} characters, the lease's id has {len(wanted.lease)}")
        return {
            self.lease_key: wanted.lease,
            self._cloud_key: self.cloud,
            f"{self.prefix}:origin": wanted.origin[:MOST_VALUE],
        }

    def lease(self, found: Mapping[str, str]) -> str | None:
        """The lease of an instance with these marks; None where it is foreign."""
        return found.get(self.lease_key) if found.get(self._cloud_key) == self.cloud else None

    def leaving(self, leaves_at: float) -> dict[str, str]:
        """Notice to an instance: it must leave then, seconds since 1970; as 2026-07-01T12:00:00Z."""
        when = datetime.fromtimestamp(leaves_at, UTC)
        return {f"{self.prefix}:leaves-at": when.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def token(self, lease: str) -> str:
        """A short name for the lease's instance: letters, digits and dashes, at most 64 of them."""
        return f"{self._family}-{_digest(lease, 24)}"

    def is_token(self, text: str) -> bool:
        """Whether that is the token of a lease of this cloud."""
        return text.startswith(f"{self._family}-")

    @property
    def lease_key(self) -> str:
        """Of the mark that holds the lease's id."""
        return f"{self.prefix}:lease"

    @property
    def _cloud_key(self) -> str:
        return f"{self.prefix}:cloud"

    @property
    def _family(self) -> str:
        return f"spotfed-{_digest(f'{self.prefix}/{self.cloud}', 8)}"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
