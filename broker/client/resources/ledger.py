"""Calls that compare promises with what happened: ``client.ledger``."""

from __future__ import annotations

from collections.abc import Sequence

from broker.client.transport import Resource, parse
from broker.ledger.models import LedgerView


class LedgerResource(Resource):
    """Reads the ledger of promises."""

    def read(
        self,
        *,
        cloud: str | None = None,
        origin: str | None = None,
        sla: float | None = None,
        by: Sequence[str] = ("cloud", "sla"),
    ) -> LedgerView:
        """Return promised against realised evictions, grouped by any of cloud, origin, sla and table."""
        parameters = {"cloud": cloud, "origin": origin, "sla": sla, "by": ",".join(by)}
        return parse(LedgerView, self._transport.send("GET", "/v1/ledger", parameters=parameters))
