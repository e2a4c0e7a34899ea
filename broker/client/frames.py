"""Data frames of what a federation answers: leases, events, the ledger.

It is no part of ``broker.client``, which loads without pandas: ``from broker.client.frames import to_frame``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from pydantic import BaseModel


def to_frame(records: Iterable[BaseModel]) -> pd.DataFrame:
    """Return one row a record; a field of a field is a column of its own, such as ``event.lease.cores``.

    Times that end in ``_at`` or are called ``at`` become UTC timestamps. Codes (states, kinds, reasons) are
    their strings, and what repeats in a record stays a list.

    Parameters
    ----------
    records
        For example ``client.leases.list()``, ``client.ledger.read().entries`` or
        ``client.events.stream(follow=False)``.
    """
    frame = pd.json_normalize([record.model_dump(mode="json") for record in records])
    for name in frame.columns:
        if name.rpartition(".")[2] == "at" or name.endswith("_at"):
            frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601")
    return frame
