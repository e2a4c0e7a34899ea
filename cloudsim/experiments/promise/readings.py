"""Readings of the papers' method: what P1 and P2 leave open, varied and put beside every printed number.

A reading says which history the virtual instances meet, when tables are made, how far an instance is
followed, what becomes of one that is never evicted, and what is promised at a number of free slots that was
never met. Most histories do not depend on what is admitted: their samples are drawn once for the whole
trace, and the table of any moment is cut out of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.admission.rule import PAPERS_ADMISSION
from cloudsim.cloud.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.cloud.spec import HOUR_S, CloudSpec
from cloudsim.experiments.drawing import LINES, Figure, legend_below, panels
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.experiments.promise import beds, pairs
from cloudsim.experiments.promise.published_numbers import (
    ADMITTED,
    LIFETIME_S,
    PAIRS,
    UNAWARE,
    WORK_OF_BASELINE,
    PublishedNumber,
    of_experiment,
    quantity,
)
from cloudsim.experiments.runs import SPOT_DELAY_S, share_of_work, single_cloud_row
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.history.event_log import STOP, EventLog
from cloudsim.model.changes import Change, End, Ended
from cloudsim.model.instances import Quote
from cloudsim.model.requests import Amounts
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.rule import Censoring, PredictionRule
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samples import Flavour, Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.trace import Trace

SLA = 0.01
BIRTHS, QUICK_BIRTHS = 2_000, 100
DAY_S = 24 * HOUR_S
#: Condition and time of the quantiles that P1 Figure 3 and P2 Figure 3 print.
_FREE_SLOTS, _SHOWN_AT_S = 15, 9 * DAY_S
#: A lifetime that no request reaches.
FOR_EVER_S = 1e11


class HistorySource(StrEnum):
    """The instances whose events a history holds."""

    OWN = "own load"  # on-demand alone, played without any spot
    UNAWARE = "run without an SLA"  # with all spot that fits, each instance with the end that it asked for
    OBSERVED = "run without an SLA, observed ends"  # an evicted instance ends when it is evicted
    AWARE = "the run itself"  # with the spot that the reading has admitted so far


class Until(StrEnum):
    """The moment up to which a virtual instance is followed."""

    TABLE = "the moment of the table"
    TRACE = "the end of the trace"
    AROUND = "once around the trace"  # on from its beginning


class Unevicted(StrEnum):
    """The treatment of a virtual instance that nothing has evicted yet."""

    DROPPED = "left out"
    AS_EVICTED = "counts as evicted then"
    KAPLAN_MEIER = "Kaplan–Meier"
    FOR_EVER = "lives for ever"


class Unseen(StrEnum):
    """The promise at fewer free slots than any sample met.

    Between two numbers of slots that were met, quantiles lie on a line.
    """

    REFUSED = "nothing"
    LINE = "less, on a line to 0"
    LOWEST = "as at the fewest met"
    OURS = "as spotfed does"  # risks on a line to 1, and small conditions joined


class Born(StrEnum):
    """The moments at which virtual instances are born."""

    ANY_TIME = "at any time"
    STARTS = "at starts"
    EVENTS = "at starts and stops"  # the lines of a trace, "random locations" of which P1 §III-C takes


class Spot(StrEnum):
    """The times at which spot requests come."""

    DELAYED = "a day late"
    RANDOM = "each up to two days late"
    EVEN = "one after the other, evenly"


@dataclass(frozen=True)
class Reading:
    """One way to read the papers; the default is their text, taken literally.

    Attributes
    ----------
    refresh_s
        Seconds between two tables; None makes one in advance, from the whole trace.
    window_s
        Births count for this many seconds.
    youngest
        The virtual instance always leaves first (P2 §2.4), not by its age.
    born
        Where virtual instances are born.
    cap_s
        Spot requests ask for no longer lifetime.
    fewer
        Nodes taken away of the small clouds (one for each) and of the large ones (five for each).
    """

    source: HistorySource = HistorySource.AWARE
    refresh_s: float | None = 6 * HOUR_S
    until: Until = Until.TABLE
    unevicted: Unevicted = Unevicted.DROPPED
    unseen: Unseen = Unseen.LINE
    youngest: bool = True
    window_s: float = math.inf
    born: Born = Born.ANY_TIME
    spot: Spot = Spot.DELAYED
    delay_s: float = SPOT_DELAY_S
    cap_s: float = math.inf
    fewer: int = 0

    @property
    def name(self) -> str:
        """The reading in words: source, tables, end of samples, unseen conditions, and what is unusual."""
        made = "in advance" if self.refresh_s is None else f"every {_duration(self.refresh_s)}"
        parts = [self.source.value, made]
        if self.until is not Until.TABLE:
            parts.append(f"followed to {self.until.value}" if self.until is Until.TRACE else self.until.value)
        parts += [f"unevicted {self.unevicted.value}", f"unseen: {self.unseen.value}"]
        if self.source is not HistorySource.OWN:
            parts.append("always youngest" if self.youngest else "by age")
        if self.window_s < math.inf:
            parts.append(f"last {_duration(self.window_s)}")
        if self.born is not Born.ANY_TIME:
            parts.append(f"born {self.born.value}")
        if self.spot is not Spot.DELAYED:
            parts.append(f"spot {self.spot.value}")
        if self.delay_s != SPOT_DELAY_S:
            parts.append(f"spot {_duration(self.delay_s)} late")
        if self.cap_s < math.inf:
            parts.append(f"lifetimes up to {_duration(self.cap_s)}")
        if self.fewer:
            parts.append(f"{self.fewer} node fewer (A, B), {5 * self.fewer} fewer (C, D)")
        return "; ".join(parts)

    def nodes(self, pair: str, taken: int = 0) -> str:
        """Return the shape of a pair's platform with some nodes taken away."""
        fewer = self.fewer * (1 if pair[0] in "AB" else 5)
        return pairs.shape(pair, pairs.FULL_NODES[pair[0]] - fewer - taken)

    def requests(self, on_demand: Trace, spot: Trace) -> Trace:
        """Return the spot requests as the reading plays them."""
        start_s = spot.start_s
        if self.spot is Spot.RANDOM:
            start_s = start_s + np.random.default_rng(0).uniform(-DAY_S, DAY_S, len(spot))
        elif self.spot is Spot.EVEN:
            start_s = np.arange(len(spot)) / len(spot) * (on_demand.last_stop_s - self.delay_s)
        elif self.cap_s == math.inf:
            return spot
        start_s = np.maximum(start_s, 0.0)
        stop_s = start_s + np.minimum(spot.lifetime_s, self.cap_s)
        return Trace.checked(spot.name, spot.instance, start_s, stop_s, spot.cores)


def _duration(seconds: float) -> str:
    for name, unit_s in (("d", DAY_S), ("h", HOUR_S), ("min", 60.0)):
        if seconds >= unit_s and seconds % unit_s == 0:
            return f"{seconds / unit_s:g} {name}"
    return f"{seconds:g} s"


class SetUp(NamedTuple):
    """A platform, its own load, and the spot requests that come ``delay_s`` later than their trace says."""

    nodes: str
    on_demand: Trace
    spot: Trace
    delay_s: float


def _promises(lifetime_s: float) -> LifetimeDistribution:
    """Return a distribution that bears this lifetime at any SLA, and none that is longer."""
    return LifetimeDistribution(np.array([lifetime_s]), np.zeros(1), 1, 0)


def _never_evicted(cores: int) -> Samples:
    """Return samples that say: an instance of this size lives for ever."""
    one, zero = np.ones(1), np.zeros(1)
    return Samples(
        cores,
        0.0,
        0,
        one.astype(np.int64),
        zero,
        one.astype(np.int32),
        one * FOR_EVER_S,
        zero.astype(np.bool_),
        zero,
    )


@lru_cache(maxsize=16)
def record(setup: SetUp, source: HistorySource) -> tuple[EventLog, float]:
    """Play a set-up once, without spot or with all spot that fits; return its events and where they end."""
    spec = CloudSpec("cloud", parse_nodes(setup.nodes), admission=PAPERS_ADMISSION)
    # With an SLA, because spot without one leaves no trace in a history.
    spot = (
        () if source is HistorySource.OWN else (Workload("spot", setup.spot, setup.delay_s, 0.5, ("cloud",)),)
    )
    federation = Federation((FederatedCloud(spec, setup.nodes, setup.on_demand),), spot)
    cloud = Cloud(spec, setup.on_demand, federation.ends_s)
    samples = [_never_evicted(cores) for cores in np.unique(setup.spot.cores).tolist()]
    cloud.table = _Quantiles(samples, spec.node_cores, FOR_EVER_S, PredictionRule(), 0.5, Unseen.LOWEST)

    def observe(changes: Iterable[Change]) -> None:
        for change in changes:
            if isinstance(change, Ended) and change.how is End.EVICTED and source is HistorySource.OBSERVED:
                cloud.history.record_changed_stop(change.instance, change.at_s)

    for at_s, request, _ in federation.requests():
        observe(cloud.advance(at_s))
        if isinstance(cloud.consider(request), Quote):
            cloud.admit(request, at_s)
    observe(cloud.advance(*AFTER_EVERYTHING))
    end_s = math.nextafter(federation.ends_s, math.inf)
    return cloud.history.cut(end_s), end_s


def _once_more(log: EventLog, end_s: float) -> EventLog:
    """Return the events of a log again, after its end: what still ran stops there."""
    running = ~np.isin(log.instance, log.instance[log.kind == STOP]) & log.starts
    count = int(running.sum())
    ends_s = np.full(count, end_s)
    stops = EventLog(ends_s, np.full(count, STOP, np.int8), log.instance[running], log.cores[running], ends_s)
    later = replace(
        log,
        time_s=log.time_s + end_s,
        instance=log.instance + int(log.instance.max(initial=-1)) + 1,
        end_s=log.end_s + end_s,
    )
    return EventLog.concatenate([stops, later])


class _BornAtEvents(ReplaySampler):
    """Samples virtual instances that are born at events: those that ``births`` marks, bool (events,)."""

    births: NDArray[np.bool_]

    def _draw(
        self, times: NDArray[np.float64], free_slots: NDArray[np.int32], until_s: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        after = np.searchsorted(times, times, side="right")
        born = np.flatnonzero(self.births & (free_slots[after] > 0) & (times < until_s))
        born = born[:: max(1, len(born) // self.spec.births)]
        return born + 1, times[born]


@lru_cache(maxsize=256)
def _samples(
    setup: SetUp, source: HistorySource, spec: SamplerSpec, cores: int, born: Born, around: bool
) -> Samples:
    """Sample a whole history that does not depend on what is admitted."""
    log, end_s = record(setup, source)
    sampler = ReplaySampler(spec, cores) if born is Born.ANY_TIME else _BornAtEvents(spec, cores)
    if isinstance(sampler, _BornAtEvents):
        sampler.births = log.starts | (born is Born.EVENTS)
    sampler.feed(log, end_s)
    if not around:
        return sampler.samples()
    sampler.feed(_once_more(log, end_s), math.nextafter(2 * end_s, math.inf))
    samples = sampler.samples()
    samples = _rows(samples, samples.birth_s < end_s)
    return replace(
        samples,
        duration_s=np.minimum(samples.duration_s, end_s),
        evicted=samples.evicted & (samples.duration_s < end_s),
    )


def _rows(samples: Samples, which: NDArray[np.bool_]) -> Samples:
    columns = ("number", "birth_s", "free_slots", "duration_s", "evicted", "span_s")
    return replace(samples, **{column: getattr(samples, column)[which] for column in columns})


class ReadingPredictor:
    """Makes the tables of one run as a reading says.

    ``shown`` becomes the one that counts after nine days.
    """

    def __init__(
        self,
        reading: Reading,
        setup: SetUp,
        sla: float,
        shown: list[QuantileTable],
        spec: SamplerSpec,
        flavours: Sequence[Flavour],
        _rule: PredictionRule,
    ):
        self._reading, self._setup, self._sla, self._shown = reading, setup, sla, shown
        self._spec = replace(
            spec, always_youngest=reading.youngest and reading.source is not HistorySource.OWN
        )
        self._cores = [cores for cores, _ in flavours]
        own = reading.source is HistorySource.AWARE
        self._own = [ReplaySampler(self._spec, cores) for cores in self._cores] if own else []

    def table(self, new_events: EventLog, boundary_s: float) -> QuantileTable:
        """Return the table that counts from ``boundary_s`` on; see ``Reading``."""
        table = self._table(new_events, boundary_s)
        if boundary_s <= _SHOWN_AT_S:
            self._shown[:] = [table]
        return table

    def _table(self, new_events: EventLog, boundary_s: float) -> QuantileTable:
        reading = self._reading
        for sampler in self._own:
            sampler.feed(new_events, boundary_s)
        around = reading.until is Until.AROUND
        parts = [sampler.samples() for sampler in self._own] or [
            _samples(self._setup, reading.source, self._spec, cores, reading.born, around)
            for cores in self._cores
        ]
        if reading.refresh_s is not None:
            parts = [_until(part, boundary_s, reading) for part in parts]
        censoring = Censoring.KAPLAN_MEIER
        match reading.unevicted:
            case Unevicted.DROPPED:
                censoring = Censoring.DROPPED
            case Unevicted.AS_EVICTED:
                censoring = Censoring.AS_EVICTED
            case Unevicted.FOR_EVER:
                parts = [
                    replace(part, duration_s=np.where(part.evicted, part.duration_s, FOR_EVER_S))
                    for part in parts
                ]
        made_at_s = FOR_EVER_S if reading.refresh_s is None else boundary_s
        rule = PredictionRule(censoring)
        if reading.unseen is Unseen.OURS:
            return QuantileTable.from_samples(parts, self._spec.node_cores, made_at_s, rule)
        return _Quantiles(parts, self._spec.node_cores, made_at_s, rule, self._sla, reading.unseen)


def _until(samples: Samples, at_s: float, reading: Reading) -> Samples:
    """Return the samples as a table made at ``at_s`` knows them."""
    samples = _rows(samples, (samples.birth_s >= at_s - reading.window_s) & (samples.birth_s < at_s))
    if reading.until is Until.TRACE:
        return samples
    followed_s = at_s - samples.birth_s
    return replace(
        samples,
        duration_s=np.minimum(samples.duration_s, followed_s),
        evicted=samples.evicted & (samples.duration_s < followed_s),
    )


class _Quantiles(QuantileTable):
    """The quantile of each number of free slots that was met, on a line between them (P2 §3.3)."""

    def __init__(
        self,
        samples: Sequence[Samples],
        node_cores: Sequence[int],
        made_at_s: float,
        rule: PredictionRule,
        sla: float,
        unseen: Unseen,
    ):
        super().__init__(samples, node_cores, made_at_s, rule)
        self._sla, self._unseen = sla, unseen
        self._lines: dict[int, tuple[list[int], list[float]]] = {}

    version = ""  # a table serves one run, and nothing names it

    def _line(self, cores: int, amounts: Amounts) -> tuple[list[int], list[float]]:
        """Return the numbers of free slots that were met, and their quantiles in seconds."""
        if cores not in self._lines:
            part = self.samples[cores, amounts]
            order = np.argsort(part.free_slots, kind="stable")
            slots, first = np.unique(part.free_slots[order], return_index=True)
            each = {
                number: LifetimeDistribution.from_samples(
                    part.duration_s[rows], part.evicted[rows], rule=self.rule
                )
                for number, rows in zip(slots.tolist(), np.split(order, first[1:]), strict=False)
            }
            met = {number: part.survives_s(self._sla) for number, part in each.items() if part.samples}
            if met and self._unseen is Unseen.LINE:
                met = {0: 0.0, **met}
            self._lines[cores] = list(met), list(met.values())
        return self._lines[cores]

    def distribution(self, cores: int, free_slots: int, amounts: Amounts = ()) -> LifetimeDistribution | None:
        met, quantiles_s = self._line(cores, amounts)
        if not met or (self._unseen is Unseen.REFUSED and free_slots < met[0]):
            return None
        return _promises(float(np.interp(free_slots, met, quantiles_s)))


def run(
    setup: SetUp,
    reading: Reading,
    *,
    pair: str,
    sla: float | None,
    births: int,
    shown: list[QuantileTable] | None = None,
) -> Row:
    """Replay one platform under a reading and return its row, without an SLA under none."""
    shown = [] if shown is None else shown
    options: dict[str, Any] = {}
    if sla is not None:
        options = {
            "admission": PAPERS_ADMISSION, "refresh_s": reading.refresh_s or 6 * HOUR_S,
            "predictor": partial(ReadingPredictor, reading, setup, sla, shown),
        }  # fmt: skip
    row = single_cloud_row(
        pair=pair, nodes=setup.nodes, on_demand=setup.on_demand, spot=setup.spot, sla=sla,
        spot_delay_s=setup.delay_s, births=births, **options,
    )  # fmt: skip
    del row["by_size"], row["refusals"]
    return {"reading": reading.name, **row}


#: Numbers that the papers print, as this experiment asks for them: table → numbers.
TABLE_3, TABLE_4, SCALING, WORK, FIGURE_1, FIGURE_3 = (
    "Table III", "Table IV", "scaling", "P2 §3.6", "Figure 1", "Figure 3",
)  # fmt: skip
_SYNTHETIC_SLAS = (0.25, 0.05, 0.01)


def _numbers() -> dict[str, list[PublishedNumber]]:
    def asked(number: PublishedNumber, block: str, **of: Any) -> PublishedNumber:
        return replace(number, of={"block": block, **of})

    tables = of_experiment("tables-3-4")
    return {
        TABLE_3: [asked(number, "tables", **number.of) for number in tables if number.of["sla"] is None],
        TABLE_4: [
            asked(number, "tables", **number.of)
            for number in tables
            if number.of["sla"] == SLA and number.where != WORK
        ],
        SCALING: [
            asked(number, "scaling", **number.of)
            for number in of_experiment("scaling")
            if number.of["nodes"] != pairs.shape(number.of["pair"])
        ],
        WORK: [
            asked(number, "tables", **number.of) for number in of_experiment("tables-3-4", WORK_OF_BASELINE)
        ],
        FIGURE_1: [
            asked(number, "synthetic", sla=number.of["sla"])
            for rule, where_ in ((UNAWARE, None), ("strict", 0.25))
            for number in of_experiment("figure-1")
            if number.where.startswith("P1") and number.of == {"rule": rule, "sla": where_}
        ],
        FIGURE_3: [
            asked(number, "synthetic", sla=number.of["quantile"])
            for number in of_experiment("figures-2-3", LIFETIME_S)
            if number.of["rank"] == "exact"
        ],
    }  # fmt: skip


NUMBERS = _numbers()


def difference(number: PublishedNumber, rows: Sequence[Row]) -> float | None:
    """Return how far ours is from a printed number: shares by their difference, seconds by their ratio.

    Where nothing is admitted, nothing is evicted; a quantile that is missing is 1 away. None without a run.
    """
    if not where(rows, **number.of):
        return None
    values = number.values(rows)
    if not values:
        return 1.0 if number.quantity == LIFETIME_S else number.number
    if number.quantity == LIFETIME_S:
        return min(abs(values[0] / number.number - 1.0), 1.0)
    return min(abs(values[0] - number.number), 1.0)


def score(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean difference from the numbers of each table, and of "all", where all were computed."""
    each = {table: [difference(number, rows) for number in numbers] for table, numbers in NUMBERS.items()}
    done = {table: [value for value in values if value is not None] for table, values in each.items()}
    scores = {table: math.fsum(done[table]) / len(each[table]) for table in each if None not in each[table]}
    if len(scores) == len(NUMBERS):
        scores["all"] = math.fsum(math.fsum(values) for values in done.values()) / sum(
            map(len, done.values())
        )
    return scores


LITERAL = Reading()
#: The reading around which the grid varies one thing at a time: no other class of readings comes as near to
#: Table IV. No cloud could follow it, because it knows the future of its own setup.
IN_ADVANCE = Reading(
    source=HistorySource.OWN,
    refresh_s=None,
    unevicted=Unevicted.FOR_EVER,
    unseen=Unseen.REFUSED,
    youngest=False,
)


def _grid() -> Iterator[tuple[Reading, bool]]:
    """Yield each reading, and whether it is put beside every number (else beside Tables III and IV, §3.6)."""
    yield IN_ADVANCE, True
    for unevicted in Unevicted:
        yield replace(LITERAL, unevicted=unevicted), True
    changes: tuple[Mapping[str, Any], ...] = (
        {"until": Until.AROUND}, {"born": Born.STARTS}, {"born": Born.EVENTS}, {"fewer": 1},
        {"spot": Spot.RANDOM}, {"spot": Spot.EVEN}, {"delay_s": 0.0}, {"delay_s": 7 * DAY_S},
        {"cap_s": DAY_S}, {"cap_s": 6 * HOUR_S},
        {"source": HistorySource.UNAWARE, "until": Until.AROUND}, {"source": HistorySource.OBSERVED},
        {"source": HistorySource.OBSERVED, "unevicted": Unevicted.DROPPED},
        {"refresh_s": 6 * HOUR_S, "window_s": 7 * DAY_S}, {"refresh_s": 6 * HOUR_S, "window_s": 30 * DAY_S},
        {"refresh_s": 5 * 60.0}, {"refresh_s": 5 * 60.0, "unevicted": Unevicted.KAPLAN_MEIER},
    )  # fmt: skip
    for change in changes:
        yield replace(IN_ADVANCE, **change), "born" in change
    for unevicted in (Unevicted.KAPLAN_MEIER, Unevicted.AS_EVICTED):
        yield replace(IN_ADVANCE, unevicted=unevicted), True
    made: tuple[tuple[float | None, Until], ...] = (
        (None, Until.TABLE), (6 * HOUR_S, Until.TRACE), (6 * HOUR_S, Until.TABLE),
    )  # fmt: skip
    for (refresh_s, until), unevicted, unseen in product(made, Unevicted, Unseen):
        if refresh_s is None or unevicted is not Unevicted.DROPPED:  # nothing is evicted on B, C and D
            yield Reading(HistorySource.OWN, refresh_s, until, unevicted, unseen, youngest=False), False
    for unevicted in Unevicted:
        yield replace(LITERAL, unevicted=unevicted, unseen=Unseen.OURS, youngest=False), False
    for change in ({"delay_s": 0.0}, {"cap_s": DAY_S}, {"window_s": 7 * DAY_S}, {"fewer": 1}):
        yield replace(LITERAL, **change), False
    for youngest, (refresh_s, until), unevicted in product((True, False), made, Unevicted):
        for unseen in (Unseen.REFUSED, Unseen.LINE, Unseen.OURS):
            if youngest or refresh_s is None:
                yield Reading(HistorySource.UNAWARE, refresh_s, until, unevicted, unseen, youngest), False


READINGS: dict[str, tuple[Reading, bool]] = {}
for _reading, _whole in _grid():
    READINGS.setdefault(_reading.name, (_reading, _whole))


@lru_cache(maxsize=8)
def _setup(data: Path, pair: str, most: int | None, name: str, taken: int = 0) -> SetUp:
    reading, _ = READINGS[name]
    on_demand, spot = _traces(data, pair, most)
    return SetUp(reading.nodes(pair, taken), on_demand, reading.requests(on_demand, spot), reading.delay_s)


@lru_cache(maxsize=8)
def _traces(data: Path, pair: str, most: int | None) -> tuple[Trace, Trace]:
    return pairs.read_pair(data, pair, most)


@lru_cache(maxsize=16)
def _unaware(setup: SetUp, pair: str) -> Row:
    return run(setup, LITERAL, pair=pair, sla=None, births=1)


def on_tables(data: Path, *, reading: str, births: int, most: int | None) -> list[Row]:
    """Run the four pairs on their own platforms, without an SLA and with one of .01."""
    return [
        {"block": "tables", **row}
        for pair in PAIRS
        for setup in (_setup(data, pair, most, reading),)
        for row in (
            _unaware(setup, pair) | {"reading": reading},
            run(setup, READINGS[reading][0], pair=pair, sla=SLA, births=births),
        )
    ]


def on_fewer_nodes(data: Path, *, reading: str, births: int, most: int | None) -> list[Row]:
    """Run the platforms whose numbers the papers print, at an SLA of .01."""
    return [
        {"block": "scaling"} | run(
            _setup(data, pair, most, reading, taken), READINGS[reading][0], pair=pair, sla=SLA, births=births
        )
        for pair, taken in (("C-D", 5), ("C-D", 10), ("C-D", 15), ("B-A", 1))
    ]  # fmt: skip


def on_synthetic(_data: Path | None, *, reading: str, births: int, hours: float | None) -> list[Row]:
    """Run the synthetic set-up, with the lifetime that is promised at 15 free slots after nine days."""
    bed, chosen = beds.draw("synthetic", 0, hours), READINGS[reading][0]
    setup = SetUp(bed.nodes, bed.on_demand, chosen.requests(bed.on_demand, bed.spot), chosen.delay_s)
    rows = []
    for sla in (None, *_SYNTHETIC_SLAS):
        shown: list[QuantileTable] = []
        row = run(setup, chosen, pair=bed.name, sla=sla, births=births, shown=shown)
        lives = shown[0].distribution(1, _FREE_SLOTS) if shown else None
        quantile_s = None if sla is None or lives is None else lives.survives_s(sla)
        rows.append({"block": "synthetic", **row, "quantile_s": quantile_s})
    return rows


def _cases(quick: bool) -> list[Case]:
    births, most = (QUICK_BIRTHS, 300) if quick else (BIRTHS, None)
    cases = []
    for name, (_, whole) in READINGS.items():
        if quick and name not in (LITERAL.name, IN_ADVANCE.name):
            continue
        options = {"reading": name, "births": births}
        on_pairs: dict[str, Any] = {**options, "most": most}
        needs = tuple(file for file, _ in pairs.TRACES.values())
        cases.append(Case(f"{name}; Tables III and IV", on_tables, on_pairs, needs))
        if whole:
            cases.append(Case(f"{name}; scaling", on_fewer_nodes, on_pairs, needs))
            hours = 60.0 if quick else None
            cases.append(Case(f"{name}; Figures 1 and 3", on_synthetic, {**options, "hours": hours}))
    return cases


def scores(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return reading → table → mean difference, the nearest to Table IV first."""
    each = {reading: score(where(rows, reading=reading)) for reading in distinct(rows, "reading")}
    return dict(sorted(each.items(), key=lambda item: item[1].get(TABLE_4, math.inf)))


def _nearest(each: Mapping[str, Mapping[str, float]], table: str) -> str | None:
    computed = [reading for reading, of in each.items() if table in of]
    return min(computed, key=lambda reading: each[reading][table]) if computed else None


def _sentences(rows: Sequence[Row]) -> list[str]:
    each = scores(rows)
    whole = sum("all" in of for of in each.values())
    weights = ", ".join(f"{name} {len(of)}" for name, of in NUMBERS.items())
    first = (
        f"{len(each)} readings, {whole} of them beside all numbers. A score is the mean difference of the "
        f"printed numbers and ours; in 'all' each number counts once: {weights}."
    )
    texts = [first]
    for table in (*NUMBERS, "all"):
        nearest = _nearest(each, table)
        if nearest is not None:
            own = where(rows, reading=nearest)
            equal = sum(of.get(table) == each[nearest][table] for of in each.values()) - 1
            others = f" and {equal} more" if equal else ""
            texts.append(
                f"Nearest on {table} ({each[nearest][table]:.3f}): {nearest}{others}{_beside(own, table)}."
            )
    texts += [f"One by one, {table}: {_each_nearest(rows, numbers)}." for table, numbers in NUMBERS.items()]
    for title, reading in (("The papers' text, literally", LITERAL), ("In advance", IN_ADVANCE)):
        own = where(rows, reading=reading.name)
        if own and TABLE_4 in each[reading.name]:
            texts.append(
                f"{title} ({reading.name}): Table IV{_beside(own, TABLE_4)}; {_work(own)}; "
                + ", ".join(f"{name} {value:.3f}" for name, value in each[reading.name].items())
                + "."
            )
    return texts


def _each_nearest(rows: Sequence[Row], numbers: Sequence[PublishedNumber]) -> str:
    """Return, for each number by itself, the reading that comes nearest to it, and how many come as near."""
    readings = {reading: where(rows, reading=reading) for reading in distinct(rows, "reading")}
    texts = []
    for number in numbers:
        away = {name: difference(number, own) for name, own in readings.items()}
        known = {name: value for name, value in away.items() if value is not None}
        if known:
            nearest = min(known, key=known.__getitem__)
            others = sum(value == known[nearest] for value in known.values()) - 1
            equal = f" and {others} more" if others else ""
            texts.append(f"{_number(readings[nearest], number)} by {nearest}{equal}")
    return "; ".join(texts)


def _beside(rows: Sequence[Row], table: str) -> str:
    """Return the numbers of a table, printed and ours, as text."""
    if table not in NUMBERS:
        return ""
    return ": " + ", ".join(_number(rows, number) for number in NUMBERS[table])


def _number(rows: Sequence[Row], number: PublishedNumber) -> str:
    values = number.values(rows)
    ours = f"{values[0]:.4g}" if values else "–"
    which = number.of.get("pair") or f"SLA {number.of.get('sla') or 'none'}"
    nodes = f" on {number.of['nodes']}" if "nodes" in number.of else ""
    return f"{which}{nodes} {number.quantity} {ours} (printed {number.value})"


def _work(rows: Sequence[Row]) -> str:
    promised = where(rows, block="tables", sla=SLA)
    return ", ".join(f"{row['pair']} {share_of_work(row)}" for row in promised)


def _draw(rows: Sequence[Row]) -> Figure:
    each = scores(rows)
    shown = [reading for reading in list(each) if TABLE_4 in each[reading]][:14]
    shown += [LITERAL.name] if LITERAL.name not in shown and LITERAL.name in each else []
    with panels(None, 1, 1, size=(10, 1.6 + 0.42 * len(shown))) as (figure, axes):
        panel = axes[0, 0]
        for number, pair in enumerate(PAIRS):
            colour, marker = LINES[number]
            own = [where(rows, block="tables", pair=pair, sla=SLA, reading=reading) for reading in shown]
            places = [place for place, row in enumerate(own) if row]
            panel.plot(
                [quantity(own[place][0], ADMITTED) for place in places], places, marker, color=colour, ms=6,
                mec="white", mew=0.5, label=pair, clip_on=False,
            )  # fmt: skip
            (printed,) = (
                of.number for of in NUMBERS[TABLE_4] if of.quantity == ADMITTED and of.of["pair"] == pair
            )
            panel.axvline(printed, color=colour, lw=1, ls=(0, (4, 3)), zorder=0)
        panel.set_yticks(
            range(len(shown)), [f"{name}  {each[name][TABLE_4]:.3f}" for name in shown], fontsize=6
        )
        panel.invert_yaxis()
        panel.set_xlim(0, 1)
        panel.set_xlabel("spot requests admitted at SLA .01")
        legend_below(figure, panel)
    return figure


EXPERIMENT = Experiment(
    name="readings",
    title="Readings of the papers' method, beside every number that they print",
    source="P1 §II-B to §III-E, P2 §2.3 to §3.6",
    cases=_cases,
    pictures=(
        Picture(
            "readings",
            "Spot requests admitted at SLA .01 on the four pairs by reading, the nearest to Table IV first, "
            "with their mean difference from it. Dashed lines are printed.",
            _draw,
        ),
    ),
    sentences=_sentences,
    own_keys=lambda rows: {"scores": scores(rows)},
)
