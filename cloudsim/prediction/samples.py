"""Results of the virtual instances of one size: values that travel between processes and merge."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.requests import Amounts
from cloudsim.prediction.ages import OnDemandRuns

# Little-endian: mark, bytes a number, level, bytes a span (0 when all are points), cores, until_s, count.
# Then the columns: number (as multiples of 2**level), birth_s (float64), free_slots (int32), duration_s
# (float64), span_s (float64, if any), evicted (one bit each).
_HEADER = struct.Struct("<4sBBBqdQ")
_MARK = b"SFS2"
# Samples of a flavour with other resources begin with this mark; after the header come the length (uint32) of
# a JSON object of its amounts, and that object.
_MARK_OF_FLAVOUR = b"SFS3"
_LENGTH = struct.Struct("<I")

#: Cores, and the amounts of other resources.
Flavour = tuple[int, Amounts]

#: Name of the pseudo-resource that marks a flavour of a pool (``cloudsim.admission.pools``): its amount is
#: the position T in the stack, in cores from the bottom. Free slots of this flavour count cores above T.
STACK_TOP = "stack_top"


def flavour_of(size: int | Flavour) -> Flavour:
    """Return a flavour; a size in cores is a flavour that needs nothing else."""
    return size if isinstance(size, tuple) else (int(size), ())


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of the time until eviction of one size, in order of number, as columns of equal length.

    A sample is a point, one virtual instance drawn at random (``ReplaySampler``), or an interval: all virtual
    instances born in it, which ended together (``UniformSampler``). On a cloud that gives notice, an instance
    ends when it must leave, which is later than the notice.

    Attributes
    ----------
    cores
        The size.
    until_s
        The boundary in seconds: only events strictly before it have been replayed.
    level
        Only numbers divisible by 2**level are samples (``births``).
    number
        int64[samples], ascending and unique; intervals are counted from 0.
    birth_s
        float64[samples], seconds of the cloud's time.
    free_slots
        int32[samples], free slots of this size just before the instance was placed, at least 1.
    duration_s
        float64[samples], seconds until eviction, or from birth to ``until_s`` for those that still ran
        (right-censored).
    evicted
        bool[samples].
    span_s
        float64[samples], 0 for a point. Births of an interval are uniform over [birth_s, birth_s + span_s),
        and ``duration_s`` is that of the first.
    releases
        int32[samples, horizons], number of spot instances running at birth whose requested end lay within
        each release horizon; no columns if the rule has no horizons. Not part of the bytes.
    on_demand
        On-demand instances of the history, if the rule has release horizons. Not part of the bytes.
    amounts
        Amounts of other resources that an instance of this flavour needs.
    """

    cores: int
    until_s: float
    level: int
    number: NDArray[np.int64]
    birth_s: NDArray[np.float64]
    free_slots: NDArray[np.int32]
    duration_s: NDArray[np.float64]
    evicted: NDArray[np.bool_]
    span_s: NDArray[np.float64]
    releases: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))
    on_demand: OnDemandRuns = field(default_factory=OnDemandRuns)
    amounts: Amounts = ()

    def __len__(self) -> int:
        return len(self.number)

    def __eq__(self, other: object) -> bool:
        """Return True if all values have the same bits."""
        return isinstance(other, Samples) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def empty(cls, cores: int, until_s: float = 0.0, amounts: Amounts = ()) -> Samples:
        """Return no samples of a flavour."""
        return cls(
            cores,
            until_s,
            0,
            np.empty(0, np.int64),
            np.empty(0, np.float64),
            np.empty(0, np.int32),
            np.empty(0, np.float64),
            np.empty(0, np.bool_),
            np.empty(0, np.float64),
            amounts=amounts,
        )

    @property
    def flavour(self) -> Flavour:
        """Cores and the amounts of other resources."""
        return self.cores, self.amounts

    @classmethod
    def merge(cls, parts: list[Samples]) -> Samples:
        """Merge all shares of one flavour at one boundary, given in any order.

        Raises
        ------
        ValueError
            When the parts are of different flavours, boundaries or levels, or hold a number twice.
        """
        if not parts:
            raise ValueError("nothing to merge")
        kinds = {(part.cores, part.until_s, part.level) for part in parts}
        if len(kinds) > 1:
            raise ValueError(f"samples of different (cores, until_s, level) do not merge: {sorted(kinds)}")
        if len({part.amounts for part in parts}) > 1:
            raise ValueError("samples of different flavours do not merge")
        number = np.concatenate([part.number for part in parts])
        order = np.argsort(number, kind="stable")
        number = number[order]
        if np.any(number[1:] == number[:-1]):
            raise ValueError("the parts hold the same sample twice: shares overlap")
        return cls(
            parts[0].cores,
            parts[0].until_s,
            parts[0].level,
            number,
            np.concatenate([part.birth_s for part in parts])[order],
            np.concatenate([part.free_slots for part in parts])[order],
            np.concatenate([part.duration_s for part in parts])[order],
            np.concatenate([part.evicted for part in parts])[order],
            np.concatenate([part.span_s for part in parts])[order],
            amounts=parts[0].amounts,
        )

    def to_bytes(self) -> bytes:
        """Encode a header and the columns, little-endian: about 24 bytes a point, 32 bytes an interval."""
        multiple = self.number >> self.level
        width = 4 if len(self) == 0 or int(multiple[-1]) < 2**32 else 8
        span_width = 8 if np.any(self.span_s) else 0
        flavour = json.dumps(dict(self.amounts)).encode() if self.amounts else b""
        mark = _MARK_OF_FLAVOUR if self.amounts else _MARK
        return b"".join(
            (
                _HEADER.pack(mark, width, self.level, span_width, self.cores, self.until_s, len(self)),
                _LENGTH.pack(len(flavour)) + flavour if flavour else b"",
                multiple.astype(f"<u{width}").tobytes(),
                self.birth_s.astype("<f8").tobytes(),
                self.free_slots.astype("<i4").tobytes(),
                self.duration_s.astype("<f8").tobytes(),
                self.span_s.astype("<f8").tobytes() if span_width else b"",
                np.packbits(self.evicted).tobytes(),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Samples:
        """Decode what ``to_bytes`` encoded.

        Raises
        ------
        ValueError
            When the bytes are something else or cut off.
        """
        if len(data) < _HEADER.size or data[:4] not in (_MARK, _MARK_OF_FLAVOUR):
            raise ValueError("these bytes are not samples")
        mark, width, level, span_width, cores, until_s, count = _HEADER.unpack_from(data)
        amounts, begin = _amounts(data) if mark == _MARK_OF_FLAVOUR else ((), _HEADER.size)
        expected = begin + count * (width + span_width + 20) + (count + 7) // 8
        if width not in (4, 8) or span_width not in (0, 8) or len(data) != expected:
            raise ValueError(f"{count} samples take {expected} bytes, not {len(data)}")
        at = begin

        def column(code: str, itemsize: int) -> NDArray[np.generic]:
            nonlocal at
            values = np.frombuffer(data, code, count, at)
            at += count * itemsize
            return values

        number = column(f"<u{width}", width).astype(np.int64) << level
        birth_s = column("<f8", 8).astype(np.float64)
        free_slots = column("<i4", 4).astype(np.int32)
        duration_s = column("<f8", 8).astype(np.float64)
        span_s = column("<f8", 8).astype(np.float64) if span_width else np.zeros(count, np.float64)
        evicted = np.unpackbits(np.frombuffer(data, np.uint8, offset=at), count=count).astype(np.bool_)
        return cls(
            cores, until_s, level, number, birth_s, free_slots, duration_s, evicted, span_s, amounts=amounts
        )


def _amounts(data: bytes) -> tuple[Amounts, int]:
    """Return the amounts in the bytes of a flavour's samples, and the offset at which the columns begin."""
    begin = _HEADER.size + _LENGTH.size
    end = begin + (_LENGTH.unpack_from(data, _HEADER.size)[0] if len(data) >= begin else 0)
    if len(data) < end:
        raise ValueError("samples are cut off")
    return tuple(json.loads(data[begin:end]).items()), end
