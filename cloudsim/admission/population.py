"""Population mode: the risks to take so that the mean risk of the admitted is the SLA.

docs/design/prediction.md "Population mode". A request of risk r and lifetime L is admitted when r + price x L
is at most a threshold: of all rules that keep a mean risk, this one admits most, because what a request costs
the others is the time for which it holds its cores. The threshold would have kept the mean among recent
requests, and is corrected by what the ledger says really happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloudsim.admission.promise_ledger import PEAK_S, Account
from cloudsim.prediction.lifetimes import LifetimeDistribution

#: The number of recent requests that set the threshold, and of new ones after which it is set again.
REMEMBERED = 1000
BETWEEN_UPDATES = 25
#: With fewer requests than this, admission is strict.
FEWEST_REQUESTS = 200

#: Kept back from the target, so that chance does not break the promise: the realised share of 8,000
#: admissions scatters by about a tenth of the SLA at .01.
MARGIN = 0.1
#: The share of the ledger's balance that is spent on, or saved from, the next ``REMEMBERED`` requests.
FEEDBACK = 1.0
MOST_OF_TARGET = 3.0
#: An overdrawn promise is made good by many safe admissions: a cloud that refuses all stays overdrawn.
LEAST_OF_TARGET = 0.5
#: The price of a mean lifetime, over the square root of the SLA: measured on the synthetic set-up.
PRICE = 0.75


def risk_of_peaks(peaks_per_s: float, lifetime_s: float) -> float:
    """Return the risk that comes from peaks of which the history tells nothing.

    A table speaks for a birth at any time, but overflow comes when clouds are full together. So a history of
    T seconds, in which nothing of the kind was seen, is taken to leave room for one peak more in the next T
    (Laplace's rule of succession). It breaks each promise that runs as it comes, or begins less than
    ``PEAK_S`` later.
    """
    return peaks_per_s * (lifetime_s + PEAK_S)


@dataclass(frozen=True)
class Threshold:
    """A threshold: admit when risk + price_per_s x lifetime_s <= most."""

    most: float
    price_per_s: float

    def admits(self, risk: float, lifetime_s: float) -> bool:
        """Return whether a request is admitted; never where eviction is certain or its risk unknown."""
        return risk < 1.0 and risk + self.price_per_s * lifetime_s <= self.most

    def with_peaks(self, peaks_per_s: float) -> Threshold:
        """Return the threshold of requests that also meet peaks of which the history tells nothing.

        See ``risk_of_peaks``.
        """
        if peaks_per_s == 0.0:
            return self
        return Threshold(self.most - risk_of_peaks(peaks_per_s, 0.0), self.price_per_s + peaks_per_s)

    def longest_s(self, distribution: LifetimeDistribution) -> float:
        """Return the longest lifetime of a distribution that is admitted, in seconds; 0 when none is."""
        if self.price_per_s == 0.0:
            return distribution.survives_s(min(self.most, math.nextafter(1.0, 0.0)))
        ends_s, risks = distribution.ends_s, distribution.risks
        begins_s = np.concatenate(([0.0], ends_s[:-1]))
        admitted = (risks < 1.0) & (risks + self.price_per_s * begins_s <= self.most)
        if not admitted.any():
            return 0.0
        last = int(np.flatnonzero(admitted)[-1])  # risks never fall, so all before are admitted too
        return min(float(ends_s[last]), (self.most - float(risks[last])) / self.price_per_s)


#: A request that was considered: its SLA, its risk, and its lifetime in seconds.
Considered = tuple[float, float, float]


class RequestLog:
    """The recent requests of one SLA: their risks and lifetimes, admitted or not, and the threshold they set.

    count: the number of requests that were noted, of which ``recent`` are remembered.
    """

    def __init__(self, sla: float):
        self.sla = sla
        self._risk: NDArray[np.float64] = np.empty(REMEMBERED)
        self._lifetime_s: NDArray[np.float64] = np.empty(REMEMBERED)
        self.count = 0
        self.threshold = Threshold(sla, 0.0)

    @property
    def recent(self) -> tuple[tuple[float, float], ...]:
        """Risks and lifetimes in seconds of the requests that are remembered, oldest first."""
        numbers = np.arange(max(self.count - REMEMBERED, 0), self.count) % REMEMBERED
        pairs = zip(self._risk[numbers].tolist(), self._lifetime_s[numbers].tolist(), strict=True)
        return tuple(pairs)

    @classmethod
    def restored(
        cls, sla: float, count: int, recent: Iterable[tuple[float, float]], threshold: Threshold
    ) -> RequestLog:
        """Return the log that had these ``count``, ``recent`` and ``threshold``."""
        log, pairs = cls(sla), list(recent)
        for number, (risk, lifetime_s) in enumerate(pairs, count - len(pairs)):
            log._risk[number % REMEMBERED], log._lifetime_s[number % REMEMBERED] = risk, lifetime_s
        log.count, log.threshold = count, threshold
        return log

    def note_request(self, risk: float, lifetime_s: float, account: Account) -> None:
        """Note a request that was examined; each ``BETWEEN_UPDATES`` of them set the threshold anew."""
        at = self.count % REMEMBERED
        self._risk[at], self._lifetime_s[at] = risk, lifetime_s
        self.count += 1
        if self.count >= FEWEST_REQUESTS and self.count % BETWEEN_UPDATES == 0:
            self.threshold = self._new_threshold(account)

    def _new_threshold(self, account: Account) -> Threshold:
        count = min(self.count, REMEMBERED)
        risk, lifetime_s = self._risk[:count], self._lifetime_s[:count]
        allowed = self.sla * (1.0 - MARGIN)
        target = allowed + FEEDBACK * account.balance(allowed) / count
        target = min(max(target, LEAST_OF_TARGET * allowed), MOST_OF_TARGET * self.sla)
        price_per_s = PRICE * math.sqrt(self.sla) / float(lifetime_s.mean())
        score = risk + price_per_s * lifetime_s
        order = np.argsort(score, kind="stable")
        mean = np.cumsum(risk[order]) / np.arange(1, count + 1)
        kept = np.flatnonzero(mean <= target)
        return Threshold(float(score[order[kept[-1]]]) if len(kept) else 0.0, price_per_s)
