"""Calls about the clouds of the federation: ``client.clouds``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from broker.client.transport import Resource, parse, quote_id
from broker.contract import Done, DrainReport
from broker.schemas.clouds import Advance, Clouds, CloudView, DrainRequest, Table


class CloudsResource(Resource):
    """Shows the clouds of the federation and drains their nodes. Unknown clouds raise NotFoundError."""

    def list(self) -> builtins.list[CloudView]:
        """Return all clouds, in the order of the federation."""
        return parse(Clouds, self._transport.send("GET", "/v1/clouds")).clouds

    def get(self, cloud: str) -> CloudView:
        """Return one cloud by its id."""
        return parse(CloudView, self._transport.send("GET", _path(cloud)))

    def get_table(self, cloud: str) -> Table:
        """Return a cloud's quantile table, as far as the cloud discloses it."""
        return parse(Table, self._transport.send("GET", f"{_path(cloud)}/table"))

    def drain(self, cloud: str, nodes: Sequence[int] | None = None, *, dry_run: bool = False) -> DrainReport:
        """Close nodes (None: all) and make their spot instances leave.

        ``dry_run`` changes nothing and only reports which instances would leave.
        """
        request = DrainRequest(nodes=None if nodes is None else tuple(nodes), dry_run=dry_run)
        return parse(DrainReport, self._transport.send("POST", f"{_path(cloud)}/drain", request))

    def reopen(self, cloud: str, nodes: Sequence[int] | None = None) -> Done:
        """Let nodes (None: all) take new instances again."""
        parameters = {"node": None if nodes is None else list(nodes)}
        return parse(Done, self._transport.send("DELETE", f"{_path(cloud)}/drain", parameters=parameters))

    def finish(self, cloud: str) -> Done:
        """Advance a cloud in trace time past everything that is still to happen on it."""
        return parse(Done, self._transport.send("POST", f"{_path(cloud)}/advance", Advance(finish=True)))


def _path(cloud: str) -> str:
    return f"/v1/clouds/{quote_id(cloud)}"
