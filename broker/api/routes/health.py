"""Tells machines whether this process runs, and whether the federation can work."""

from __future__ import annotations

from fastapi import APIRouter

from broker.api import problems
from broker.api.dependencies import Services
from broker.api.openapi import problem_responses
from broker.schemas.health import Health

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="This process runs")
async def healthz() -> Health:
    """Answer as long as this process runs; nothing else is checked."""
    return Health()


@router.get(
    "/readyz",
    summary="The queue takes writes and a cloud can be asked",
    responses=problem_responses(503, 507),
)
async def readyz(services: Services) -> Health:
    """Answer if Redis takes writes and keeps them, and a cloud can be reached; else with a problem."""
    await services.require_writes()
    if loss := services.queue_watch.loss:
        raise problems.not_ready(f"the queue (Redis) would lose writes: {loss}")
    members = await services.membership.members()
    if not any(member.reachable or member.info.time == "trace" for member in members):
        raise problems.not_ready(
            "no cloud can be reached" if members else "no cloud has joined the federation yet"
        )
    return Health()
