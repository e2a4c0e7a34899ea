"""Serves the ledger: promised against realised evictions."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from broker.api import problems
from broker.api.dependencies import Reader, Services, json_response, v1_router, visible_origins
from broker.api.openapi import problem_responses
from broker.ledger.models import LedgerReach, LedgerView
from broker.ledger.report import DIMENSIONS, make_entries, sum_accounts

router = v1_router()


@router.get(
    "/ledger",
    summary="Promised against realised evictions",
    response_model=LedgerView,
    responses=problem_responses(422),
)
async def ledger(
    services: Services,
    who: Reader,
    cloud: Annotated[str | None, Query(max_length=64, description="of this cloud only")] = None,
    origin: Annotated[str | None, Query(max_length=64, description="of this origin only")] = None,
    sla: Annotated[float | None, Query(ge=0, le=1, description="at this SLA only")] = None,
    by: Annotated[
        str, Query(max_length=64, description="broken down by these: cloud, door, origin, sla, table")
    ] = "cloud,sla",
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """Return what the clouds promised and what came of it, with exact bounds, up to the last public event.

    Members see the accounts of their own origins, operators all. Leases without a guarantee are in no
    account. An extended lease counts once, for its last promise.
    """
    dimensions = [dimension.strip() for dimension in by.split(",") if dimension.strip()]
    if not set(dimensions) <= set(DIMENSIONS):
        raise problems.invalid_field("by", "some of these are not known")
    await services.ledgers.refresh()
    ledgers = [ledger for name, ledger in sorted(services.ledgers.ledgers.items()) if cloud in (None, name)]
    groups = sum_accounts(ledgers, dimensions, origins=visible_origins(who, origin), sla=sla)
    reach = [
        LedgerReach(
            cloud=ledger.cloud,
            sequence=ledger.sequence,
            missing=ledger.missing,
            misplaced=ledger.counts.misplaced,
        )
        for ledger in ledgers
    ]
    first = await asyncio.to_thread(make_entries, dict(islice(groups.items(), limit)))
    return json_response(LedgerView(entries=first, clouds=reach, more=len(groups) > limit))
