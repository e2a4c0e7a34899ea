"""Names of everything spotfed keeps in Redis, all behind one prefix. One line says what lives there.

Streams are the truth; strings and sets beside them are projections written in the same transaction.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


def api_key_digest(key: str) -> str:
    """What is stored of an API key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class RedisKeys:
    """Key names under ``prefix``, for example ``spotfed:``."""

    prefix: str = "spotfed:"

    # One cloud, written by its owner only (but for the inbox).
    def inbox(self, cloud: str) -> str:
        """Stream: commands for the owner; field ``c`` is a JSON list of commands, ``s`` its signature."""
        return f"{self.prefix}inbox:{cloud}"

    def dead(self, cloud: str) -> str:
        """Stream: what the owner could not read or broke over, see broker.journal.dead_letters; fields
        ``c`` (the
        entry, cut off), ``size`` of it, ``why``, ``kind``, ``of`` (which entry) and ``items`` of it."""
        return f"{self.prefix}dead:{cloud}"

    def cursor(self, cloud: str) -> str:
        """String: id of the last inbox entry that was handled; set in the same script as its journal
        entries."""
        return f"{self.prefix}cursor:{cloud}"

    def journal(self, cloud: str) -> str:
        """Stream: all events of the cloud, ids ``<epoch>-<n>``, n from 1; field ``e`` is an Event, ``h`` its
        hash (`broker.journal.hash_chain`)."""
        return f"{self.prefix}journal:{cloud}"

    def snapshot(self, cloud: str) -> str:
        """String: the state of the cloud's owner after a journal entry, see `workers.owner.snapshots`."""
        return f"{self.prefix}snapshot:{cloud}"

    def events(self, cloud: str) -> str:
        """Stream: the cloud's public events, ids ``0-<sequence>``; field ``e`` is an Event. Gaps are read
        from here."""
        return f"{self.prefix}events:{cloud}"

    def channel(self, cloud: str) -> str:
        """Pub/sub channel: the cloud's public events, whole, as JSON. ``<prefix>events:*`` matches all
        clouds."""
        return f"{self.prefix}events:{cloud}"

    def owner(self, cloud: str) -> str:
        """String with a time to live: token of the process that owns the cloud now."""
        return f"{self.prefix}owner:{cloud}"

    def epoch(self, cloud: str) -> str:
        """Integer that only grows: the fencing number of the owner."""
        return f"{self.prefix}epoch:{cloud}"

    def seen(self, cloud: str) -> str:
        """Hash: session of a process that signs to which of its signed inbox entries were handled."""
        return f"{self.prefix}seen:{cloud}"

    def advert(self, cloud: str) -> str:
        """String: the cloud's Advert."""
        return f"{self.prefix}advert:{cloud}"

    def advert_signature(self, cloud: str) -> str:
        """String: the signature of the cloud's Advert, written with it."""
        return f"{self.prefix}advert-signature:{cloud}"

    def table(self, cloud: str) -> str:
        """String: the cloud's quantile table for people: JSON with version, made_at_s and rows."""
        return f"{self.prefix}table:{cloud}"

    def table_signature(self, cloud: str) -> str:
        """String: the signature of the cloud's table, written with it."""
        return f"{self.prefix}table-signature:{cloud}"

    def measures(self, cloud: str) -> str:
        """Hash: what the cloud's owner measures of itself for operators, see
        broker.observability.owner_stats."""
        return f"{self.prefix}measures:{cloud}"

    def running(self, cloud: str) -> str:
        """Set: ids of the cloud's spot leases that have not ended."""
        return f"{self.prefix}running:{cloud}"

    def lease(self, cloud: str, lease: str) -> str:
        """String: a spot Lease as it is now; expires some time after its end. See broker.leases.store."""
        return f"{self.prefix}shown:{cloud}:{lease}"

    def history(self, cloud: str, epoch: int) -> str:
        """List: event logs between refresh boundaries, as the Monte-Carlo workers read them."""
        return f"{self.prefix}history:{cloud}:{epoch}"

    # The federation.
    @property
    def clouds(self) -> str:
        """Hash: cloud id to CloudInfo."""
        return f"{self.prefix}clouds"

    @property
    def contract(self) -> str:
        """Integer that only grows: the version of the contract that the federation speaks."""
        return f"{self.prefix}contract"

    def spoken_by(self, cloud: str) -> str:
        """String: the contract version that the cloud's owner speaks, the epoch of that owner, its token."""
        return f"{self.prefix}contract:{cloud}"

    def speaks(self, process: str) -> str:
        """String with a time to live: the contract version of an API process or a Monte-Carlo worker."""
        return f"{self.prefix}speaks:{process}"

    @property
    def cloud_signatures(self) -> str:
        """Hash: cloud id to the signature of its CloudInfo."""
        return f"{self.prefix}cloud-signatures"

    @property
    def all_events(self) -> str:
        """Stream: public events of all clouds merged; its ids are those of the event API."""
        return f"{self.prefix}events"

    def request(self, request: str) -> str:
        """Hash: a request's record: fingerprint, body, attempt, cloud, state, answer."""
        return f"{self.prefix}request:{request}"

    @property
    def open_requests(self) -> str:
        """Sorted set: requests without an answer, by the time (Redis clock) at which somebody must look
        after them."""
        return f"{self.prefix}requests:open"

    def call(self, principal: str, key: str) -> str:
        """Hash: fingerprint and answer of a call with an Idempotency-Key."""
        return f"{self.prefix}call:{principal}:{key}"

    @property
    def overflow(self) -> str:
        """Stream: on-demand requests that a cloud turned away and offers to others; field ``o`` is JSON,
        ``s`` its signature."""
        return f"{self.prefix}overflow"

    @property
    def api_keys(self) -> str:
        """Hash: sha256 of an API key to its KeyRecord."""
        return f"{self.prefix}apikeys"

    @property
    def members(self) -> str:
        """Hash: name of a member to its MemberRecord."""
        return f"{self.prefix}members"

    @property
    def audit(self) -> str:
        """Stream: who changed members and keys; field ``a`` is an AuditEntry."""
        return f"{self.prefix}audit"

    def held(self, member: str) -> str:
        """Hash: id of a request to the spot cores it holds of its member's cap; ``.cores``: their sum."""
        return f"{self.prefix}held:{member}"

    def replies(self, process: str) -> str:
        """Stream: answers for one API process; field ``r`` is a JSON list of Reply, ``s`` its signature.
        Expires when the process is gone."""
        return f"{self.prefix}replies:{process}"

    # Webhooks.
    @property
    def webhooks(self) -> str:
        """Hash: id of a webhook to its holder."""
        return f"{self.prefix}webhooks"

    @property
    def webhook_urls(self) -> str:
        """Hash: sha256 of holder and URL to the id of the webhook."""
        return f"{self.prefix}webhooks:urls"

    def webhook(self, webhook: str) -> str:
        """Hash: what its holder wants, its secrets, its state and its position in the merged stream."""
        return f"{self.prefix}webhook:{webhook}"

    def webhook_claim(self, webhook: str) -> str:
        """String with a time to live: token of the process that delivers its events now."""
        return f"{self.prefix}webhook:{webhook}:claim"

    def webhook_deliveries(self, webhook: str) -> str:
        """Stream: the last attempts to deliver something; field ``d`` is a Delivery."""
        return f"{self.prefix}webhook:{webhook}:deliveries"

    # Monte-Carlo.
    def sampler(self, worker: str) -> str:
        """String with a time to live: this Monte-Carlo worker is alive."""
        return f"{self.prefix}sampler:{worker}"

    @property
    def samplers(self) -> str:
        """Sorted set: Monte-Carlo workers by when (Redis clock, seconds) they last said that they live."""
        return f"{self.prefix}samplers"

    def batch(self, refresh: str, cores: int, share: int) -> str:
        """Hash with a time to live: the samples of one batch (bytes) and who made them."""
        return f"{self.prefix}batch:{refresh}:{cores}:{share}"

    # Batch jobs.
    def job(self, job: str) -> str:
        """Stream: the journal of a job, ids ``0-<n>``, n from 1; field ``j`` is a JobEntry."""
        return f"{self.prefix}job:{job}"

    @property
    def open_jobs(self) -> str:
        """Sorted set: jobs that have not ended, by the time (seconds since 1970) at which somebody must look
        after them."""
        return f"{self.prefix}jobs:open"

    @property
    def jobs(self) -> str:
        """Sorted set: ids of all jobs by the time of their submission, seconds since 1970. (``jobs`` is the
        queue of the job managers.)"""
        return f"{self.prefix}jobs:all"

    def job_claim(self, job: str) -> str:
        """String with a time to live: token of the job manager that looks after it now."""
        return f"{self.prefix}job-claim:{job}"

    @property
    def profiles(self) -> str:
        """Hash: ``<holder>\n<name>`` to the Profile of the jobs of that name."""
        return f"{self.prefix}profiles"

    @property
    def cool_downs(self) -> str:
        """Hash: ``<holder>\n<cloud>`` to JSON: attempts of the holder's jobs that the cloud evicted lately,
        and when, seconds since 1970."""
        return f"{self.prefix}cool-downs"

    @property
    def backup_servers(self) -> str:
        """Hash: id of an on-demand instance whose cores backup replicas share to its BackupServer."""
        return f"{self.prefix}backup-servers"

    def works(self, cloud: str) -> str:
        """Hash: id of a piece of work to the Work that the cloud's node agent is to run."""
        return f"{self.prefix}works:{cloud}"

    def work_signatures(self, cloud: str) -> str:
        """Hash: id of a piece of work to the signature of the Work."""
        return f"{self.prefix}work-signatures:{cloud}"

    def work_reports(self, cloud: str) -> str:
        """Hash: id of a piece of work to its WorkReport."""
        return f"{self.prefix}work-reports:{cloud}"

    def work_log(self, cloud: str, work: str) -> str:
        """String: what a piece of work has written to standard output and error, the last part of it;
        expires some time after its end."""
        return f"{self.prefix}work-log:{cloud}:{work}"

    def agent(self, cloud: str) -> str:
        """String with a time to live: token of the node agent that runs the cloud's work."""
        return f"{self.prefix}agent:{cloud}"

    def instance_replies(self, cloud: str, process: str) -> str:
        """Stream: answers of the cloud's owner to its instance agent, as ``replies``."""
        return self.replies(f"instances.{cloud}.{process}")

    def instances(self, cloud: str) -> str:
        """Hash: id of a lease, or of a foreign instance in the owner's books, to its InstanceRecord."""
        return f"{self.prefix}instances:{cloud}"

    def work_channel(self, cloud: str) -> str:
        """Channel: ids of work of the cloud that has changed, for its node agent."""
        return f"{self.prefix}works-changed:{cloud}"
