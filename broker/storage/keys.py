"""Names everything that spotfed keeps in Redis, below one prefix.

Each docstring says what lives under the name. Streams are the truth; the strings and sets beside them are
projections, written in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RedisKeys:
    """Makes the names of keys, all below ``prefix`` (``spotfed:`` for example)."""

    prefix: str = "spotfed:"

    # One cloud, written by its owner only (but for the inbox).
    def inbox(self, cloud: str) -> str:
        """Name the stream of commands for a cloud's owner.

        Field ``c`` is a JSON list of commands, ``s`` its signature.
        """
        return f"{self.prefix}inbox:{cloud}"

    def dead_letters(self, cloud: str) -> str:
        """Name the stream of entries that the owner put aside, because it could not read or handle them.

        Fields: ``c`` (the entry, cut off), ``size`` of it, ``why``, ``kind``, ``of`` (id of the entry) and
        ``items`` in it; see ``broker.journal.dead_letters``.
        """
        return f"{self.prefix}dead:{cloud}"

    def cursor(self, cloud: str) -> str:
        """Name the string with the id of the last inbox entry that the owner handled.

        It is set by the script that writes the entry's events to the journal.
        """
        return f"{self.prefix}cursor:{cloud}"

    def journal(self, cloud: str) -> str:
        """Name the stream of all events of the cloud, with ids ``<epoch>-<n>``, n from 1.

        Field ``e`` is an Event, ``h`` its hash (``broker.journal.hash_chain``).
        """
        return f"{self.prefix}journal:{cloud}"

    def snapshot(self, cloud: str) -> str:
        """Name the string with the owner's state after a journal entry (``workers.owner.snapshots``)."""
        return f"{self.prefix}snapshot:{cloud}"

    def events(self, cloud: str) -> str:
        """Name the stream of the cloud's public events, with ids ``0-<sequence>``.

        Field ``e`` is an Event. Readers of the channel find here what they missed.
        """
        return f"{self.prefix}events:{cloud}"

    def channel(self, cloud: str) -> str:
        """Name the pub/sub channel that carries the cloud's public events, whole, as JSON.

        The pattern ``<prefix>events:*`` matches the channels of all clouds.
        """
        return f"{self.prefix}events:{cloud}"

    def owner(self, cloud: str) -> str:
        """Name the expiring string with the token of the process that owns the cloud now."""
        return f"{self.prefix}owner:{cloud}"

    def epoch(self, cloud: str) -> str:
        """Name the integer that only grows: the fencing number of the owner."""
        return f"{self.prefix}epoch:{cloud}"

    def handled_messages(self, cloud: str) -> str:
        """Name the hash from the session of a signing process to its inbox entries that were handled."""
        return f"{self.prefix}seen:{cloud}"

    def advert(self, cloud: str) -> str:
        """Name the string with the cloud's Advert."""
        return f"{self.prefix}advert:{cloud}"

    def advert_signature(self, cloud: str) -> str:
        """Name the string with the signature of the cloud's Advert, written together with it."""
        return f"{self.prefix}advert-signature:{cloud}"

    def table(self, cloud: str) -> str:
        """Name the string with the cloud's quantile table for people: JSON with version, made_at_s, rows."""
        return f"{self.prefix}table:{cloud}"

    def table_signature(self, cloud: str) -> str:
        """Name the string with the signature of the cloud's table, written together with it."""
        return f"{self.prefix}table-signature:{cloud}"

    def owner_stats(self, cloud: str) -> str:
        """Name the hash of statistics of the cloud's owner (``broker.observability.owner_stats``)."""
        return f"{self.prefix}measures:{cloud}"

    def running(self, cloud: str) -> str:
        """Name the set of ids of the cloud's spot leases that have not ended."""
        return f"{self.prefix}running:{cloud}"

    def lease(self, cloud: str, lease: str) -> str:
        """Name the string with a spot Lease as it is now (``broker.leases.store``).

        It expires some time after the lease ends.
        """
        return f"{self.prefix}shown:{cloud}:{lease}"

    def history(self, cloud: str, epoch: int) -> str:
        """Name the list of event logs between refresh boundaries, which Monte-Carlo workers read."""
        return f"{self.prefix}history:{cloud}:{epoch}"

    # The federation.
    @property
    def clouds(self) -> str:
        """Name of the hash from the id of a cloud to its CloudInfo."""
        return f"{self.prefix}clouds"

    @property
    def contract(self) -> str:
        """Name of the integer that only grows: the version of the contract that the federation speaks."""
        return f"{self.prefix}contract"

    def owner_version(self, cloud: str) -> str:
        """Name the string with the owner's contract version, its epoch and its token."""
        return f"{self.prefix}contract:{cloud}"

    def process_version(self, process: str) -> str:
        """Name the expiring string with the contract version of an API process or a Monte-Carlo worker."""
        return f"{self.prefix}speaks:{process}"

    @property
    def cloud_signatures(self) -> str:
        """Name of the hash from the id of a cloud to the signature of its CloudInfo."""
        return f"{self.prefix}cloud-signatures"

    @property
    def all_events(self) -> str:
        """Name of the merged stream of all clouds' public events; its ids are those of the event API."""
        return f"{self.prefix}events"

    def request(self, request: str) -> str:
        """Name the hash of a request's record: fingerprint, body, attempt, cloud, state, answer."""
        return f"{self.prefix}request:{request}"

    @property
    def restored(self) -> str:
        """Name of the string that is there once an owner had to write entries back that Redis had lost.

        From then on a request without a record is looked for among the leases (``accept.lua``).
        """
        return f"{self.prefix}restored"

    @property
    def open_requests(self) -> str:
        """Name of the sorted set of requests without an answer.

        They are sorted by the time (clock of Redis) at which an API process must look after them.
        """
        return f"{self.prefix}requests:open"

    def call(self, principal: str, key: str) -> str:
        """Name the hash with the fingerprint and the answer of a call with an Idempotency-Key."""
        return f"{self.prefix}call:{principal}:{key}"

    @property
    def overflow(self) -> str:
        """Name of the stream of on-demand requests that a cloud turned away and offers to others.

        Field ``o`` is JSON, ``s`` its signature.
        """
        return f"{self.prefix}overflow"

    @property
    def api_keys(self) -> str:
        """Name of the hash from the SHA-256 of an API key to its KeyRecord."""
        return f"{self.prefix}apikeys"

    @property
    def members(self) -> str:
        """Name of the hash from the name of a member to its MemberRecord."""
        return f"{self.prefix}members"

    @property
    def audit(self) -> str:
        """Name of the stream of changes of members and keys; field ``a`` is an AuditEntry."""
        return f"{self.prefix}audit"

    def quota_holds(self, member: str) -> str:
        """Name the hash from the id of a request to the spot cores that it takes of its member's cap.

        The field ``.cores`` is their sum.
        """
        return f"{self.prefix}held:{member}"

    def replies(self, process: str) -> str:
        """Name the stream of replies to one API process; it expires when the process is gone.

        Field ``r`` is a JSON list of Reply, ``s`` its signature.
        """
        return f"{self.prefix}replies:{process}"

    # Webhooks.
    @property
    def webhooks(self) -> str:
        """Name of the hash from the id of a webhook to its holder."""
        return f"{self.prefix}webhooks"

    @property
    def webhook_urls(self) -> str:
        """Name of the hash from the SHA-256 of holder and URL to the id of the webhook."""
        return f"{self.prefix}webhooks:urls"

    def webhook(self, webhook: str) -> str:
        """Name the hash of a webhook: its description, secrets, state and position in the merged stream."""
        return f"{self.prefix}webhook:{webhook}"

    def webhook_claim(self, webhook: str) -> str:
        """Name the expiring string with the token of the process that delivers the webhook's events now."""
        return f"{self.prefix}webhook:{webhook}:claim"

    def webhook_deliveries(self, webhook: str) -> str:
        """Name the stream of the webhook's latest deliveries; field ``d`` is a Delivery."""
        return f"{self.prefix}webhook:{webhook}:deliveries"

    # Monte-Carlo.
    def sampler(self, worker: str) -> str:
        """Name the expiring string that says that a Monte-Carlo worker is alive."""
        return f"{self.prefix}sampler:{worker}"

    @property
    def samplers(self) -> str:
        """Name of the sorted set of Monte-Carlo workers by their last sign of life (Redis clock, seconds)."""
        return f"{self.prefix}samplers"

    @property
    def table_turns(self) -> str:
        """Name of the sorted set of clouds whose tables are due or in progress, the most urgent first."""
        return f"{self.prefix}table-turns"

    @property
    def table_signs(self) -> str:
        """Name of the sorted set of these clouds by their last sign of life (Redis clock, seconds)."""
        return f"{self.prefix}table-signs"

    def batch(self, refresh: str, cores: int, share: int) -> str:
        """Name the expiring hash with the samples of one batch (bytes) and the worker that made them."""
        return f"{self.prefix}batch:{refresh}:{cores}:{share}"

    # Batch jobs.
    def job(self, job: str) -> str:
        """Name the stream that is the journal of a job, with ids ``0-<n>``, n from 1.

        Field ``j`` is a JobEntry.
        """
        return f"{self.prefix}job:{job}"

    @property
    def open_jobs(self) -> str:
        """Name of the sorted set of jobs that have not ended.

        They are sorted by the time (seconds since 1970) at which a job manager must look after them.
        """
        return f"{self.prefix}jobs:open"

    @property
    def jobs(self) -> str:
        """Name of the sorted set of the ids of all jobs, by the time of submission (seconds since 1970).

        (The plain name ``jobs`` is the queue of the job managers.)
        """
        return f"{self.prefix}jobs:all"

    def job_claim(self, job: str) -> str:
        """Name the expiring string with the token of the job manager that looks after a job now."""
        return f"{self.prefix}job-claim:{job}"

    @property
    def profiles(self) -> str:
        r"""Name of the hash from ``<holder>\n<name>`` to the Profile of the holder's jobs of that name."""
        return f"{self.prefix}profiles"

    @property
    def cool_downs(self) -> str:
        r"""Name of the hash from ``<holder>\n<cloud>`` to recent evictions of the holder's attempts.

        A value is a JSON object from attempt to time of eviction, in seconds since 1970.
        """
        return f"{self.prefix}cool-downs"

    @property
    def backup_servers(self) -> str:
        """Name of the hash from an on-demand instance shared by backup replicas to its BackupServer."""
        return f"{self.prefix}backup-servers"

    def work(self, cloud: str) -> str:
        """Name the hash from the id of a piece of work to the Work that the cloud's node agent is to run."""
        return f"{self.prefix}works:{cloud}"

    def work_signatures(self, cloud: str) -> str:
        """Name the hash from the id of a piece of work to the signature of the Work."""
        return f"{self.prefix}work-signatures:{cloud}"

    def work_reports(self, cloud: str) -> str:
        """Name the hash from the id of a piece of work to its WorkReport."""
        return f"{self.prefix}work-reports:{cloud}"

    def instance_token(self, digest: str) -> str:
        """Name the expiring string with the meaning of the token of a node agent on an instance.

        ``digest`` is that of the token (``broker.jobs.instance_tokens``).
        """
        return f"{self.prefix}instance-token:{digest}"

    def work_log(self, cloud: str, work: str) -> str:
        """Name the string with the last part of a piece of work's output; it expires after its end."""
        return f"{self.prefix}work-log:{cloud}:{work}"

    def agent(self, cloud: str) -> str:
        """Name the expiring string with the token of the node agent that runs the cloud's work."""
        return f"{self.prefix}agent:{cloud}"

    def isolation(self, cloud: str) -> str:
        """Name the string with what the cloud's node agent cannot give jobs, a phrase a line."""
        return f"{self.prefix}isolation:{cloud}"

    def instance_replies(self, cloud: str, process: str) -> str:
        """Name the stream of replies of the cloud's owner to its cloud agent."""
        return self.replies(f"instances.{cloud}.{process}")

    def instances(self, cloud: str) -> str:
        """Name the hash from a lease, or a foreign instance in the owner's books, to its InstanceRecord."""
        return f"{self.prefix}instances:{cloud}"

    def catalogue(self, cloud: str) -> str:
        """Name the hash with the cloud's InstanceCatalogue in field ``c`` and its signature in ``s``."""
        return f"{self.prefix}catalogue:{cloud}"

    def launch(self, name: str) -> str:
        """Name the expiring string with the secrets of a launch, encrypted for the agents of some clouds."""
        return f"{self.prefix}launch:{name}"

    def overflow_launch(self, cloud: str, name: str) -> str:
        """Name the expiring string with the secrets of what a real cloud offers, for the others' agents."""
        return f"{self.prefix}overflow-launch:{cloud}:{name}"

    def silent_cloud(self, cloud: str) -> str:
        """Name the string that says since when, and why, a real cloud's API has not answered its agent."""
        return f"{self.prefix}silent-cloud:{cloud}"

    def work_channel(self, cloud: str) -> str:
        """Name the channel on which the cloud's node agent hears the ids of work that has changed."""
        return f"{self.prefix}works-changed:{cloud}"

    @property
    def replication_channel(self) -> str:
        """Name the channel of the messages that mark a place in what replicas are sent; no one listens."""
        return f"{self.prefix}replication"
