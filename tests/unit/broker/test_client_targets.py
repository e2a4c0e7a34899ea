"""``Client.target``: of clouds that sell pools, of those without a table, of owners that do not tell yet."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from broker.client import Client, NotFoundError
from broker.contract import CloudInfo

HOUR_S = 3600.0


def client_of(table: dict[str, Any] | None, pools: tuple[int, ...] = ()) -> Client:
    """Of a broker that knows one cloud, ``A``."""
    info = CloudInfo(id="A", order=0, nodes="8", cores=8, largest_node=8, time="wall", pools=pools)
    view = {"info": info.model_dump(mode="json"), "advert": None, "reachable": True, "advert_age_s": None}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/clouds/A":
            return httpx.Response(200, json=view)
        if request.url.path == "/v1/clouds/A/table" and table is not None:
            return httpx.Response(200, json={"version": "v", "made_at_s": 0.0, "rows": []} | table)
        problem = {
            "type": "urn:spotfed:problem:not-found",
            "title": "no",
            "status": 404,
            "detail": "not there",
        }
        return httpx.Response(404, json=problem, headers={"Content-Type": "application/problem+json"})

    return Client("http://here", "k", transport=httpx.MockTransport(answer))


def told(median_h: float, quantile_h: float, **flavour: Any) -> dict[str, Any]:
    return {"cores": 1, "median_s": median_h * HOUR_S, "quantile_s": quantile_h * HOUR_S} | flavour


def test_of_pools_the_one_that_is_worth_most_is_chosen() -> None:
    stack = [told(1, 2, amounts={"stack_top": 8}), told(6, 7, amounts={"stack_top": 3})]
    inside = told(
        40, 45, amounts={"stack_top": 2}
    )  # a place that may be taken: the top of a pool is what is left last
    table = {"disclosure": "p90", "lifetimes": [*stack, inside]}
    with client_of(table, pools=(5, 3)) as client:
        found = client.targets.choose("A", cores=2)
        assert (found.pool, found.why) == (1, None)
        assert found.lifetime_s is not None
        assert 4 * HOUR_S < found.lifetime_s < 6 * HOUR_S
        assert client.targets.choose("A", cores=4).pool == 0, "the other one is smaller than that"
        assert client.targets.choose("A", cores=6).lifetime_s is None


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (None, "no table yet"),
        ({}, "no lifetimes of this size"),  # an owner of the version before
        ({"disclosure": "nothing"}, "without a guarantee"),
        ({"disclosure": "p90", "lifetimes": [told(0, 0)]}, "no lifetimes of this size"),
    ],
)
def test_where_none_can_be_chosen_it_says_why(table: dict[str, Any] | None, why: str) -> None:
    with client_of(table) as client:
        found = client.targets.choose("A")
        assert found.lifetime_s is None
        assert found.why is not None
        assert why in found.why
        with pytest.raises(NotFoundError):
            client.targets.choose("B")
