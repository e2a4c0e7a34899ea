"""Calls of a node agent on an instance of a real cloud: ``client.instance``."""

from __future__ import annotations

from collections.abc import Sequence

from broker.client.transport import Resource, parse
from broker.jobs.models import (
    InstanceOutput,
    InstanceReport,
    InstanceWork,
    StateLinks,
    StateRequest,
    WorkReport,
)


class InstanceResource(Resource):
    """Speaks for one instance, whose token is the client's key.

    A token that is good for nothing any more raises UnauthorizedError.
    """

    def get_work(self, version: str | None = None) -> InstanceWork:
        """Return what is to run; with the ``version`` of an earlier answer, wait a while for another one."""
        return parse(
            InstanceWork, self._transport.send("GET", "/v1/instance/work", parameters={"version": version})
        )

    def write_report(self, report: WorkReport, *, is_news: bool) -> None:
        """Report how the work stands; ``is_news``: a job manager is to look at it at once."""
        self._transport.send("POST", "/v1/instance/report", InstanceReport(report=report, is_news=is_news))

    def write_output(self, offset: int, part: bytes) -> None:
        """Show the last part of the output. ``offset``: number of bytes before it."""
        output = InstanceOutput.model_construct(offset=offset, part=part)
        self._transport.send("POST", "/v1/instance/output", output)

    def sign(self, wanted: StateRequest) -> Sequence[str]:
        """Return addresses of files of a state."""
        return parse(StateLinks, self._transport.send("POST", "/v1/instance/states", wanted)).urls
