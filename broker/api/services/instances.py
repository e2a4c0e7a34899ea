"""Answers the node agents on instances of real clouds, which reach the federation by the HTTP API only.

Redis holds for them what it holds for other node agents (``broker.jobs.assignments``,
``broker.jobs.work_queue``), so job managers see no difference. A token stands for one piece of work. It is
good for what that needs while it is assigned, and for nothing once its lease has ended for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import cast

import redis
import redis.asyncio
import structlog

from broker.api.problems import bucket_away, invalid_field, no_bucket, not_found, unauthorized
from broker.contract import Lease, LeaseState
from broker.jobs.assignments import Assignments
from broker.jobs.bucket import KEPT, Bucket, BucketError
from broker.jobs.instance_tokens import InstanceToken, InstanceTokens, digest_token
from broker.jobs.models import (
    InstanceOutput,
    InstanceReport,
    InstanceWork,
    StateLinks,
    StateRequest,
    Work,
    WorkReport,
)
from broker.jobs.work_queue import SHOWN_BYTES, WorkStore
from broker.signing.signer import MessageSigner
from broker.storage.keys import RedisKeys

#: Seconds after the end of its lease for which an agent may still report how its work ended.
LAST_WORD_S = 60.0
_FOLLOW_S, _LOOK_S = 20.0, 0.5
_CLEANUP_S = 3600.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class InstanceCall:
    """A call of a node agent on an instance. ``digest``: of its token."""

    digest: str
    token: InstanceToken


@dataclass(frozen=True)
class _Assignment:
    """The assignment of an instance. work: None before it has any. lease: None if its cloud shows none."""

    work: Work | None = None
    lease: Lease | None = None
    leave_at: float | None = None
    report: WorkReport | None = None

    @property
    def version(self) -> str:
        """A digest of all that an agent must act on."""
        lease = (
            None
            if self.lease is None
            else self.lease.model_dump_json(include={"state", "evict_at_s", "cause"})
        )
        text = f"{self.work and self.work.model_dump_json()}\n{lease}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class InstanceService:
    """Answers for one API process. Every method may raise redis.RedisError."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        threads: redis.Redis,
        keys: RedisKeys,
        signing: MessageSigner,
        ring: Callable[[str], None],
        bucket: Bucket | None,
        kept_s: float,
    ):
        """Connect to nothing yet.

        ``threads`` is a client for threads. ``ring`` wakes job managers for a job, and returns at once.
        ``kept_s``: seconds for which states of jobs that have ended stay.
        """
        self._tokens = InstanceTokens(client, keys)
        self._client, self._keys, self._ring = threads, keys, ring
        self._works, self._bucket, self._kept_s = WorkStore(threads, keys), bucket, kept_s
        self._assignments = cache(lambda cloud: Assignments(threads, keys, cloud, signing))

    async def authenticate(self, authorization: str | None) -> InstanceCall:
        """Return the call that a token in an ``Authorization`` header makes. Raises ProblemError (401)."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            digest = digest_token(token.strip())
            known = await self._tokens.find(digest)
            if known is not None:
                return InstanceCall(digest, known)
        raise unauthorized("this token is not known here: its lease has ended")

    async def read_work(self, call: InstanceCall, version: str | None) -> InstanceWork:
        """Return what the instance is to do; wait a while for something else than ``version``.

        Raises ProblemError (401) when the token is worthless.
        """
        until_s = time.monotonic() + _FOLLOW_S
        while True:
            assignment = await self._read(call)
            if assignment.version != version or time.monotonic() > until_s:
                break
            await asyncio.sleep(_LOOK_S)
        lease = call.token.lease if assignment.work is None else assignment.work.instance
        await self._tokens.keep(call.digest, call.token.model_copy(update={"lease": lease}))
        leave_in_s = None if assignment.leave_at is None else assignment.leave_at - time.time()
        return InstanceWork(
            version=assignment.version,
            work=assignment.work,
            lease=assignment.lease,
            leave_in_s=leave_in_s,
            report=assignment.report,
        )

    async def write_report(self, call: InstanceCall, message: InstanceReport) -> None:
        """Keep a report, and wake a job manager for news. Raises ProblemError (401, 404, 422)."""
        work = _require_work(await self._read(call))
        if message.report.work != work.id:
            raise invalid_field("report.work", "is not the work of this token", work.id)
        await asyncio.to_thread(self._works.write_report, work.cloud, message.report)
        if message.is_news:
            self._ring(work.job)

    async def write_output(self, call: InstanceCall, output: InstanceOutput) -> None:
        """Show the last part of an output. Raises ProblemError (401, 404, 422)."""
        work = _require_work(await self._read(call))
        if len(output.part) > SHOWN_BYTES:
            raise invalid_field("part", "is too long", f"at most {SHOWN_BYTES} bytes")
        await asyncio.to_thread(self._works.write_log, work.cloud, work.id, output.offset, output.part)

    async def sign(self, call: InstanceCall, wanted: StateRequest) -> StateLinks:
        """Return addresses of files of a state. Raises ProblemError (401, 404, 409, 422, 503)."""
        assignment = await self._read(call)
        work, lease = _require_work(assignment), assignment.lease
        if lease is not None and not lease.state.is_open:
            raise unauthorized("the lease of this token has ended")
        if self._bucket is None:
            raise no_bucket()
        own = wanted.work == work.id
        if not own and (wanted.action == "write" or (wanted.work, wanted.checkpoint) != work.restore):
            raise invalid_field("work", "is not the work of this token", f"{work.id}, or what it begins with")
        try:
            urls = await asyncio.to_thread(self._sign, self._bucket, work.job, wanted)
        except BucketError as error:
            raise bucket_away(error) from error
        return StateLinks(urls=tuple(urls))

    def _sign(self, bucket: Bucket, job: str, wanted: StateRequest) -> list[str]:
        if wanted.action == "write" and KEPT in wanted.files:
            bucket.drop_before(job, wanted.work, wanted.checkpoint)
        return list(bucket.sign(job, wanted))

    async def _read(self, call: InstanceCall) -> _Assignment:
        """Return the assignment of a call. Raises ProblemError (401) when its token is worthless."""
        assignment = await asyncio.to_thread(self._read_assignment, call.token)
        if assignment is None:
            await self._tokens.drop(call.digest)
            raise unauthorized("this token is not known any more: its lease has ended")
        return assignment

    def _read_assignment(self, token: InstanceToken) -> _Assignment | None:
        assignments = self._assignments(token.cloud)
        work = assignments.read_one(token.work)
        if work is None:  # not assigned yet, taken back, or lost by Redis, and then it comes again
            lease = None if token.lease is None else assignments.read_lease(token.lease)
            has_ended = token.lease is not None and (lease is None or not lease.state.is_open)
            return None if has_ended else _Assignment()
        lease = assignments.read_lease(work.instance)
        leave_at = None
        if lease is not None and not lease.state.is_open and lease.ended_at_s is not None:
            if time.time() > assignments.wall_time(lease.ended_at_s) + LAST_WORD_S:
                return None
        elif lease is not None and lease.state is LeaseState.RUNNING and lease.evict_at_s is not None:
            leave_at = assignments.wall_time(lease.evict_at_s)
        report = self._works.read_reports(work.cloud, [work.id]).get(work.id)
        return _Assignment(work, lease, leave_at, report)

    # -- states that nobody needs ---------------------------------------------------------------------------

    async def remove_old_states(self) -> None:
        """Remove the states of jobs that ended long ago from the bucket, now and every hour."""
        while True:
            if self._bucket is not None:
                try:
                    removed = await asyncio.to_thread(self._remove_old_states, self._bucket)
                    if removed:
                        log.info("removed what was kept of jobs that ended long ago", jobs=removed)
                except (BucketError, redis.RedisError) as error:
                    log.warning("old states of jobs are not removed", why=str(error))
            await asyncio.sleep(_CLEANUP_S)

    def _remove_old_states(self, bucket: Bucket) -> list[str]:
        open_jobs = cast("list[bytes]", self._client.zrange(self._keys.open_jobs, 0, -1))
        before = datetime.fromtimestamp(time.time() - self._kept_s, UTC)
        return bucket.drop_old({job.decode() for job in open_jobs}, before)


def _require_work(assignment: _Assignment) -> Work:
    """Return the work. Raises ProblemError (404) while none is assigned."""
    if assignment.work is None:
        raise not_found("work")
    return assignment.work
