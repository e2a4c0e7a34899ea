"""Events as the client reads them from the event stream."""

from __future__ import annotations

from pydantic import BaseModel

from broker.contract import Event


class StreamedEvent(BaseModel, defer_build=True):
    """An event with its id in the merged stream."""

    id: str
    event: Event
