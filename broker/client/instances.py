"""The calls about instances of real clouds, as part of ``broker.client.Client``."""

from __future__ import annotations

from broker.client.results import ClientCalls, parse, quoted
from broker.contract.instances import InstanceRecord


class InstanceCalls(ClientCalls):
    """Of who holds a lease, or may look at it."""

    def instance(self, lease: str) -> InstanceRecord:
        """What a spot lease has on its real cloud, and where. Raises NotFoundError: nothing (yet)."""
        return parse(InstanceRecord, self._send("GET", f"/v1/leases/{quoted(lease)}/instance"))
