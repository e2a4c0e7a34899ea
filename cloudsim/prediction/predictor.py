"""Make a cloud's tables from its growing history: exact where all is of one size, by replays elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import numpy as np

from cloudsim.history.event_log import EventLog
from cloudsim.model.errors import SpecError
from cloudsim.model.plugins import PREDICTORS, load_plugins, make_part, read_part
from cloudsim.model.requests import Amounts
from cloudsim.prediction.kernels.line_up_replays import is_compiled
from cloudsim.prediction.rule import OUR_RULE, PredictionRule
from cloudsim.prediction.samplers.line_up import LineUpSampler
from cloudsim.prediction.samplers.plain import PlainSampler
from cloudsim.prediction.samplers.pool import PoolSampler
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samplers.uniform import UniformSampler
from cloudsim.prediction.samples import STACK_TOP, Flavour, Samples, flavour_of
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.lineups import YOUNGEST_JOB_FIRST, lineup

__all__ = ["LocalPredictor", "Sampler", "SamplerSpec"]


class HistorySampler(Protocol):
    """Samples one flavour of a history that grows."""

    until_s: float

    def feed(self, events: EventLog, until_s: float) -> None:
        """Go on with the history up to, not including, ``until_s``."""

    def samples(self) -> Samples:
        """Return the samples known at ``until_s``."""


#: Makes a sampler: spec, cores, share, shares and amounts as for ``Sampler``, and parameters of its own by
#: name. Installed packages add them as entry points.
MakeSampler = Callable[..., HistorySampler]


def find_predictor(value: object, *, field: str = "predictor") -> tuple[MakeSampler, dict[str, object]]:
    """Return the predictor of an installed package, and its parameters.

    Parameters
    ----------
    value
        Its name; or a table with the name and parameters, also as text in JSON.

    Raises
    ------
    SpecError
        When no package adds one of that name; it names ``field`` and lists those that exist.
    """
    name, parameters = read_part(value, field)
    added: dict[str, MakeSampler] = load_plugins(PREDICTORS, Callable)
    if name not in added:
        known = ", ".join(sorted(added)) or "none: no installed package adds one"
        raise SpecError(f"no predictor is called {name!r}; there are: {known}", field=field)
    return added[name], parameters


def replay_sampler(
    spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1, amounts: Amounts = ()
) -> ReplaySampler:
    """Return a sampler by replays.

    It is the fast one for youngest-job-first where only cores count, the general one for any other line-up,
    and the slow one for line-ups with parts in plain Python.
    """
    plain = spec.lineup == YOUNGEST_JOB_FIRST.name and not (spec.details.amounts or spec.details.labels)
    if plain and not amounts:
        return ReplaySampler(spec, cores, share, shares)
    kind = LineUpSampler if is_compiled(lineup(spec.lineup)) else PlainSampler
    return kind(spec, cores, share, shares, amounts)


class Sampler:
    """Samples the time until eviction of one flavour, exactly for as long as its history allows.

    As long as everything fed had the flavour's size, every birth counts (``UniformSampler``). From the first
    other size on, births are drawn at random (``ReplaySampler``). With uniform sizes the node does not
    matter, but the order of victims does: orders other than youngest-job-first, further resources and
    restricted instances are always replayed (``LineUpSampler``). For a flavour of a pool
    (``cloudsim.admission.pools``), only own users' requests count (``PoolSampler``). All other flavours of a
    cloud with a predictor of an installed package are sampled by that.

    The choice depends only on the spec and the events before the boundary, so all shares agree, and so does
    any other process that is fed the same history.

    Parameters
    ----------
    spec
        The cloud, and how well it is sampled.
    cores
        The size.
    share, shares
        Sample only the births whose number modulo ``shares`` is ``share``.
    amounts
        Amounts of other resources that the flavour needs.
    """

    def __init__(self, spec: SamplerSpec, cores: int, share: int = 0, shares: int = 1, amounts: Amounts = ()):
        self.spec, self.cores, self.share, self.shares = spec, int(cores), share, shares
        self.amounts = amounts
        policy = lineup(spec.lineup)
        usual = policy.victims is YOUNGEST_JOB_FIRST.victims and policy.filters == YOUNGEST_JOB_FIRST.filters
        youngest_first = usual and not policy.renews
        self._sampler: HistorySampler
        if STACK_TOP in dict(amounts):
            self._sampler = PoolSampler(spec, dict(amounts)[STACK_TOP], amounts, share, shares)
        elif spec.predictor is not None:
            make, parameters = find_predictor(spec.predictor)
            arguments = (spec, self.cores, share, shares, amounts)
            self._sampler = make_part(make, parameters, "predictor", *arguments)
        elif youngest_first and not amounts and not spec.details.amounts and not spec.details.labels:
            self._sampler = UniformSampler(spec, self.cores, share, shares)
        else:
            self._sampler = replay_sampler(spec, self.cores, share, shares, amounts)
        self._log: list[EventLog] = []  # kept as long as replays may still have to start from it

    @property
    def until_s(self) -> float:
        """The boundary fed last, in seconds."""
        return self._sampler.until_s

    def feed(self, events: EventLog, until_s: float) -> None:
        """Go on with the history up to, not including, ``until_s``.

        A refused feed changes nothing.

        Parameters
        ----------
        events
            Events in [previous ``until_s``, ``until_s``), going on where the last feed ended.
        until_s
            The new boundary in seconds.

        Raises
        ------
        SpecError
            When the boundary goes back.
        InputError
            When the events are out of order.
        """
        sampler = self._sampler
        if isinstance(sampler, UniformSampler):
            restricted = events.details is not None and events.details.restricted
            if np.all(events.cores == self.cores) and not restricted:
                sampler.feed(events, until_s)
                self._log.append(events)
                return
            sampler = replay_sampler(self.spec, self.cores, self.share, self.shares)
            if self._log:
                sampler.feed(EventLog.concatenate(self._log), self.until_s)
        sampler.feed(events, until_s)
        self._sampler, self._log = sampler, []

    def samples(self) -> Samples:
        """Return the samples known at ``until_s``."""
        return self._sampler.samples()


class LocalPredictor:
    """Makes a cloud's tables in this process: one sampler a flavour, all fed the same history.

    Parameters
    ----------
    spec
        The cloud, and how well it is sampled.
    sizes
        Cores, or cores with amounts of other resources.
    rule
        Whether the virtual instance is always the youngest, how long samples are followed up, and how they
        become risks; applied on top of ``spec``.
    """

    def __init__(self, spec: SamplerSpec, sizes: Iterable[int | Flavour], rule: PredictionRule = OUR_RULE):
        self.spec = replace(
            spec,
            horizon_s=min(spec.horizon_s, rule.horizon_s),
            always_youngest=spec.always_youngest or rule.always_youngest,
            release_horizons_s=rule.release_horizons_s,
        )
        self.rule = rule
        self._log: list[EventLog] = []
        self._samplers: dict[Flavour, Sampler | ReplaySampler] = {}
        self.until_s = 0.0
        for size in sizes:
            self.add(*flavour_of(size))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in cores, ascending."""
        return tuple(sorted({cores for cores, _ in self._samplers}))

    def add(self, cores: int, amounts: Amounts = ()) -> None:
        """Add a flavour; it is sampled from the beginning of the history.

        Raises
        ------
        SpecError
            When ``cores`` is no size.
        """
        if (cores, amounts) in self._samplers:
            return
        sampler: Sampler | ReplaySampler
        if self.rule.sampled and self.spec.predictor is None and STACK_TOP not in dict(amounts):
            sampler = replay_sampler(self.spec, cores, amounts=amounts)
        else:
            sampler = Sampler(self.spec, cores, amounts=amounts)
        if self.until_s > 0:
            sampler.feed(EventLog.concatenate(self._log), self.until_s)
        self._samplers[cores, amounts] = sampler

    def table(self, new_events: EventLog, boundary_s: float) -> QuantileTable:
        """Return the table made at ``boundary_s`` from the events so far and the new ones, all before it.

        Raises
        ------
        SpecError
            When the boundary goes back.
        InputError
            When the events are out of order.
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
            self.spec.details,
        )
