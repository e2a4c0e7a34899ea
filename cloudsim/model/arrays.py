"""Frozen dataclasses with columns that nobody can write to."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def freeze_columns(record: object, names: Iterable[str]) -> None:
    """Puts a read-only view in the place of each of these attributes that is an array."""
    for name in names:
        column = getattr(record, name)
        if isinstance(column, np.ndarray):
            column = column.view()
            column.flags.writeable = False
            object.__setattr__(record, name, column)
