"""Running spot instances as columns, for policies that compare all of them at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cloudsim.model.instances import Instance

#: The entry of ``slots`` that stands for no instance.
NOBODY = -1


class SpotColumns:
    """The spot instances that may be evicted, one row each, in no order; free rows are used again.

    instances: by row, None where the row is free. node, number: int64 (rows,). start_s, end_s: float64
    (rows,). sla: float64 (rows,), 1 where nothing was promised. amounts: int64 (rows, resources). slots:
    int64 (nodes, width), the rows on each node, NOBODY where there is none. Other columns mean nothing in
    free rows.
    """

    def __init__(self, nodes: int, resources: int):
        self.instances: list[Instance | None] = []
        self.node = np.empty(0, np.int64)
        self.number = np.empty(0, np.int64)
        self.start_s = np.empty(0, np.float64)
        self.end_s = np.empty(0, np.float64)
        self.sla = np.empty(0, np.float64)
        self.amounts = np.empty((0, resources), np.int64)
        self.slots: NDArray[np.int64] = np.full((nodes, 4), NOBODY, np.int64)
        self._on_node = [0] * nodes  # number of rows
        self._rows: dict[str, int] = {}
        self._free_rows: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> NDArray[np.int64]:
        """Return the rows in use, ascending, int64."""
        return np.array(sorted(self._rows.values()), np.int64)

    def instances_in(self, rows: Iterable[int]) -> tuple[Instance, ...]:
        """Return the instances in these rows."""
        chosen = []
        for row in rows:
            instance = self.instances[row]
            assert instance is not None, f"row {row} is free"
            chosen.append(instance)
        return tuple(chosen)

    def add(self, instance: Instance, needed: tuple[int, ...]) -> None:
        """Add an instance that may be evicted. needed: its amount of each resource."""
        row = self._free_rows.pop() if self._free_rows else self._new_row()
        self._rows[instance.id] = row
        self.amounts[row] = needed
        self.node[row], self.number[row] = instance.node, instance.number
        self._write(row, instance)
        place = self._on_node[instance.node]
        if place == self.slots.shape[1]:
            self.slots = np.concatenate((self.slots, np.full_like(self.slots, NOBODY)), axis=1)
        self.slots[instance.node, place] = row
        self._on_node[instance.node] += 1

    def change(self, instance: Instance) -> None:
        """Update the end and the SLA of an instance."""
        self._write(self._rows[instance.id], instance)

    def remove(self, instance: Instance) -> None:
        """Remove an instance that left, or came under notice."""
        row = self._rows.pop(instance.id)
        self.instances[row] = None
        self._free_rows.append(row)
        self._on_node[instance.node] -= 1
        last = self._on_node[instance.node]
        on_node = self.slots[instance.node]
        on_node[on_node.tolist().index(row)] = on_node[last]  # rows of a node are packed at the front
        on_node[last] = NOBODY

    def _write(self, row: int, instance: Instance) -> None:
        self.instances[row] = instance
        self.start_s[row], self.end_s[row] = instance.start_s, instance.end_s
        self.sla[row] = instance.sla if instance.promised else 1.0

    def _new_row(self) -> int:
        row = len(self.instances)
        if row == len(self.node):
            more = max(16, row)
            self.node = np.append(self.node, np.zeros(more, np.int64))
            self.number = np.append(self.number, np.zeros(more, np.int64))
            self.start_s = np.append(self.start_s, np.zeros(more))
            self.end_s = np.append(self.end_s, np.zeros(more))
            self.sla = np.append(self.sla, np.ones(more))
            self.amounts = np.concatenate((self.amounts, np.zeros((more, self.amounts.shape[1]), np.int64)))
        self.instances.append(None)
        return row
