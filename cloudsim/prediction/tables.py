"""Quantile tables: the risk of eviction before a lifetime, by size and number of free slots of that size.

The condition of a request is the number of free slots of its size on the cloud before it is placed (P1 §III,
P2 §2.3). docs/design/prediction.md settles what the papers leave open: bins, rare conditions, and conditions
never seen.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.history.take_backs import TakeBacks
from cloudsim.model.errors import NoTableError, SpecError
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from cloudsim.model.requests import Amounts
from cloudsim.prediction.ages import LEVELS, Forecast
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.rule import OUR_RULE, PredictionRule
from cloudsim.prediction.samples import Flavour, Samples

if TYPE_CHECKING:
    import pandas as pd

#: Bins of free slots: one for each number below SINGLE_BELOW, then BINS_A_DOUBLING for each doubling.
SINGLE_BELOW = 8
BINS_A_DOUBLING = 3
#: A cell with fewer samples is merged with the next lower one.
FEWEST_SAMPLES = 30

SHOWN_SLAS = (0.01, 0.05, 0.10, 0.25, 0.5)

_VERSION_DIGITS = 16
_FRAMED = ("cores", "free_slots_from", "free_slots_to", "samples", "evictions", "followed_up_s")


class Estimate(NamedTuple):
    """Answer of a table for one size, condition and lifetime.

    Attributes
    ----------
    eviction_probability
        Risk of eviction before that lifetime.
    evidence
        False if no sample was followed up for that long; the risk is then 1.
    samples
        Number of samples behind it, of the smaller cell if interpolated.
    """

    eviction_probability: float
    evidence: bool
    samples: int


def bin_edges(most: int) -> NDArray[np.int64]:
    """Return the first number of free slots of each bin, from 0, on a cloud with at most ``most`` of them."""
    edges = list(range(SINGLE_BELOW + 1))
    power = 1
    while edges[-1] <= most:
        edges.append(round(SINGLE_BELOW * 2 ** (power / BINS_A_DOUBLING)))
        power += 1
    return np.array([edge for edge in edges if edge <= most] or [0], dtype=np.int64)


class Condition(NamedTuple):
    """A range of free slots and the lifetimes of instances that were admitted in it.

    Attributes
    ----------
    free_slots_from, free_slots_to
        The range, both ends included.
    distribution
        How long these instances live.
    weight
        Seconds of births, or number of samples where samples are points.
    """

    free_slots_from: int
    free_slots_to: int
    distribution: LifetimeDistribution
    weight: float


@dataclass(frozen=True)
class _Cell:
    """Samples of one range of free slots, both ends included."""

    free_slots_from: int
    free_slots_to: int
    duration_s: NDArray[np.float64]
    evicted: NDArray[np.bool_]
    span_s: NDArray[np.float64]
    rule: PredictionRule

    @cached_property
    def distribution(self) -> LifetimeDistribution:
        return LifetimeDistribution.from_samples(self.duration_s, self.evicted, self.span_s, self.rule)


class _SizeCells:
    """Cells of one size, lowest first, and the distributions interpolated between them so far."""

    def __init__(
        self,
        samples: Samples,
        condition: NDArray[np.int32],
        edges: NDArray[np.int64],
        most: int,
        rule: PredictionRule,
    ):
        bins = np.searchsorted(edges, condition, side="right") - 1
        # Cut the samples, ordered by bin, into cells: from the highest bin down, one that is too small is
        # merged with the next lower one that was seen. The lowest has none to merge with and stays as it is:
        # as unseen, it would refuse every request in a scarce condition (B-A: .805 admitted, not .835).
        order = np.argsort(bins, kind="stable")
        counts = np.bincount(bins, minlength=len(edges))
        upper_edges = np.append(edges[1:] - 1, max(most, 0))
        ends = np.cumsum(counts)
        cells: list[_Cell] = []
        top: int | None = None  # highest bin of the cell that is being merged
        seen = np.flatnonzero(counts).tolist()
        for index in reversed(seen):
            top = index if top is None else top
            first, last = int(ends[index] - counts[index]), int(ends[top])
            if last - first >= FEWEST_SAMPLES or index == seen[0]:
                chosen = order[first:last]
                cells.append(
                    _Cell(
                        int(edges[index]),
                        int(upper_edges[top]),
                        samples.duration_s[chosen],
                        samples.evicted[chosen],
                        samples.span_s[chosen],
                        rule,
                    )
                )
                top = None
        self.cells = cells[::-1]
        self._upper_ends = [cell.free_slots_to for cell in self.cells]
        self._mixed: dict[int, LifetimeDistribution | None] = {}

    def distribution(self, free_slots: int) -> LifetimeDistribution | None:
        """Return the distribution of a condition, None without any sample.

        A condition that was never seen is interpolated between its neighbours.
        """
        if not self.cells or free_slots <= 0:
            return None
        index = bisect_left(self._upper_ends, free_slots)
        if index == len(self.cells):
            return self.cells[-1].distribution
        upper = self.cells[index]
        if free_slots >= upper.free_slots_from:
            return upper.distribution
        if free_slots not in self._mixed:
            lower = self.cells[index - 1] if index else None
            below = lower.free_slots_to if lower else 0
            weight = (free_slots - below) / (upper.free_slots_from - below)
            self._mixed[free_slots] = LifetimeDistribution.mixture(
                lower.distribution if lower else None, upper.distribution, weight
            )
        return self._mixed[free_slots]


class QuantileTable:
    """Risks and lifetimes of spot instances, as a cloud's history tells them at one refresh boundary.

    Attributes
    ----------
    made_at_s
        The boundary in seconds; the table holds events strictly before it.
    version
        Digest of the content. Equal tables have equal versions, wherever and in however many parts they were
        made.
    rule
        How samples become risks.
    take_backs
        What the cloud takes back by itself, which no sample shows; None where nothing is known of that.
    """

    #: True if the remaining risk of an instance that has lived for a while may be read from the table.
    conditional = True

    def __init__(
        self,
        samples: Sequence[Samples],
        node_cores: Sequence[int],
        made_at_s: float,
        rule: PredictionRule = OUR_RULE,
        details: NodeDetails = CORES_ONLY,
        take_backs: TakeBacks | None = None,
    ):
        self.made_at_s, self.rule, self.take_backs = made_at_s, rule, take_backs
        self.node_cores = tuple(node_cores)
        self.details = details
        self.samples = {part.flavour: part for part in sorted(samples, key=lambda part: part.flavour)}
        if len(self.samples) != len(samples):
            raise SpecError("a table takes the samples of each flavour once: merge the shares first")
        self._sizes: dict[tuple[Flavour, int], _SizeCells] = {}  # by flavour and release horizon, -1 for none
        self._informed: dict[tuple[int, tuple[int, ...]], LifetimeDistribution | None] = {}
        self._forecasts: dict[int, Forecast] = {}
        self._levels: dict[int, NDArray[np.int32]] = {}
        self._exposed: dict[LifetimeDistribution, LifetimeDistribution] = {}

    @classmethod
    def from_samples(
        cls,
        samples: Sequence[Samples],
        node_cores: Sequence[int],
        made_at_s: float,
        rule: PredictionRule = OUR_RULE,
        details: NodeDetails = CORES_ONLY,
    ) -> QuantileTable:
        """Make a table from merged samples, one ``Samples`` a flavour. Cells are computed on first use.

        Raises
        ------
        SpecError
            When a flavour comes twice.
        """
        return cls(samples, node_cores, made_at_s, rule, details)

    def exposed_to(self, take_backs: TakeBacks | None) -> QuantileTable:
        """Return the table of a cloud that also takes instances back by itself; see ``take_backs``."""
        if take_backs == self.take_backs:
            return self
        samples = list(self.samples.values())
        return QuantileTable(samples, self.node_cores, self.made_at_s, self.rule, self.details, take_backs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in cores, ascending."""
        return tuple(sorted({cores for cores, _ in self.samples}))

    def has(self, cores: int, amounts: Amounts = ()) -> bool:
        """Return True if the flavour was sampled, whether or not it ever found a free slot."""
        return (cores, amounts) in self.samples

    @cached_property
    def version(self) -> str:
        """Digest of the content, in hexadecimal."""
        digest = hashlib.sha256(struct.pack("<d", self.made_at_s))
        digest.update(struct.pack(f"<{len(self.node_cores)}q", *self.node_cores))
        digest.update(repr(self.rule).encode())
        if self.details.amounts:
            digest.update(repr(self.details.amounts).encode())
        if self.rule.on_demand_ages:
            digest.update(b"on_demand_ages")
        if self.take_backs is not None:
            digest.update(struct.pack("<qd", self.take_backs.taken, self.take_backs.lived_s))
        for samples in self.samples.values():
            digest.update(samples.to_bytes())
        return digest.hexdigest()[:_VERSION_DIGITS]

    def distribution(self, cores: int, free_slots: int, amounts: Amounts = ()) -> LifetimeDistribution | None:
        """Return the lifetime of an instance admitted at this number of free slots; None without any sample.

        Raises
        ------
        NoTableError
            When the table does not hold the flavour.
        """
        return self._expose(self._cells((cores, amounts)).distribution(free_slots))

    def _expose(self, distribution: LifetimeDistribution | None) -> LifetimeDistribution | None:
        if distribution is None or self.take_backs is None:
            return distribution
        if distribution not in self._exposed:
            self._exposed[distribution] = distribution.exposed_to(self.take_backs)
        return self._exposed[distribution]

    def conditions(self, flavour: Flavour) -> tuple[Condition, ...]:
        """Return all conditions that were seen of a flavour, fewest free slots first.

        Raises
        ------
        NoTableError
            When the table does not hold the flavour.
        """
        return tuple(
            Condition(
                cell.free_slots_from,
                cell.free_slots_to,
                self._expose(cell.distribution) or cell.distribution,
                float(cell.span_s.sum()) or float(len(cell.span_s)),
            )
            for cell in self._cells(flavour).cells
        )

    def release_horizons_s(self, cores: int, amounts: Amounts = ()) -> tuple[float, ...]:
        """Return the horizons for which ``informed_distribution`` needs free slots; none without releases.

        Raises
        ------
        NoTableError
            When the table does not hold the flavour.
        """
        known = self.rule.release_horizons_s
        return known if self._samples_of((cores, amounts)).releases.shape[1] == len(known) else ()

    def informed_distribution(
        self, cores: int, room: tuple[int, ...], ages_s: Sequence[float] = ()
    ) -> LifetimeDistribution | None:
        """Return the lifetime of an instance given the slots that running instances will leave.

        Each lifetime is looked up by its own horizon; from one to the next the risk never falls. None without
        any sample.

        Parameters
        ----------
        room
            Free slots once the spot instances have left whose requested end lies within each of
            ``release_horizons_s``.
        ages_s
            Ages in seconds of the running on-demand instances, in order of start; used if the rule has
            ``on_demand_ages``.

        Raises
        ------
        NoTableError
            When the table does not hold the size.
        """
        # Only samples of uniform sizes have releases, and those need nothing beside cores.
        condition = self._forecast(cores).level(room, ages_s) if self.rule.on_demand_ages else room
        key = cores, condition
        if key not in self._informed:
            cells = (self._cells((cores, ()), index) for index in range(len(condition)))
            parts = [cell.distribution(slots) for cell, slots in zip(cells, condition, strict=True)]
            self._informed[key] = self._expose(LifetimeDistribution.spliced(parts, self.rule.lookup_limits_s))
        return self._informed[key]

    def levels(self, cores: int) -> NDArray[np.int32]:
        """Return the forecast level at the birth of each sample: int32[samples, horizons].

        ``Forecast.levels`` defines the levels.

        Raises
        ------
        NoTableError
            When the table does not hold the size.
        """
        if cores not in self._levels:
            samples = self._samples_of((cores, ()))
            room = samples.free_slots[:, np.newaxis].astype(np.int64) + samples.releases
            middle_s = samples.birth_s + samples.span_s / 2
            self._levels[cores] = self._forecast(cores).levels(middle_s, room, samples.on_demand)
        return self._levels[cores]

    def _forecast(self, cores: int) -> Forecast:
        if cores not in self._forecasts:
            runs = self._samples_of((cores, ())).on_demand
            self._forecasts[cores] = Forecast(runs, self.made_at_s, self.rule.release_horizons_s)
        return self._forecasts[cores]

    def _cells(self, flavour: Flavour, horizon: int = -1) -> _SizeCells:
        """Return the cells by free slots at birth, or once releases within a horizon have happened.

        Parameters
        ----------
        horizon
            Index of the release horizon, -1 for none.
        """
        if (flavour, horizon) not in self._sizes:
            samples = self._samples_of(flavour)
            most = self._most(flavour)
            condition, edges = samples.free_slots, bin_edges(most)
            if horizon >= 0 and self.rule.on_demand_ages:
                levels = self.levels(samples.cores)
                condition, edges, most = levels[:, horizon], np.arange(LEVELS + 1), LEVELS
            elif horizon >= 0:
                condition = condition + samples.releases[:, horizon]
            self._sizes[flavour, horizon] = _SizeCells(samples, condition, edges, most, self.rule)
        return self._sizes[flavour, horizon]

    def _most(self, flavour: Flavour) -> int:
        """Return the free slots of the empty cloud."""
        cores, amounts = flavour
        has = dict(self.details.amounts)
        needs = [(self.node_cores, cores), *((has[name], need) for name, need in amounts if name in has)]
        by_node = zip(*([amount // need for amount in column] for column, need in needs if need), strict=True)
        return sum(map(min, by_node))

    def _samples_of(self, flavour: Flavour) -> Samples:
        if flavour not in self.samples:
            flavours = ", ".join(map(_named, self.samples)) or "none"
            raise NoTableError(
                f"the table made at {self.made_at_s} s has no size {_named(flavour)} (it has {flavours})"
            )
        return self.samples[flavour]

    def estimate(self, cores: int, free_slots: int, lifetime_s: float, amounts: Amounts = ()) -> Estimate:
        """Return the risk of eviction before ``lifetime_s`` seconds.

        Raises
        ------
        NoTableError
            When the table does not hold the flavour.
        """
        distribution = self.distribution(cores, free_slots, amounts)
        if distribution is None:
            return Estimate(0.0 if lifetime_s <= 0 else 1.0, lifetime_s <= 0, 0)
        return Estimate(
            distribution.risk(lifetime_s), distribution.has_evidence(lifetime_s), distribution.samples
        )

    def survives_s(self, cores: int, free_slots: int, sla: float, amounts: Amounts = ()) -> float:
        """Return the longest lifetime in seconds whose ``estimate`` is at most ``sla`` and has evidence.

        Raises
        ------
        NoTableError
            When the table does not hold the flavour.
        SpecError
            Unless 0 <= sla <= 1.
        """
        distribution = self.distribution(cores, free_slots, amounts)
        return 0.0 if distribution is None else distribution.survives_s(sla)

    def rows(self, slas: Sequence[float] = SHOWN_SLAS) -> list[dict[str, Any]]:
        """Return one dictionary a cell, by flavour and free slots, fit for JSON, for display and plots.

        ``amounts`` is there for flavours that have some, ``quantiles_s`` is the longest lifetime by SLA, and
        ``risk_intervals`` bounds the risk before that lifetime at .95 confidence.
        """
        rows = []
        for flavour in self.samples:
            cores, amounts = flavour
            for cell in self._cells(flavour).cells:
                distribution = self._expose(cell.distribution) or cell.distribution
                quantiles_s = {sla: distribution.survives_s(sla) for sla in slas}
                rows.append(
                    {
                        "cores": cores,
                        "free_slots_from": cell.free_slots_from,
                        "free_slots_to": cell.free_slots_to,
                        "samples": distribution.samples,
                        "evictions": distribution.evictions,
                        "followed_up_s": distribution.followed_up_s,
                        "quantiles_s": quantiles_s,
                        "risk_intervals": {
                            sla: distribution.interval(lifetime_s) for sla, lifetime_s in quantiles_s.items()
                        },
                        **({"amounts": dict(amounts)} if amounts else {}),
                    }
                )
        return rows

    def to_frame(self, slas: Sequence[float] = SHOWN_SLAS) -> pd.DataFrame:
        """Return one row a cell and SLA (pandas is imported here, not before).

        Columns: cores, free_slots_from, free_slots_to, samples, evictions, followed_up_s, sla, survives_s,
        risk_low and risk_high (the risk before ``survives_s`` at .95 confidence), and one for each resource
        beside cores.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                **{key: row[key] for key in _FRAMED},
                "sla": sla,
                "survives_s": row["quantiles_s"][sla],
                **dict(zip(("risk_low", "risk_high"), row["risk_intervals"][sla], strict=True)),
                **row.get("amounts", {}),
            }
            for row in self.rows(slas)
            for sla in slas
        )


def _named(flavour: Flavour) -> str:
    cores, amounts = flavour
    return " ".join((str(cores), *(f"{name}={amount}" for name, amount in amounts)))
