"""Calls that follow what happens in the federation: ``client.events``."""

from __future__ import annotations

from collections.abc import Iterator

from broker.client.transport import Resource
from broker.contract import Event
from broker.schemas.events import StreamedEvent


class EventsResource(Resource):
    """Streams the public events of the federation."""

    def stream(
        self,
        *,
        follow: bool = True,
        last_event_id: str | None = None,
        cloud: str | None = None,
        origin: str | None = None,
    ) -> Iterator[StreamedEvent]:
        """Yield public events in order, each once, across lost connections.

        Parameters
        ----------
        follow
            Wait for further events; otherwise end after the latest one.
        last_event_id
            Event to begin after. By default begin with the events to come if ``follow`` is set, else with
            the oldest one kept.
        cloud, origin
            Yield only events of this cloud, and of leases from this origin.

        Raises
        ------
        EventsGoneError
            When the stream no longer reaches back to ``last_event_id``.
        UnavailableError
            When the broker stays away.
        """
        parameters = {"cloud": cloud, "origin": origin, "follow": follow}
        for event in self._transport.stream("/v1/events", parameters, last_event_id, follow=follow):
            last_event_id = event.id or last_event_id
            yield StreamedEvent(id=event.id, event=Event.model_validate_json(event.data))
