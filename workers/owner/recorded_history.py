"""The history of a cloud that can be written into a snapshot, also what was handed out for a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_json

from cloudsim.history.history import History
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind, Spread

#: In place of the kind of an instance that starts or stops.
_RENEWAL, _GANG = "renewal", "gang"


_KINDS = {_RENEWAL: Kind.SPOT, _GANG: Kind.ON_DEMAND}


class RecordedHistory(History):
    """A history that records each call as a line of JSON. The same calls make the same history."""

    def __init__(self, resources: tuple[str, ...] | None = None) -> None:
        super().__init__(resources)
        self._detailed = resources is not None
        self.calls: list[bytes] = []

    def record_start(self, instance: Instance) -> None:
        """Record an admission. Numbers are dense and rise with time."""
        super().record_start(instance)
        if not instance.yields:
            self._record_call(instance, None)

    def record_changed_stop(self, instance: Instance, stop_s: float) -> None:
        """Record that the user ended the instance at ``stop_s`` instead of the requested end."""
        super().record_changed_stop(instance, stop_s)
        if not instance.yields:
            self._record_call(instance, stop_s)

    def record_renewal(self, instance: Instance, at_s: float) -> None:
        """Record that a spot instance counts as the newest from ``at_s`` on."""
        super().record_renewal(instance, at_s)
        if not instance.yields:
            call = [None, instance.number, _RENEWAL, instance.cores, at_s, instance.end_s, instance.sla]
            self.calls.append(to_json(call, inf_nan_mode="constants"))

    def _record_call(self, instance: Instance, stop_s: float | None) -> None:
        call: list[Any] = [
            stop_s,
            instance.number,
            _GANG if instance.parts else instance.kind,
            instance.cores,
            instance.start_s,
            instance.end_s,
            instance.sla,
        ]
        if self._detailed and stop_s is None:
            call += [dict(instance.amounts), dict(sorted(instance.labels)), instance.group, instance.spread]
        self.calls.append(to_json(call, inf_nan_mode="constants"))

    def replay(self, calls: Iterable[bytes], instances: int) -> None:
        """Make the history again from its calls.

        ``instances`` is the number of admissions, those without a call included.
        """
        for call in json.loads(b"[" + b",".join(calls) + b"]"):
            stop_s, number, kind, cores, start_s, end_s, sla, *details = call
            amounts, labels, group, spread = details or ({}, {}, None, None)
            instance = Instance(
                "", _KINDS.get(kind) or Kind(kind), cores, 0, start_s, end_s, number, sla=sla,
                amounts=tuple(amounts.items()), labels=frozenset(labels.items()), group=group,
                spread=spread and Spread(spread), parts=((0, cores),) if kind == _GANG else (),
            )  # fmt: skip
            if kind == _RENEWAL:
                self.record_renewal(instance, start_s)
            elif stop_s is None:
                self.instances = number  # those before it that are missing left no trace
                self.record_start(instance)
            else:
                self.record_changed_stop(instance, stop_s)
        self.instances = instances
