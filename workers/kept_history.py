"""A cloud's history that also remembers what was handed out: a snapshot must hold all of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from cloudsim.history import History
from cloudsim.requests import Instance, Kind, Spread


class KeptHistory(History):
    """Notes each call as a line of JSON. The same calls make the same history."""

    def __init__(self, resources: tuple[str, ...] | None = None) -> None:
        super().__init__(resources)
        self._detailed = resources is not None
        self.calls: list[bytes] = []

    def record_start(self, instance: Instance) -> None:
        """An admission. Numbers are dense and rise with time."""
        super().record_start(instance)
        if not instance.yields:
            self._keep(instance, None)

    def record_changed_stop(self, instance: Instance, stop_s: float) -> None:
        """The user ended the instance at ``stop_s`` instead of the requested end."""
        super().record_changed_stop(instance, stop_s)
        if not instance.yields:
            self._keep(instance, stop_s)

    def _keep(self, instance: Instance, stop_s: float | None) -> None:
        one = instance
        call: list[Any] = [stop_s, one.number, one.kind.value, one.cores, one.start_s, one.end_s, one.sla]
        if self._detailed and stop_s is None:
            call += [dict(one.amounts), dict(sorted(one.labels)), one.group, one.spread]
        self.calls.append(json.dumps(call, separators=(",", ":")).encode())

    def replay(self, calls: Iterable[bytes], instances: int) -> None:
        """The history that those calls made. ``instances``: admissions, those without a trace included."""
        for call in json.loads(b"[" + b",".join(calls) + b"]"):
            stop_s, number, kind, cores, start_s, end_s, sla, *details = call
            amounts, labels, group, spread = details or ({}, {}, None, None)
            instance = Instance(
                "", Kind(kind), cores, 0, start_s, end_s, number, sla=sla, amounts=tuple(amounts.items()),
                labels=frozenset(labels.items()), group=group, spread=spread and Spread(spread),
            )  # fmt: skip
            if stop_s is None:
                self.instances = number  # those before it that are missing left no trace
                self.record_start(instance)
            else:
                self.record_changed_stop(instance, stop_s)
        self.instances = instances
