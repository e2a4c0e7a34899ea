"""Serves quotes: what the clouds would promise, without side effects."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from broker.api import attribution
from broker.api.dependencies import Asker, Services, json_response, v1_router
from broker.api.openapi import document_body, problem_responses
from broker.api.parsing import JsonBody
from broker.contract import QuoteRequest
from broker.schemas.quotes import Quotes

router = v1_router()


@router.post(
    "/quotes",
    summary="Ask what would be promised, without side effects",
    response_model=Quotes,
    responses=problem_responses(400, 408, 413, 415, 422),
    openapi_extra=document_body(QuoteRequest, example={"cores": [1, 2, 4], "lifetime_s": 7200, "sla": 0.05}),
)
async def quotes(
    services: Services, who: Asker, quote_request: Annotated[QuoteRequest, JsonBody.of(QuoteRequest)]
) -> Response:
    """Return quotes in the order in which clouds would be asked, and refusals; nothing is reserved.

    ``cores`` may be a list of sizes: then the quotes of the first size come first, and so on. The code is the
    same as for a request.
    """
    attributed = attribution.attribute_quote(quote_request, who)
    holding = await services.holding(attributed.origin)
    return json_response(await services.quotes.quotes(attributed, holding))
