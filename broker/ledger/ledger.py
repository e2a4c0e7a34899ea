"""Keeps the ledger of one cloud: what it promised, and what came of it. A pure fold of its public events.

**Accounts.** There is one for each origin, SLA, table version and door, with the meaning of
``cloudsim.admission.promise_ledger``. A lease with a promise enters its account when it is admitted, and is
settled when it completes or is evicted; a lease that its holder ended early says nothing and leaves. An
extension that its holder asks for takes the promise back for a longer one, which enters the account of its
own SLA and table. A renewal is one more promise: the one before counts as kept, since the new one covers what
is left of it. A lease that was given notice counts as evicted, even if it left early. A reservation that was
evicted before its confirmation arrived counts, as it does in the owner's ledger.

**Storage.** Each API process folds the streams of public events for itself and keeps the totals in memory
(``broker.ledger.reader``). Nothing is written, so processes differ for no longer than it takes them to read.
Events that were trimmed before a process started are not in its totals: ``missing`` counts them, and a lease
admitted in them joins with its next event.

**Verdicts.** ``CloudLedger.broken`` judges the promises of each SLA that run now or settled within the last
``WINDOW_S`` of the cloud's own time, of all origins and tables together. Clouds that broke them are asked
last. Running promises count as kept, since evictions come before completions: a young cloud is not condemned
by its first day. A cloud recovers in one of two ways: it keeps further promises until the bound is no longer
above the SLA, or its evictions are forgiven when they are a week old. The bound takes evictions to be
independent, which those of one burst of the cloud's own load are not, and it is looked at again and again: a
cloud that promises exactly what it can hold is thus doubted now and then. That costs it its place in the
order, nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.contract import BrokenPromise, Event, EventKind, Lease
from broker.ledger.lease_counts import LeaseCounts
from cloudsim.admission import promise_ledger
from cloudsim.model.changes import RENEWAL
from cloudsim.model.requests import Door, door_of
from cloudsim.model.requests import promises as is_promise

HOUR_S = 3600.0
WINDOW_H = 7 * 24
WINDOW_S = WINDOW_H * HOUR_S
CONFIDENCE = 0.95


class AccountKey(NamedTuple):
    """The key of an account.

    table_version: None if the promise was made without a table. door: how its requests came.
    """

    origin: str
    sla: float
    table_version: str | None
    door: Door = Door.USER


@dataclass
class LedgerAccount(promise_ledger.Account):
    """One account of promises.

    settled_risk: the sum of the estimated risks of those promises that completed or were evicted. peaks: the
    peaks in which its evictions came, by cloud and number: evictions come in clusters, and those on one cloud
    that are at most ``PEAK_S`` apart are one.
    """

    settled_risk: float = 0.0
    peaks: set[tuple[str, int]] = field(default_factory=set)

    @property
    def mean_risk(self) -> float | None:
        """The mean of the estimated probabilities of eviction; None without promises."""
        return (self.pending + self.settled_risk) / self.admitted if self.admitted else None

    def open(self, risk: float) -> None:
        """Add a promise with this estimated risk."""
        self.running += 1
        self.pending += risk

    def withdraw(self, risk: float) -> None:
        """Remove a running promise that says nothing any more."""
        self.running -= 1
        self.pending = self.pending - risk if self.running else 0.0

    def settle(self, risk: float, *, evicted: bool) -> None:
        """Settle a running promise that was broken, or kept to its end."""
        self.withdraw(risk)
        self.settled_risk += risk
        self.evicted += evicted
        self.completed += not evicted

    def add(self, other: LedgerAccount) -> None:
        """Add the promises of another account."""
        self.running += other.running
        self.completed += other.completed
        self.evicted += other.evicted
        self.pending += other.pending
        self.settled_risk += other.settled_risk
        self.peaks |= other.peaks


@dataclass
class _Recent:
    """Counts of the promises of one SLA that run or settled lately.

    hours: by hour of the cloud's time, how many settled and how many of these were evicted.
    """

    running: int = 0
    hours: dict[int, list[int]] = field(default_factory=dict)

    def settle(self, at_s: float, *, evicted: bool) -> None:
        hour = int(at_s // HOUR_S)
        if hour not in self.hours:
            self.hours = {past: counts for past, counts in self.hours.items() if past > hour - WINDOW_H}
            self.hours[hour] = [0, 0]
        self.hours[hour][0] += 1
        self.hours[hour][1] += evicted

    def counts(self, hour: int) -> tuple[int, int]:
        """Return how many were evicted and how many were admitted, as of ``hour``."""
        recent = [counts for past, counts in self.hours.items() if past > hour - WINDOW_H]
        return sum(evicted for _, evicted in recent), self.running + sum(settled for settled, _ in recent)


def broken_promise(sla: float, evicted: int, admitted: int) -> BrokenPromise | None:
    """Judge a cloud that evicted ``evicted`` of its ``admitted`` promises at an SLA; None: it keeps them.

    The promise is broken if the lower bound of the exact two-sided 95 % interval (Clopper and Pearson) of the
    share of evictions is above the SLA.
    """
    if evicted <= sla * admitted:
        return None
    from cloudsim.model.binomial import clopper_pearson  # numpy, which most processes never need

    at_least, _ = clopper_pearson(evicted, admitted, CONFIDENCE)
    if at_least <= sla:
        return None
    shown = math.floor(at_least * 10_000) / 10_000
    detail = f"broke its promise at {sla:g}: {evicted} of {admitted} evicted, at least {shown:g}"
    return BrokenPromise(sla=sla, evicted=evicted, admitted=admitted, at_least=at_least, detail=detail)


class CloudLedger:
    """Accounts of one cloud, up to its public event ``sequence``.

    accounts: in the order of their first promise. counts: of all leases, promised or not. missing: the number
    of events that are not in them, because they are no longer kept, or were written by another version.
    """

    def __init__(self, cloud: str):
        self.cloud = cloud
        self.sequence = 0
        self.missing = 0
        self.accounts: dict[AccountKey, LedgerAccount] = {}
        self.counts = LeaseCounts()
        self._running: dict[
            str, tuple[AccountKey, float]
        ] = {}  # by lease: its account and its estimated risk
        self._recent: dict[float, _Recent] = {}
        self._peaks, self._evicted_at_s = 0, -math.inf  # the number of peaks, and the last eviction
        self._judged = (-1, 0)  # the sequence and the hour of the verdicts
        self._verdicts: dict[float, BrokenPromise] = {}

    # -- the fold ----------------------------------------------------------------------------------------

    def note(self, event: Event) -> None:
        """Fold the next public event. A repeated one changes nothing; a gap counts as ``missing``."""
        if event.sequence is None or not self._reach(event.sequence):
            return
        lease = event.lease
        assert lease is not None, "public events are about leases"
        self.counts.note(event, lease)
        if event.kind is EventKind.EXTENDED and event.cause == RENEWAL:
            self._settle(lease.id, event.at_s, evicted=False)
            self._open(lease)
        elif event.kind in (EventKind.ADMITTED, EventKind.EXTENDED):
            self._withdraw(lease.id)
            self._open(lease)
        elif event.kind.ends_lease:
            self._end(lease, event.kind, event.at_s)

    def pass_over(self, sequence: int) -> None:
        """Skip the next public event, which cannot be read."""
        if self._reach(sequence):
            self.missing += 1
            self._withdraw_all()

    def _reach(self, sequence: int) -> bool:
        """Move on to an event. Return False if it was passed before."""
        if sequence <= self.sequence:
            return False
        gap = sequence - self.sequence - 1
        self.sequence = sequence
        if gap:
            self.missing += gap
            self._withdraw_all()
        return True

    def _withdraw_all(self) -> None:
        # Any running lease may have ended in the gap. Those that still run come back with their next event.
        for lease_id in list(self._running):
            self._withdraw(lease_id)

    def _open(self, lease: Lease) -> None:
        sla = lease.promised_sla
        if sla is None or not is_promise(lease.kind, sla):
            return
        door = door_of(lease.request, lease.origin)
        key = AccountKey(lease.origin, sla, lease.table_version, door)
        risk = lease.eviction_probability or 0.0
        self._running[lease.id] = key, risk
        self.accounts.setdefault(key, LedgerAccount()).open(risk)
        self._recent.setdefault(sla, _Recent()).running += 1

    def _withdraw(self, lease_id: str) -> None:
        if lease_id in self._running:
            key, risk = self._running.pop(lease_id)
            self.accounts[key].withdraw(risk)
            self._recent[key.sla].running -= 1

    def _end(self, lease: Lease, kind: EventKind, at_s: float) -> None:
        if lease.id not in self._running:
            self._open(lease)  # its admission was missed, but its end says what it was promised
        if kind in (EventKind.CANCELLED, EventKind.FAILED):
            self._withdraw(lease.id)
        else:
            self._settle(lease.id, at_s, evicted=kind is EventKind.EVICTED)

    def _settle(self, lease_id: str, at_s: float, *, evicted: bool) -> None:
        if lease_id in self._running:
            key, risk = self._running.pop(lease_id)
            self.accounts[key].settle(risk, evicted=evicted)
            if evicted:
                self._peaks += at_s - self._evicted_at_s > promise_ledger.PEAK_S
                self._evicted_at_s = at_s
                self.accounts[key].peaks.add((self.cloud, self._peaks))
            recent = self._recent[key.sla]
            recent.running -= 1
            recent.settle(at_s, evicted=evicted)

    # -- the verdict -------------------------------------------------------------------------------------

    def broken(self, now_s: float) -> Mapping[float, BrokenPromise]:
        """Return by SLA the promises that this cloud has not kept lately. ``now_s``: in its own time."""
        moment = (self.sequence, int(now_s // HOUR_S))
        if moment != self._judged:
            judged = ((sla, *recent.counts(moment[1])) for sla, recent in self._recent.items())
            verdicts = ((sla, broken_promise(sla, evicted, admitted)) for sla, evicted, admitted in judged)
            self._verdicts = {sla: verdict for sla, verdict in verdicts if verdict is not None}
            self._judged = moment
        return self._verdicts
