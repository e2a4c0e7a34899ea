"""What a cloud's owner measures of itself for operators, in a hash of its own (``Keys.measures``).

Counts begin anew with each owner process. Nothing is decided by it, and a member is not shown it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class OwnerStats:
    """tables: so many were made. tables_s, last_table_s: for how long, all of them and the last. batches:
    so many of the table under way are waited for. The lengths of the journal in Redis and of the dead letters
    are in entries."""

    tables: int = 0
    tables_s: float = 0.0
    last_table_s: float = 0.0
    journal_entries: int = 0
    dead_letters: int = 0
    batches: int = 0

    def written(self) -> dict[str, str]:
        """As fields of the hash."""
        return {name: repr(value) for name, value in asdict(self).items()}

    @classmethod
    def parse(cls, told: Mapping[bytes, bytes]) -> OwnerStats | None:
        """What another process wrote; None for nothing, or what cannot be read."""
        if not told:
            return None
        try:
            known = {one.name: float(told.get(one.name.encode(), b"0")) for one in fields(cls)}
        except ValueError:
            return None
        return cls(
            int(known["tables"]),
            known["tables_s"],
            known["last_table_s"],
            int(known["journal_entries"]),
            int(known["dead_letters"]),
            int(known["batches"]),
        )
