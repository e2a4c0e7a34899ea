"""Estimate how long an instance runs at a bid before the price rises above it.

See docs/design/batch-jobs.md "Model".

The evidence is a recent window of prices, or the lifetimes that a cloud quotes. Prices here are US dollars an
hour for one *reference instance*: a larger type that holds several is cheaper by that factor
(``PriceHistory.of(scale=)``), so that markets of different types compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from cloudsim.markets.prices import PriceSeries
from cloudsim.model.arrays import FloatArray, IntArray
from cloudsim.model.errors import SpecError
from cloudsim.model.lengths import Survival

WINDOW_S = 7 * 86_400.0
START_EVERY_S = 300.0
HOUR_S = 3600.0

#: Steps of the integral over a quoted survival curve.
_STEPS = 256


@dataclass(frozen=True, eq=False)
class Odds:
    """Odds of an instance that needs ``wall_s`` seconds in m markets: columns of shape (m,).

    NaN where a window holds no evidence.
    """

    wall_s: float
    #: P(Z <= wall_s): the instance is revoked before it is done.
    revoked: FloatArray
    #: P E[Z | Z <= wall_s] + (1 - P) wall_s: the mean time that it runs.
    running_s: FloatArray
    #: The mean price that is paid, US dollars an hour.
    price: FloatArray

    @property
    def revoked_s(self) -> FloatArray:
        """Part of ``running_s`` that ends in a revocation: P E[Z | Z <= wall_s]."""
        return self.running_s - (1.0 - self.revoked) * self.wall_s


class Markets(Protocol):
    """Knowledge of a planner about m markets at one moment."""

    @property
    def on_demand(self) -> float:
        """Price of an instance that is never revoked, US dollars an hour."""
        ...

    @property
    def price_now(self) -> FloatArray:
        """Current prices, US dollars an hour, float64[m]; infinite where nothing is sold."""
        ...

    @property
    def memory_gb(self) -> FloatArray:
        """Memory of one instance, float64[m]."""
        ...

    def odds(self, bid: FloatArray, wall_s: float, instances: int) -> Odds:
        """Return the odds in each market.

        Parameters
        ----------
        bid
            float64[m], bid for each market, US dollars an hour.
        wall_s
            Seconds that the instance needs.
        instances
            Number of instances, all of which are needed.
        """
        ...


class PriceHistory:
    """Prices of one market as played back: a step function, from its first price on for ever.

    Times without a known price tell nothing about revocations; a replay meets the last known price there.

    Attributes
    ----------
    at_s
        float64[records], seconds, ascending.
    price
        float64[records], holds from then on; NaN where unknown.
    carried
        float64[records], the last known price wherever it is unknown.

    Raises
    ------
    SpecError
        Unless the first price is known and times ascend.
    """

    def __init__(self, name: str, at_s: FloatArray, price: FloatArray, carried: FloatArray | None = None):
        if not len(at_s) or np.isnan(price[0]) or np.any(np.diff(at_s) < 0):
            raise SpecError("a history begins with a known price, and its times ascend", field="at_s")
        self.name, self.at_s, self.price = name, at_s, price
        last = np.maximum.accumulate(np.where(np.isnan(price), 0, np.arange(len(price))))
        self.carried = price[last] if carried is None else carried

    @classmethod
    def of(cls, series: PriceSeries, scale: float = 1.0) -> PriceHistory:
        """Make the history of a recorded series, unknown in its gaps and after its end.

        Parameters
        ----------
        scale
            Factor of the prices.

        Raises
        ------
        SpecError
            When no price of the series is known.
        """
        unknown_s = np.append(series.gaps_s[:, 0], series.ends_s)
        at_s = np.concatenate([series.at_s, unknown_s])
        price = np.concatenate([series.price_usd_per_hour * scale, np.full(len(unknown_s), np.nan)])
        order = np.argsort(at_s, kind="stable")  # at equal times a gap begins after the record
        known = np.flatnonzero(~np.isnan(price[order]))
        if not len(known):
            raise SpecError(f"no price of {series.name} is known", field="series")
        return cls(series.name, at_s[order][known[0] :], price[order][known[0] :])

    @cached_property
    def _paid(self) -> FloatArray:
        """Dollars from the first record to each record, for an instance that always runs."""
        return np.append(0.0, np.cumsum(np.diff(self.at_s) * self.carried[:-1])) / HOUR_S

    def price_at(self, at_s: float) -> float:
        """Return the price at a time; infinite before the first record."""
        record = int(np.searchsorted(self.at_s, at_s, side="right")) - 1
        return float(self.carried[record]) if record >= 0 else np.inf

    def above_s(self, at_s: float, bid: float) -> float:
        """Return the first time from ``at_s`` on at which the price is above a bid; infinity for never."""
        record = int(np.searchsorted(self.at_s, at_s, side="right")) - 1
        if record < 0:
            return at_s
        step = 64
        while record < len(self.carried):
            above = self.carried[record : record + step] > bid
            first = int(above.argmax())
            if above[first]:
                return max(float(self.at_s[record + first]), at_s)
            record += step
            step *= 2
        return np.inf

    def paid_usd(self, start_s: float, end_s: float) -> float:
        """Return the cost of an instance from one time to another, second by second.

        Neither time is before the first record.
        """
        record = np.searchsorted(self.at_s, (start_s, end_s), side="right") - 1
        since = np.array((start_s, end_s)) - self.at_s[record]
        until = self._paid[record] + self.carried[record] * since / HOUR_S
        return float(until[1] - until[0])

    def with_spikes(self, starts_s: FloatArray, length_s: float, price: float) -> PriceHistory:
        """Return a copy in which the price is ``price`` for ``length_s`` seconds from each start.

        Parameters
        ----------
        starts_s
            float64[spikes], ascending seconds.
        """
        ends_s = starts_s + length_s
        at_s = np.unique(np.concatenate([self.at_s, starts_s, ends_s]))
        at_s = at_s[at_s >= self.at_s[0]]
        record = np.searchsorted(self.at_s, at_s, side="right") - 1
        within = np.searchsorted(starts_s, at_s, side="right") > np.searchsorted(ends_s, at_s, side="right")
        met = np.where(within, price, self.carried[record])
        return PriceHistory(self.name, at_s, np.where(within, price, self.price[record]), met)


def inject_revocations(
    history: PriceHistory,
    per_day: float,
    generator: np.random.Generator,
    *,
    price: float,
    length_s: float = START_EVERY_S,
) -> PriceHistory:
    """Add revocations at random, ``per_day`` on average, each a price spike of ``length_s`` (P4 Figure 11).

    Parameters
    ----------
    price
        Price of the spikes, above every bid.
    """
    begin_s, end_s = float(history.at_s[0]), float(history.at_s[-1])
    count = generator.poisson(per_day * (end_s - begin_s) / 86_400)
    return history.with_spikes(np.sort(generator.uniform(begin_s, end_s, count)), length_s, price)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Prices of a window, market after market, as pieces of one price: columns of equal length.

    A piece of no length and unknown price stands before, between and after the markets.
    """

    #: How many pieces each market has, with the unknown one after it.
    sizes: IntArray
    market: IntArray
    #: Seconds since the window began.
    begin_s: FloatArray
    price: FloatArray
    #: Known time and what it cost until each piece begins: seconds, and dollars x seconds / hour.
    known_s: FloatArray
    paid: FloatArray

    @classmethod
    def of(cls, histories: Sequence[PriceHistory], begin_s: float, end_s: float) -> _Pieces:
        """Cut the prices from one time to another."""
        at_s, price, sizes = [np.zeros(1)], [np.full(1, np.nan)], []
        for history in histories:
            first = max(int(history.at_s.searchsorted(begin_s, side="right")) - 1, 0)
            last = int(history.at_s.searchsorted(end_s, side="left"))
            at_s += [history.at_s[first:last] - begin_s, np.full(1, end_s - begin_s)]
            price += [history.price[first:last], np.full(1, np.nan)]
            sizes.append(last - first + 1)
        begins_s, prices = np.maximum(np.concatenate(at_s), 0.0), np.concatenate(price)
        known = ~np.isnan(prices[:-1])
        known_s, paid = np.zeros((2, len(prices)))
        length_s = np.diff(begins_s) * known
        np.cumsum(length_s, out=known_s[1:])
        np.cumsum(np.where(known, prices[:-1], 0.0) * length_s, out=paid[1:])
        market = np.repeat(np.arange(-1, len(sizes)), [1, *sizes])
        return cls(np.array(sizes), market, begins_s, prices, known_s, paid)


class PriceWindow:
    """Recent prices of m markets at one moment: ``Markets`` from histories.

    A run is a time without a price above the bid. Instances start every ``START_EVERY_S`` of the window while
    the price is at most the bid. A start whose run ends in an unknown price, or with the window, counts only
    if the run still covers the wanted time.

    Parameters
    ----------
    histories
        One for each market.
    now_s
        The moment, in seconds of the histories.
    on_demand
        US dollars an hour.
    memory_gb
        float64[m].
    window_s
        Length of the window in seconds.
    """

    def __init__(
        self,
        histories: Sequence[PriceHistory],
        now_s: float,
        *,
        on_demand: float,
        memory_gb: FloatArray,
        window_s: float = WINDOW_S,
    ):
        self.on_demand, self.memory_gb = on_demand, memory_gb
        self.price_now = np.array([history.price_at(now_s) for history in histories])
        self._histories, self._now_s, self._window_s = histories, now_s, window_s

    @cached_property
    def _pieces(self) -> _Pieces:
        return _Pieces.of(self._histories, self._now_s - self._window_s, self._now_s)

    def odds(self, bid: FloatArray, wall_s: float, instances: int) -> Odds:
        """Return the odds in each market, whose instances all have one price and are revoked together."""
        del instances
        pieces, markets = self._pieces, len(bid)
        running = pieces.price <= np.append(np.nan, np.repeat(bid, pieces.sizes))
        changes = np.flatnonzero(running[1:] != running[:-1]) + 1  # a run, what follows it, a run, ...
        begins, follows = changes[::2], changes[1::2]
        of, run_s = pieces.market[begins], pieces.begin_s[follows]
        known = pieces.price[follows] > bid[of]
        paid = np.bincount(of, pieces.paid[follows] - pieces.paid[begins], markets)
        length_s = np.bincount(of, pieces.known_s[follows] - pieces.known_s[begins], markets)
        # Starts are numbered from the beginning of the window; a run's are first <= number < stop.
        first = np.ceil(pieces.begin_s[begins] / START_EVERY_S)
        stop = np.ceil(run_s / START_EVERY_S)
        last_whole = (run_s - wall_s) / START_EVERY_S
        caught = np.clip(np.where(known, np.ceil(last_whole), np.floor(last_whole) + 1.0), first, stop)
        dead = np.where(known, stop - caught, 0.0)
        dead_s = dead * (run_s - START_EVERY_S * (caught + stop - 1.0) / 2.0)
        survived = np.bincount(of, caught - first, markets)
        died, died_s = np.bincount(of, dead, markets), np.bincount(of, dead_s, markets)
        with np.errstate(invalid="ignore", divide="ignore"):
            starts = survived + died
            return Odds(wall_s, died / starts, (died_s + survived * wall_s) / starts, paid / length_s)


@dataclass(frozen=True, eq=False)
class QuotedMarkets:
    """``Markets`` without bids: each of m clouds has a price, and quotes how long its instances live.

    A bid is a cap on the price: it does not change how long an instance lives.
    """

    lifetimes: tuple[Survival, ...]
    #: US dollars an hour, shape (m,).
    price_now: FloatArray
    on_demand: float
    memory_gb: FloatArray

    def odds(self, bid: FloatArray, wall_s: float, instances: int) -> Odds:
        """Return the odds in each cloud, whose instances are revoked independently of each other."""
        del bid
        at_s = np.linspace(0.0, wall_s, _STEPS + 1)
        alive = (
            np.array([lifetime.survival(at_s) for lifetime in self.lifetimes]).reshape(-1, len(at_s))
            ** instances
        )
        return Odds(wall_s, 1.0 - alive[:, -1], np.trapezoid(alive, at_s, axis=1), self.price_now)


@dataclass(frozen=True)
class Memoryless:
    """Lifetimes with the same risk at any age (``Survival``): the made markets of P4."""

    mean_s: float

    def survival(self, length_s: FloatArray) -> FloatArray:
        """Return P(L >= length_s) for each length; 1 at 0 and below."""
        return np.exp(-np.maximum(length_s, 0.0) / self.mean_s)

    def quantile_s(self, share: float) -> float:
        """Return the length with P(L <= length) = share."""
        return -self.mean_s * float(np.log1p(-share))
