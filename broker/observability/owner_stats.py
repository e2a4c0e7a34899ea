"""Defines the statistics that the owner of a cloud publishes for operators, in a hash of Redis.

Counts begin anew with each owner process. No decision depends on them, and members do not see them. They go
through Redis because owners open no port: any API process shows them on ``GET /metrics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class OwnerStats:
    """Counts and times of one owner process.

    Attributes
    ----------
    tables, tables_s, last_table_s:
        How many tables were made, the seconds that they took in all, and those of the last one.
    journal_entries, dead_letters:
        Entries of the journal in Redis, and of the dead letters.
    batches:
        Batches of the table in progress that Monte-Carlo workers have not delivered yet.
    archive_gaps:
        1 if the archive lacks entries that it cannot get any more, or cannot be written.
    """

    tables: int = 0
    tables_s: float = 0.0
    last_table_s: float = 0.0
    journal_entries: int = 0
    dead_letters: int = 0
    batches: int = 0
    archive_gaps: int = 0

    def to_fields(self) -> dict[str, str]:
        """Return the fields of the hash."""
        return {name: repr(value) for name, value in asdict(self).items()}

    @classmethod
    def parse(cls, values: Mapping[bytes, bytes]) -> OwnerStats | None:
        """Parse the fields of the hash; return None if there are none, or they are unreadable."""
        if not values:
            return None
        try:
            numbers = {field.name: float(values.get(field.name.encode(), b"0")) for field in fields(cls)}
        except ValueError:
            return None
        return cls(
            int(numbers["tables"]),
            numbers["tables_s"],
            numbers["last_table_s"],
            int(numbers["journal_entries"]),
            int(numbers["dead_letters"]),
            int(numbers["batches"]),
            int(numbers["archive_gaps"]),
        )
