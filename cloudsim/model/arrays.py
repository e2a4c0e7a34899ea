"""Types of arrays, and read-only columns for frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def freeze_columns(record: object, names: Iterable[str]) -> None:
    """Replace each of these attributes that is an array by a read-only view of it."""
    for name in names:
        column = getattr(record, name)
        if isinstance(column, np.ndarray):
            column = column.view()
            column.flags.writeable = False
            object.__setattr__(record, name, column)
