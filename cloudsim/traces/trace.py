"""The one table that every workload becomes: who started when, until when, on how many cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloudsim.model.arrays import BoolArray, FloatArray, IntArray, freeze_columns
from cloudsim.model.errors import SpecError, TraceError

if TYPE_CHECKING:
    import pandas as pd


#: More cores than any machine has; a larger number in a file is a fault of the file.
MAX_CORES = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A workload of n instances as read-only columns of shape (n,), sorted by (start_s, file order).

    Times are seconds since the beginning of the trace. An instance whose stop equals its start is legal: it
    counts, and ends after all starts of its instant (docs/design/prediction.md "Order of events"). Ids need
    not be
    unique: a cloud may use one again after its instance has stopped. The constructor checks and does not
    sort; ``Trace.checked`` takes anything array-like in any order.

    Raises
    ------
    TraceError
        When a column has the wrong length or type, or a row breaks one of the rules above.
    """

    name: str
    #: Instance ids, non-empty printable strings.
    instance: NDArray[np.object_]
    #: Start, seconds, finite, >= 0.
    start_s: FloatArray
    #: Stop, seconds, finite, >= start_s.
    stop_s: FloatArray
    #: Cores, 1 to ``MAX_CORES``.
    cores: IntArray
    #: The user's own estimate of the lifetime, seconds, > 0; NaN where there is none.
    requested_s: FloatArray
    #: Started before the trace did: start_s is where the trace begins and the age is unknown.
    left_truncated: BoolArray
    #: The end is not known: stop_s is the last timestamp of the trace or the end of its window.
    right_censored: BoolArray
    #: A job of a batch system, whose cores may be on several nodes. Left out, there is none.
    parallel: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        if not len(self.parallel):
            object.__setattr__(self, "parallel", np.zeros(len(self), np.bool_))
        freeze_columns(self, (field.name for field in fields(self)[1:]))
        _check(self)

    @classmethod
    def checked(
        cls,
        name: str,
        instance: Sequence[str] | NDArray[np.object_],
        start_s: ArrayLike,
        stop_s: ArrayLike,
        cores: ArrayLike,
        *,
        requested_s: ArrayLike | None = None,
        left_truncated: ArrayLike | None = None,
        right_censored: ArrayLike | None = None,
        parallel: ArrayLike | None = None,
    ) -> Trace:
        """Build a trace from columns in file order: convert, sort stably by start, and check.

        Raises
        ------
        TraceError
            When a column has the wrong length or type, or cores are not whole numbers.
        """
        ids = np.empty(len(instance), dtype=object)
        ids[:] = instance
        n = len(ids)
        flags = {"left_truncated": left_truncated, "right_censored": right_censored, "parallel": parallel}
        columns: dict[str, NDArray[Any]] = {
            "instance": ids,
            "start_s": _floats("start_s", start_s),
            "stop_s": _floats("stop_s", stop_s),
            "cores": _whole("cores", cores),
            "requested_s": np.full(n, np.nan) if requested_s is None else _floats("requested_s", requested_s),
            **{
                flag: np.zeros(n, dtype=np.bool_) if marks is None else np.array(marks, bool)
                for flag, marks in flags.items()
            },
        }
        for column, values in columns.items():
            if values.shape != (n,):
                raise TraceError(f"has shape {values.shape}, but there are {n} instances", field=column)
        start = columns["start_s"]
        if not (start[1:] >= start[:-1]).all():
            order = np.argsort(start, kind="stable")
            columns = {column: values[order] for column, values in columns.items()}
        return cls(name, **columns)

    def __len__(self) -> int:
        return len(self.start_s)

    def __repr__(self) -> str:
        return f"Trace({self.name!r}, {len(self)} instances, last stop {self.last_stop_s:.0f} s)"

    @property
    def lifetime_s(self) -> FloatArray:
        """Column stop_s - start_s; a lower bound where ``left_truncated`` or ``right_censored``."""
        return self.stop_s - self.start_s

    @property
    def last_stop_s(self) -> float:
        """Latest stop in seconds; 0 for an empty trace."""
        return float(self.stop_s.max()) if len(self) else 0.0

    def equals(self, other: Trace) -> bool:
        """Return True if name, rows and their order are exactly the same (NaN equals NaN)."""
        return self.name == other.name and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name), equal_nan=f.name == "requested_s")
            for f in fields(self)[1:]
        )

    def select(self, which: BoolArray | IntArray | slice) -> Trace:
        """Return the rows of a mask, of ascending indices, or of a slice."""
        return replace(self, **{f.name: getattr(self, f.name)[which] for f in fields(self)[1:]})

    def delayed(self, by_s: float) -> Trace:
        """Return the same instances, all ``by_s`` seconds later.

        Raises
        ------
        SpecError
            When ``by_s`` is not finite, or would move a start before 0.
        """
        if not np.isfinite(by_s) or (len(self) and self.start_s[0] + by_s < 0):
            raise SpecError(
                f"a delay of {by_s} s moves instances before the beginning of the trace", field="by_s"
            )
        return replace(self, start_s=self.start_s + by_s, stop_s=self.stop_s + by_s)

    def numbered(self) -> Trace:
        """Return the same instances with numbers from 1 as ids, which tell nothing of their users."""
        ids = np.empty(len(self), dtype=object)
        ids[:] = [str(number) for number in range(1, len(self) + 1)]
        return replace(self, instance=ids)

    def until(self, end_s: float) -> Trace:
        """Return the instances that start at or before ``end_s``; their stops are unchanged."""
        return self.select(self.start_s <= end_s)

    def head(self, n: int) -> Trace:
        """Return the first n instances."""
        return self.select(slice(0, max(n, 0)))

    def to_frame(self) -> pd.DataFrame:
        """Return the columns as a pandas frame (pandas is imported here, not before)."""
        import pandas as pd

        return pd.DataFrame({f.name: getattr(self, f.name) for f in fields(self)[1:]})


def _floats(field: str, values: ArrayLike) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TraceError(f"holds something that is no number ({error})", field=field) from None


def _whole(field: str, values: ArrayLike) -> IntArray:
    numbers = _floats(field, values)
    with np.errstate(invalid="ignore"):
        bad = ~((numbers == np.floor(numbers)) & (np.abs(numbers) <= MAX_CORES))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise TraceError(f"must be whole numbers up to {MAX_CORES}; row {row} is {numbers[row]}", field=field)
    return numbers.astype(np.int64)


_DTYPES: dict[str, type[np.generic]] = {
    "instance": np.object_,
    "start_s": np.float64,
    "stop_s": np.float64,
    "cores": np.int64,
    "requested_s": np.float64,
    "left_truncated": np.bool_,
    "right_censored": np.bool_,
    "parallel": np.bool_,
}


def _named(instance: NDArray[np.object_]) -> BoolArray:
    """Mark the ids that are non-empty printable strings."""
    ids = instance.tolist()
    if set(map(type, ids)) <= {str} and all(ids) and "".join(ids).isprintable():
        return np.ones(len(ids), dtype=np.bool_)
    return np.fromiter((isinstance(i, str) and i != "" and i.isprintable() for i in ids), bool, len(ids))


def _check(trace: Trace) -> None:
    for column, dtype in _DTYPES.items():
        values = getattr(trace, column)
        if values.dtype != dtype or values.shape != trace.start_s.shape or values.ndim != 1:
            raise TraceError(
                f"must be {np.dtype(dtype)} {trace.start_s.shape}, not {values.dtype} {values.shape}",
                field=column,
            )
    start, stop, requested = trace.start_s, trace.stop_s, trace.requested_s
    named = _named(trace.instance)
    with np.errstate(invalid="ignore"):
        rules: tuple[tuple[str, BoolArray, str], ...] = (
            ("instance", named, "must be a non-empty printable string"),
            ("start_s", np.isfinite(start) & (start >= 0), "must be finite and >= 0"),
            ("stop_s", np.isfinite(stop) & (stop >= start), "must be finite and >= start_s"),
            ("cores", (trace.cores >= 1) & (trace.cores <= MAX_CORES), f"must be 1 to {MAX_CORES}"),
            (
                "requested_s",
                np.isnan(requested) | (np.isfinite(requested) & (requested > 0)),
                "must be > 0, or NaN",
            ),
            ("start_s", np.append(True, start[1:] >= start[:-1])[: len(trace)], "must not decrease"),
        )
    for column, good, rule in rules:
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            raise TraceError(f"{rule}; row {row} is {getattr(trace, column)[row]!r}", field=column)
