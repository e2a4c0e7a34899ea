"""The calls about instances of real clouds, as part of ``broker.client.Client``."""

from __future__ import annotations

from broker.api.outcomes import Calls, parse, quoted
from broker.instances import InstanceRecord


class InstanceCalls(Calls):
    """Of who holds a lease, or may look at it."""

    def instance(self, lease: str) -> InstanceRecord:
        """What a spot lease has on its real cloud, and where. Raises NotFoundError: nothing (yet)."""
        return parse(InstanceRecord, self._send("GET", f"/v1/leases/{quoted(lease)}/instance"))
