"""``GET /v1/ledger``."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from broker.api import problems
from broker.api.dependencies import Reader, answer, broker_of, origins_of
from broker.api.openapi import problem_responses
from broker.ledger.models import LedgerReach, LedgerView
from broker.ledger.report import DIMENSIONS, entries, totals

router = APIRouter()


@router.get(
    "/ledger",
    summary="Promised against realised evictions",
    response_model=LedgerView,
    responses=problem_responses(422),
)
async def ledger(
    request: Request,
    who: Reader,
    cloud: Annotated[str | None, Query(max_length=64, description="of this cloud only")] = None,
    origin: Annotated[str | None, Query(max_length=64, description="of this origin only")] = None,
    sla: Annotated[float | None, Query(ge=0, le=1, description="at this SLA only")] = None,
    by: Annotated[
        str, Query(max_length=64, description="broken down by these: cloud, origin, sla, table")
    ] = "cloud,sla",
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """What the clouds promised and what came of it, with exact bounds, up to the last public event.

    Of your own origins; operators see all. Leases without a guarantee are in no account. An extended lease
    counts once, for its last promise.
    """
    dimensions = [one.strip() for one in by.split(",") if one.strip()]
    if not set(dimensions) <= set(DIMENSIONS):
        raise problems.invalid_field("by", "some of these are not known")
    books = broker_of(request).books
    await books.refresh()
    ledgers = [one for name, one in sorted(books.ledgers.items()) if cloud in (None, name)]
    found = totals(ledgers, dimensions, origins=origins_of(who, origin), sla=sla)
    reach = [LedgerReach(cloud=one.cloud, sequence=one.sequence, missing=one.missing) for one in ledgers]
    shown = await asyncio.to_thread(entries, dict(islice(found.items(), limit)))
    return answer(LedgerView(entries=shown, clouds=reach, more=len(found) > limit))
