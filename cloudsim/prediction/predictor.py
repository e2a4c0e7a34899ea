"""A cloud's tables from its growing history: exact where all is of one size, by replays elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cloudsim.eventlog import EventLog
from cloudsim.prediction.rule import OUR_RULE, PredictionRule
from cloudsim.prediction.sampler import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.prediction.uniform import UniformSampler

__all__ = ["LocalPredictor", "Sampler", "SamplerSpec"]


class Sampler:
    """Samples of the time until eviction of one size: of all births as long as everything fed had that size,
    of births drawn at random from when another one showed up (``UniformSampler``, ``ReplaySampler``).

    Which of the two it is hangs on the events before the boundary alone, so that all shares agree, and so
    does whoever is fed the same history elsewhere.
    """

    def __init__(self, spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1):
        self.spec, self.cores, self.share, self.shares = spec, int(cores), share, shares
        self._sampler: UniformSampler | ReplaySampler = UniformSampler(spec, self.cores, share, shares)
        self._log: list[EventLog] = []  # as long as replays may still have to start from it

    @property
    def until_s(self) -> float:
        """The boundary fed last."""
        return self._sampler.until_s

    def feed(self, events: EventLog, until_s: float) -> None:
        """Goes on with the history up to, not including, ``until_s``.

        events: those in [previous ``until_s``, ``until_s``), going on where the last feed ended. Raises
        SpecError when the boundary goes back, InputError when the events are out of order; then nothing has
        changed.
        """
        sampler = self._sampler
        if isinstance(sampler, UniformSampler):
            if np.all(events.cores == self.cores):
                sampler.feed(events, until_s)
                self._log.append(events)
                return
            sampler = ReplaySampler(self.spec, self.cores, self.share, self.shares)
            if self._log:
                sampler.feed(EventLog.concatenate(self._log), self.until_s)
        sampler.feed(events, until_s)
        self._sampler, self._log = sampler, []

    def samples(self) -> Samples:
        """What is known at ``until_s``."""
        return self._sampler.samples()


class LocalPredictor:
    """Makes a cloud's tables in this process: one sampler a size, all fed the same history.

    rule: whether the virtual instance is always the youngest, how long samples are followed up, and how they
    become risks. It adds to what ``spec`` says.
    """

    def __init__(self, spec: SamplerSpec, sizes: Iterable[int], rule: PredictionRule = OUR_RULE):
        self.spec = replace(
            spec,
            horizon_s=min(spec.horizon_s, rule.horizon_s),
            always_youngest=spec.always_youngest or rule.always_youngest,
            release_horizons_s=rule.release_horizons_s,
        )
        self.rule = rule
        self._log: list[EventLog] = []
        self._samplers: dict[int, Sampler | ReplaySampler] = {}
        self.until_s = 0.0
        for cores in sizes:
            self.add(int(cores))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in cores, ascending."""
        return tuple(sorted(self._samplers))

    def add(self, cores: int) -> None:
        """A further size: it starts from the beginning of the history, and gives the same bits as ever.

        Raises SpecError when it is not a size.
        """
        if cores in self._samplers:
            return
        sampler = ReplaySampler(self.spec, cores) if self.rule.sampled else Sampler(self.spec, cores)
        if self.until_s > 0:
            sampler.feed(EventLog.concatenate(self._log), self.until_s)
        self._samplers[cores] = sampler

    def table(self, new_events: EventLog, boundary_s: float) -> QuantileTable:
        """The table made at ``boundary_s`` from the events so far and the new ones, all before it.

        Raises SpecError or InputError as ``Sampler.feed`` does.
        """
        for sampler in self._samplers.values():
            sampler.feed(new_events, boundary_s)
        self._log.append(new_events)
        self.until_s = boundary_s
        return QuantileTable.from_samples(
            [sampler.samples() for sampler in self._samplers.values()],
            self.spec.node_cores,
            boundary_s,
            self.rule,
        )
