"""Serves the audit log of changes of members and keys, and of purchases on other members' clouds."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from broker.api.dependencies import Administrator, Services, json_response, v1_router
from broker.api.openapi import problem_responses
from broker.schemas.audit import Audit

router = v1_router(tags=["members and keys"])


@router.get(
    "/audit",
    summary="Who changed members and keys, and who bought what on another's cloud",
    response_model=Audit,
    responses=problem_responses(422),
)
async def audit(
    services: Services, _: Administrator, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Response:
    """List the latest entries, the latest first."""
    return json_response(Audit(entries=await services.identities.audit(limit)))
