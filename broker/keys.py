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
class Keys:
    """Key names under ``prefix``, for example ``spotfed:``."""

    prefix: str = "spotfed:"

    # One cloud, written by its owner only (but for the inbox).
    def inbox(self, cloud: str) -> str:
        """Stream: commands for the owner; field ``c`` is a JSON list of commands."""
        return f"{self.prefix}inbox:{cloud}"

    def dead(self, cloud: str) -> str:
        """Stream: inbox entries that could not be read, under their inbox ids; fields ``c`` (the entry)
        and ``why``."""
        return f"{self.prefix}dead:{cloud}"

    def cursor(self, cloud: str) -> str:
        """String: id of the last inbox entry that was handled; set in the same script as its journal
        entries."""
        return f"{self.prefix}cursor:{cloud}"

    def journal(self, cloud: str) -> str:
        """Stream: all events of the cloud, ids ``<epoch>-<n>``, n from 1; field ``e`` is an Event."""
        return f"{self.prefix}journal:{cloud}"

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

    def advert(self, cloud: str) -> str:
        """String: the cloud's Advert."""
        return f"{self.prefix}advert:{cloud}"

    def table(self, cloud: str) -> str:
        """String: the cloud's quantile table for people: JSON with version, made_at_s and rows."""
        return f"{self.prefix}table:{cloud}"

    def running(self, cloud: str) -> str:
        """Set: ids of the cloud's spot leases that have not ended."""
        return f"{self.prefix}running:{cloud}"

    def history(self, cloud: str, epoch: int) -> str:
        """List: event logs between refresh boundaries, as the Monte-Carlo workers read them."""
        return f"{self.prefix}history:{cloud}:{epoch}"

    # The federation.
    @property
    def clouds(self) -> str:
        """Hash: cloud id to CloudInfo."""
        return f"{self.prefix}clouds"

    @property
    def all_events(self) -> str:
        """Stream: public events of all clouds merged; its ids are those of the event API."""
        return f"{self.prefix}events"

    def lease(self, lease: str) -> str:
        """String: a spot Lease as it is now; expires some time after its end."""
        return f"{self.prefix}lease:{lease}"

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
        """Stream: on-demand requests that a cloud turned away and offers to others; field ``o`` is JSON."""
        return f"{self.prefix}overflow"

    @property
    def api_keys(self) -> str:
        """Hash: sha256 of an API key to the name of its holder."""
        return f"{self.prefix}apikeys"

    def replies(self, process: str) -> str:
        """Stream: answers for one API process; field ``r`` is a JSON list of Reply. Expires when the
        process is gone."""
        return f"{self.prefix}replies:{process}"

    # Monte-Carlo.
    def sampler(self, worker: str) -> str:
        """String with a time to live: this Monte-Carlo worker is alive."""
        return f"{self.prefix}sampler:{worker}"

    def batch(self, refresh: str, cores: int, share: int) -> str:
        """Hash with a time to live: the samples of one batch (bytes) and who made them."""
        return f"{self.prefix}batch:{refresh}:{cores}:{share}"
