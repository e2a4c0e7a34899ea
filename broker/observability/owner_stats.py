"""Defines the statistics that the owner of a cloud publishes for operators, in a hash of Redis.

Counts begin anew with each owner process. No decision depends on them, and members do not see them. They go
through Redis because owners open no port: any API process shows them on ``GET /metrics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


def gauge(name: str, text: str) -> Any:
    """Declare a count that is shown as a gauge of this name, with this text, for each cloud."""
    return field(default=0, metadata={"gauge": (name, text)})


@dataclass(frozen=True)
class OwnerStats:
    """Counts and times of one owner process.

    Attributes
    ----------
    tables, tables_s, last_table_s:
        How many tables were made, the seconds that they took in all, and those of the last one.
    journal_entries, dead_letters, batches, archive_gaps, table_due_age_s:
        As their gauges say.
    """

    tables: int = 0
    tables_s: float = 0.0
    last_table_s: float = 0.0
    journal_entries: int = gauge("spotfed_journal_entries", "Entries of the cloud's journal in Redis")
    dead_letters: int = gauge(
        "spotfed_dead_letters", "Messages that the cloud's owner put aside for an operator to look at"
    )
    batches: int = gauge(
        "spotfed_montecarlo_batches",
        "Batches of the table in progress that no Monte-Carlo worker has delivered yet",
    )
    archive_gaps: int = gauge(
        "spotfed_archive_gaps",
        "1 if the archive of the cloud's journal lacks entries for good, or cannot be written",
    )
    table_due_age_s: float = gauge(
        "spotfed_table_due_age_seconds",
        "Time since the oldest table of the cloud that is not made yet was due; 0: none is",
    )

    def to_fields(self) -> dict[str, str]:
        """Return the fields of the hash."""
        return {name: repr(value) for name, value in asdict(self).items()}

    @classmethod
    def parse(cls, values: Mapping[bytes, bytes]) -> OwnerStats | None:
        """Parse the fields of the hash; return None if there are none, or they are unreadable."""
        if not values:
            return None
        try:
            numbers: dict[str, Any] = {
                field.name: float(values.get(field.name.encode(), b"0")) for field in fields(cls)
            }
        except ValueError:
            return None
        return cls(**{name: value if name.endswith("_s") else int(value) for name, value in numbers.items()})

    @classmethod
    def gauges(cls) -> dict[str, tuple[str, str]]:
        """Return the name and the text of each gauge, by field."""
        return {each.name: each.metadata["gauge"] for each in fields(cls) if "gauge" in each.metadata}
