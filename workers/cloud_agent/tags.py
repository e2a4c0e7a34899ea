"""Mark instances with their leases, as tags or metadata that the cloud keeps with each."""

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
    """Makes and reads the tags of one federation's leases on one of its clouds.

    Two clouds of a federation may share an account, so the tags name the cloud.
    """

    prefix: str
    cloud: str

    def make_tags(self, desired: DesiredInstance) -> dict[str, str]:
        """Return the tags of an instance that is to start.

        Raises
        ------
        RefusedError
            When the lease's id is too long for a tag.
        """
        if len(desired.lease) > MOST_VALUE:
            raise RefusedError(
                f"clouds keep {MOST_VALUE} characters, the lease's id has {len(desired.lease)}"
            )
        return {
            self.lease_key: desired.lease,
            self._cloud_key: self.cloud,
            f"{self.prefix}:origin": desired.origin[:MOST_VALUE],
        }

    def read_lease(self, tags: Mapping[str, str]) -> str | None:
        """Return the lease of an instance with these tags, None if it is foreign."""
        return tags.get(self.lease_key) if tags.get(self._cloud_key) == self.cloud else None

    def make_id(self, own_id: str) -> dict[str, str]:
        """Return the tag that holds the cloud's own id of an instance, and so tells it from its copies."""
        return {self._id_key: own_id}

    def read_id(self, tags: Mapping[str, str]) -> str | None:
        """Return the id of the instance that these tags were written for, None if they do not say."""
        return tags.get(self._id_key)

    def make_notice(self, leaves_at: float) -> dict[str, str]:
        """Return the tag that gives notice: the time to leave, written like 2026-07-01T12:00:00Z.

        ``leaves_at``: seconds since 1970.
        """
        when = datetime.fromtimestamp(leaves_at, UTC)
        return {f"{self.prefix}:leaves-at": when.strftime("%Y-%m-%dT%H:%M:%SZ")}

    @property
    def overflow_key(self) -> str:
        """The key of the tag by which an own user says whether a failed request is offered elsewhere."""
        return f"{self.prefix}:overflow"

    def read_overflow(self, tags: Mapping[str, str]) -> str | None:
        """Return what a user says of that: a duration, or "no"; None if nothing."""
        return tags.get(self.overflow_key)

    def make_token(self, lease: str) -> str:
        """Return a short name for the lease's instance: letters, digits and dashes, at most 64 of them."""
        return f"{self._family}-{_digest(lease, 24)}"

    def is_token(self, text: str) -> bool:
        """Return True if the text is the token of a lease of this cloud."""
        return text.startswith(f"{self._family}-")

    @property
    def lease_key(self) -> str:
        """The key of the tag that holds the lease's id."""
        return f"{self.prefix}:lease"

    @property
    def _id_key(self) -> str:
        return f"{self.prefix}:instance"

    @property
    def _cloud_key(self) -> str:
        return f"{self.prefix}:cloud"

    @property
    def _family(self) -> str:
        return f"spotfed-{_digest(f'{self.prefix}/{self.cloud}', 8)}"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
