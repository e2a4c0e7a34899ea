"""Streams public events as they happen."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response

from broker.api.dependencies import Reader, Services, open_call, v1_router, visible_origins
from broker.api.openapi import problem_responses
from broker.api.stream import event_stream

router = v1_router()


@router.get(
    "/events",
    summary="Public events of the leases that are yours, as they happen",
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "server-sent events; data is an Event"},
        **problem_responses(410, 422),
    },
    response_class=Response,
)
async def events(
    request: Request,
    services: Services,
    who: Reader,
    cloud: Annotated[str | None, Query(max_length=64)] = None,
    origin: Annotated[str | None, Query(max_length=64)] = None,
    follow: Annotated[bool, Query(description="false: end after the last event there is")] = True,
    last_event_id: Annotated[str | None, Header(description="resume after this event")] = None,
) -> Response:
    """Stream the events of all clouds as one; operators get those of all leases.

    Ids are of the merged stream; a cloud's own sequence is in the event. Without Last-Event-ID the stream
    begins now, or, with follow=false, with the oldest event that is kept.
    """
    open_call(request).become_stream()
    authorization = request.headers.get("authorization")

    async def check_key() -> None:
        await services.authenticator.principal(authorization)

    return await event_stream(
        services.redis,
        services.keys.all_events,
        services.event_feed,
        last_event_id=last_event_id,
        cloud=cloud,
        origins=visible_origins(who, origin),
        follow=follow,
        check_key=check_key,
    )
