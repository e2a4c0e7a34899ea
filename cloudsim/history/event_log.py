"""Event logs: the recorded history of a cloud as prediction reads it, in exact order.

A log has the starts and *requested* stops of the admitted instances only, also of those that were evicted
before their requested end (docs/design/prediction.md "History": a deliberate departure from P1 §II, whose
logs hold observed stops). Its replay from an empty cloud therefore gives the cloud's own trajectory again,
and a replay with one instance more shows what that instance would have met.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.errors import InputError
from cloudsim.model.requests import Labels

STOP, START_ON_DEMAND, START_SPOT, RENEWAL = 0, 1, 2, 3

#: The phases of an instant: stops, on-demand starts, spot starts, then the stops of instances that started in
#: this very instant (an instance whose stop equals its start counts, and ends after all starts).
PHASE_STOP, PHASE_ON_DEMAND, PHASE_SPOT, PHASE_SAME_INSTANT_STOP = 0, 1, 2, 3


BYTES_AN_EVENT = 33

#: The first bytes of a log with details. Read as a time they are not a number: no plain log begins so.
_MARK = b"SFLOG1\xf8\x7f"
_LENGTH = struct.Struct("<I")
_UNTIL = struct.Struct("<d")

#: The value of ``StartDetails.group`` that stands for no group.
NO_GROUP = -1
#: The values of ``StartDetails.spread``.
NO_SPREAD, TOGETHER, APART = 0, 1, 2


@dataclass(frozen=True)
class StartDetails:
    """Details of starts, for replays of line-ups that depend on more than cores.

    There is one row for each event; rows of stops mean nothing. amounts: int64 (events, resources), in the
    order of ``resources``. sla: float64, the largest probability of eviction that was agreed to; 1 where
    nothing was promised (on-demand). labels: int64, the index in ``label_sets`` of the labels that a node
    must have; the first set is empty. group: int64, numbered by first appearance, NO_GROUP for none. spread:
    int8, NO_SPREAD, TOGETHER or APART.
    """

    resources: tuple[str, ...]
    label_sets: tuple[Labels, ...]
    amounts: NDArray[np.int64]
    sla: NDArray[np.float64]
    labels: NDArray[np.int64]
    group: NDArray[np.int64]
    spread: NDArray[np.int8]

    @property
    def restricted(self) -> bool:
        """True if some instance may not go to every node."""
        return bool(np.any(self.labels) or np.any(self.spread))

    def rows(self, part: slice | NDArray[np.int64]) -> StartDetails:
        """Return the details of some events."""
        return StartDetails(
            self.resources,
            self.label_sets,
            self.amounts[part],
            self.sla[part],
            self.labels[part],
            self.group[part],
            self.spread[part],
        )

    @classmethod
    def concatenate(cls, parts: list[StartDetails]) -> StartDetails:
        """Join the details of consecutive logs of one history."""
        return cls(
            parts[0].resources,
            max((part.label_sets for part in parts), key=len),  # it only ever grows
            np.concatenate([part.amounts for part in parts]),
            np.concatenate([part.sla for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.spread for part in parts]),
        )


@dataclass(frozen=True)
class EventLog:
    """Events in the order in which they happen. All columns have the same length.

    time_s: float64, seconds of the cloud's time, never falling. kind: int8, one of STOP, START_ON_DEMAND,
    START_SPOT, and RENEWAL where line-ups renew: from then on a
        spot instance counts as the newest.
    instance: int64, the instance's number in order of admission (dense, from 0). Start order is admission
        order, so among spot instances a larger number is a younger one.
    cores: int64, the instance's size. end_s: float64, the requested end as it was known at a start, inf where
    it was not (on-demand); of a stop
        its time. Left out, no end is known.
    details: None where cores are all that counts.
    """

    time_s: NDArray[np.float64]
    kind: NDArray[np.int8]
    instance: NDArray[np.int64]
    cores: NDArray[np.int64]
    end_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    details: StartDetails | None = None

    def __post_init__(self) -> None:
        if not len(self.end_s):
            object.__setattr__(self, "end_s", np.full(len(self.time_s), np.inf))

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def starts(self) -> NDArray[np.bool_]:
        """The events that start an instance, bool (events,)."""
        return starts_among(self.kind)

    def by_member(self, members: NDArray[np.int64]) -> EventLog:
        """Return the log with each gang as its members, which start and stop together.

        A gang has as many members, of one core each, as ``members`` says of its events, int64 (events,); it
        says 1 where there is no gang. Replays place the members one after the other, as the scheduler does.
        All of them find room again, because a log holds what was admitted. Only where nodes have further
        resources, a replay may have to go on without some of them.
        """
        rows = np.repeat(np.arange(len(self)), members)
        member = np.arange(len(rows)) - np.repeat(np.cumsum(members) - members, members)
        details = self.details
        if details is not None:
            amounts = -(-details.amounts // members[:, np.newaxis])  # as ``amounts_of_member``
            details = replace(details, amounts=amounts).rows(rows)
        return EventLog(
            self.time_s[rows],
            self.kind[rows],
            self.instance[rows] + member,
            (self.cores // members)[rows],
            self.end_s[rows],
            details,
        )

    @classmethod
    def empty(cls) -> EventLog:
        """Return a log without events."""
        return cls(
            np.empty(0, np.float64), np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0, np.int64)
        )

    @classmethod
    def concatenate(cls, parts: list[EventLog]) -> EventLog:
        """Join consecutive logs."""
        if not parts:
            return cls.empty()
        details = [part.details for part in parts if part.details is not None]
        return cls(
            np.concatenate([part.time_s for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.instance for part in parts]),
            np.concatenate([part.cores for part in parts]),
            np.concatenate([part.end_s for part in parts]),
            StartDetails.concatenate(details) if details else None,
        )

    def to_bytes(self) -> bytes:
        """Return the log as bytes.

        The columns follow one another, little-endian: float64, int8, int64, int64, float64. With details, a
        mark and a header in JSON with its length come first, and their columns last.
        """
        columns: list[NDArray[Any]] = [self.time_s, self.kind, self.instance, self.cores, self.end_s]
        if self.details is None:
            return b"".join(map(_bytes_of, columns))
        details = self.details
        label_sets = [sorted(labels) for labels in details.label_sets]
        head = json.dumps(
            {"events": len(self), "resources": details.resources, "label_sets": label_sets}
        ).encode()
        columns += [details.amounts, details.sla, details.labels, details.group, details.spread]
        return b"".join((_MARK, _LENGTH.pack(len(head)), head, *map(_bytes_of, columns)))

    @classmethod
    def from_bytes(cls, data: bytes) -> EventLog:
        """Read what ``to_bytes`` wrote. Raises ValueError when the bytes are no log or cut off."""
        if data.startswith(_MARK):
            return cls._from_bytes_with_details(data)
        count, rest = divmod(len(data), BYTES_AN_EVENT)
        if rest:
            raise ValueError(
                f"an event log is {BYTES_AN_EVENT} bytes an event; {len(data)} is no whole number of them"
            )
        return cls(
            np.frombuffer(data, "<f8", count, 0).astype(np.float64),
            np.frombuffer(data, "<i1", count, 8 * count).astype(np.int8),
            np.frombuffer(data, "<i8", count, 9 * count).astype(np.int64),
            np.frombuffer(data, "<i8", count, 17 * count).astype(np.int64),
            np.frombuffer(data, "<f8", count, 25 * count).astype(np.float64),
        )

    @classmethod
    def _from_bytes_with_details(cls, data: bytes) -> EventLog:
        first = len(_MARK) + _LENGTH.size
        begin = first + (_LENGTH.unpack_from(data, len(_MARK))[0] if len(data) >= first else 0)
        if len(data) < max(first, begin):
            raise ValueError("an event log is cut off")
        head = json.loads(data[first:begin])
        count, resources = head["events"], tuple(head["resources"])
        end = begin + count * BYTES_AN_EVENT
        widths = {"amounts": 8 * len(resources), "sla": 8, "labels": 8, "group": 8, "spread": 1}
        if len(data) != end + count * sum(widths.values()):
            raise ValueError(f"{count} events with details do not take {len(data)} bytes")
        columns: list[NDArray[Any]] = []
        plain = cls.from_bytes(data[begin:end])
        for name, width in widths.items():
            code = {"sla": "<f8", "spread": "<i1"}.get(name, "<i8")
            values = np.frombuffer(data, code, count * width // np.dtype(code).itemsize, end)
            columns.append(values.astype(values.dtype.newbyteorder("=")))
            end += count * width
        columns[0] = columns[0].reshape(count, len(resources))
        label_sets = tuple(frozenset((name, text) for name, text in labels) for labels in head["label_sets"])
        return replace(plain, details=StartDetails(resources, label_sets, *columns))


def starts_among(kind: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Return the events that start an instance, bool (events,), by their kinds."""
    starts: NDArray[np.bool_] = (kind == START_ON_DEMAND) | (kind == START_SPOT)
    return starts


def _bytes_of(column: NDArray[Any]) -> bytes:
    return column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()


def log_fault(message: str) -> InputError:
    """Make the error of a wrong event log."""
    return InputError(message, field="events")


def check_columns(events: EventLog) -> None:
    """Check an event log. Raises InputError unless all columns have the same length."""
    if not len(events.time_s) == len(events.kind) == len(events.instance) == len(events.cores):
        raise log_fault("the columns of an event log have the same length")


def check_times(events: EventLog, from_s: float, until_s: float) -> None:
    """Check the columns and the times of an event log.

    Raises
    ------
    InputError
        Unless the columns have the same length and times rise within [from_s, until_s).
    """
    check_columns(events)
    times = events.time_s
    if not len(times):
        return
    if not np.all(np.isfinite(times)):
        raise log_fault("times are finite seconds")
    if np.any(times[1:] < times[:-1]):
        at = int(np.flatnonzero(times[1:] < times[:-1])[0]) + 1
        raise log_fault(f"event {at} at {times[at]} s comes after one at {times[at - 1]} s")
    if times[0] < from_s or times[-1] >= until_s:
        raise log_fault(f"times from {times[0]} to {times[-1]} s are not within [{from_s}, {until_s})")


@dataclass(frozen=True)
class HistoryChunk:
    """A stretch of a cloud's history as it travels from the owner to the Monte-Carlo workers.

    It holds the events before ``until_s`` (seconds) that no earlier chunk holds.
    """

    until_s: float
    events: EventLog

    def to_bytes(self) -> bytes:
        """Return ``until_s`` as a little-endian float64, followed by the bytes of the event log."""
        return _UNTIL.pack(self.until_s) + self.events.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> HistoryChunk:
        """Read what ``to_bytes`` returned. Raises ValueError when the bytes are something else."""
        if len(data) < _UNTIL.size:
            raise ValueError("these bytes are no chunk of a history")
        return cls(_UNTIL.unpack_from(data)[0], EventLog.from_bytes(data[_UNTIL.size :]))
