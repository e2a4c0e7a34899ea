"""Read what the node agent of a cloud is to run, and how the leases of that work stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import redis
import structlog
from pydantic import ValidationError

from broker.contract import Lease, read_message
from broker.jobs.models import Work
from broker.leases.lease_reader import LeaseReader
from broker.signing.parties import JOBS
from broker.signing.signer import UNSIGNED, MessageSigner, SignatureError
from broker.storage.keys import RedisKeys

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AssignmentBatch:
    """All work that a node agent is to run at one moment.

    works: by id. leases: those of work on spot instances by id, None where the cloud shows none.
    """

    works: Mapping[str, Work]
    leases: Mapping[str, Lease | None]


@dataclass(frozen=True)
class _CheckedWork:
    """One entry of Redis, checked, so that it is checked again only when it changes.

    source: its bytes, its signature and the generation of the keys it was checked with. work: what it says,
    None if it was refused. last: the newest version that was accepted.
    """

    source: tuple[bytes, bytes | None, int]
    work: Work | None
    last: Work | None


class Assignments:
    """Reads the work that job managers hand over. Its methods raise redis.RedisError while Redis is away."""

    def __init__(self, client: redis.Redis, keys: RedisKeys, cloud: str, signing: MessageSigner = UNSIGNED):
        self._client, self._keys, self._cloud, self._signing = client, keys, cloud, signing
        self._leases = LeaseReader(client, keys, cloud)
        self._checked: dict[str, _CheckedWork] = {}

    def read(self) -> AssignmentBatch:
        """Read all work and its leases. An entry that no job manager signed counts as unchanged."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hgetall(self._keys.work(self._cloud))
            pipeline.hgetall(self._keys.work_signatures(self._cloud))
            texts, signatures = pipeline.execute()
        self._checked = {
            name.decode(): self._check(name.decode(), text, signatures.get(name))
            for name, text in texts.items()
        }
        works = {name: entry.last for name, entry in self._checked.items() if entry.last is not None}
        leases = self._leases.read_leases({work.instance for work in works.values() if work.spot})
        return AssignmentBatch(works, leases)

    def read_one(self, name: str) -> Work | None:
        """Read one piece of work; None if there is none of that id, or no job manager signed it."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hget(self._keys.work(self._cloud), name)
            pipeline.hget(self._keys.work_signatures(self._cloud), name)
            text, signature = pipeline.execute()
        return None if text is None else self._check(name, text, signature).work

    def read_lease(self, lease: str) -> Lease | None:
        """Read a lease as the cloud shows it; None if it shows none of that id."""
        return self._leases.read_leases({lease})[lease]

    def wall_time(self, cloud_s: float) -> float:
        """Convert a time of the cloud to seconds since 1970; see ``LeaseReader.wall_time``."""
        return self._leases.wall_time(cloud_s)

    def _check(self, name: str, text: bytes, signature: bytes | None) -> _CheckedWork:
        before = self._checked.get(name)
        source = (text, signature, self._signing.generation)
        if before is not None and before.source == source:
            return before
        last = None if before is None else before.last
        try:
            audience = f"{self._keys.work(self._cloud)}:{name}"
            self._signing.verify(signature, text, audience, {JOBS})
            work = read_message(Work, text)
        except SignatureError as error:
            log.warning("work refused", work=name, why=str(error), reason=error.reason)
            return _CheckedWork(source, None, last)
        except ValidationError:
            log.warning("work cannot be read", work=name)
            return _CheckedWork(source, None, last)
        if (work.id, work.cloud) != (name, self._cloud):
            log.warning("work refused", work=name, why=f"it is {work.id} of {work.cloud}")
            return _CheckedWork(source, None, last)
        if last is not None and work.revision < last.revision:
            log.warning("work refused", work=name, why="a later order was seen")
            return _CheckedWork(source, None, last)
        return _CheckedWork(source, work, work)
