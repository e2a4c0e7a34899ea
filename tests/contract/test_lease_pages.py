"""``GET /v1/leases`` in pages: whatever comes and goes meanwhile, who was there all the time is met once."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

import broker.leases.pages
from broker.client import Client, InputRefusedError
from broker.contract import LeaseState, SpotRequest
from tests.contract.harness import KEY, Federation, Run


def admit(client: Client, names: list[str], **fields: Any) -> list[str]:
    """Ids of leases that have no promise, of requests so named."""
    wish = {"cores": 1, "lifetime_s": 3600, "targets": ("east",)} | fields
    granted = client.requests.submit_many([SpotRequest(id=name, **wish) for name in names])
    return [one.lease.id for one in granted]  # type: ignore[union-attr]


def ended(client: Client, names: list[str], **fields: Any) -> list[str]:
    leases = admit(client, names, **fields)
    for lease in leases:
        client.leases.cancel(lease)
    return leases


@pytest.fixture
def client(federation: Federation) -> Any:
    federation.join("east", (64,))
    federation.join("west", (64,))
    with Client(federation.url, KEY) as client:
        yield client


def test_all_are_reached_in_one_order(client: Client) -> None:
    past = ended(client, ["o1", "o2", "o3"])
    east = admit(client, [f"e{number}" for number in range(5)])
    west = admit(client, ["a1", "a2"], targets=("west",))
    expected = [*sorted(east), *sorted(west), *reversed(past)]
    for limit in (1, 2, 3, 7, 10, 1000):
        pages: list[list[str]] = []
        cursor: str | None = None
        while not pages or cursor is not None:
            page = client.leases.list(limit=limit, cursor=cursor)
            assert len(page.leases) <= limit
            assert page.more == (page.next is not None)
            pages.append([lease.id for lease in page.leases])
            cursor = page.next
        assert [lease for page in pages for lease in page] == expected, limit
        assert len(pages) <= len(expected) // limit + 2
    assert [lease.id for lease in client.leases.list_all(page=2)] == expected
    of_west = [lease.id for lease in client.leases.list_all(cloud="west", page=1)]
    assert of_west == sorted(west)
    cancelled = [lease.id for lease in client.leases.list_all(state=LeaseState.CANCELLED, page=1)]
    assert cancelled == [*reversed(past)]
    assert client.leases.list(limit=7, state=LeaseState.RUNNING).next is None


def test_what_comes_and_goes_moves_nothing(client: Client) -> None:
    stays = admit(client, [f"m{number}" for number in range(0, 10, 2)])
    seen: list[str] = []
    cursor = None
    for step in range(4):
        page = client.leases.list(limit=1, cursor=cursor)
        seen += [lease.id for lease in page.leases]
        cursor = page.next
        admit(client, [f"a{step}"])  # before the place
        ended(client, [f"b{step}"])
    admit(client, ["z"])
    while cursor is not None:
        page = client.leases.list(limit=2, cursor=cursor)
        seen += [lease.id for lease in page.leases]
        cursor = page.next
    assert [lease for lease in seen if lease in stays] == stays
    assert "z.1" in seen
    assert len(seen) == len(set(seen))


def test_one_that_ends_on_the_way_is_told_once_by_the_client(client: Client) -> None:
    first, second = admit(client, ["c1", "c2"])
    walk = client.leases.list_all(page=1)
    assert next(walk).id == first
    client.leases.cancel(first)
    client.leases.cancel(second)
    assert [(lease.id, lease.state) for lease in walk] == [(second, "cancelled")]


def test_a_page_goes_on_where_enough_was_looked_through(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = ended(client, ["rare"], origin="seldom")
    ended(client, [f"n{number}" for number in range(6)])
    monkeypatch.setattr(broker.leases.pages, "_PAGE", 2)
    monkeypatch.setattr(broker.leases.pages, "_SEARCHED_EVENTS", 4)
    first = client.leases.list(origin="seldom")
    assert (first.leases, first.more) == ([], True)
    assert [lease.id for lease in client.leases.list_all(origin="seldom")] == rare


def test_members_turn_the_pages_of_their_own(client: Client, federation: Federation) -> None:
    from broker.schemas.api_keys import KeyWish
    from broker.schemas.members import MemberWish

    client.members.add(MemberWish(name="acme"))
    key = client.api_keys.create(KeyWish(principal="acme")).key
    admit(client, ["others1", "others2"])
    with Client(federation.url, key) as acme:
        mine = admit(acme, ["one", "two", "three"])
        foreign = client.leases.list(limit=4).next
        assert foreign is not None
        assert [lease.id for lease in acme.leases.list_all(page=1)] == sorted(mine)
        assert {lease.origin for lease in acme.leases.list(cursor=foreign).leases} <= {"acme"}


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "bm9uc2Vuc2U",
        *(
            base64.urlsafe_b64encode(json.dumps(one).encode()).decode()
            for one in ([], [1, "a", "b"], [True, "a", "b", None], [1, 2, "b", None], [1, "a", "b", "now"],
                        [1, "a", "b", "1-99999999999999999999999"], {"a": 1})
        ),
    ],
)  # fmt: skip
def test_what_is_no_cursor_is_named(client: Client, api: httpx.Client, cursor: str) -> None:
    answer = api.get("/v1/leases", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")
    with pytest.raises(InputRefusedError, match="what next was in the answer before"):
        client.leases.list(cursor=cursor)


def test_the_command_line_lists_all(client: Client, spotfed: Run) -> None:
    admit(client, [f"l{number}" for number in range(12)])
    code, out, _ = spotfed("leases", "--limit", 5)
    assert (code, "there are more than 5: see --limit and --all" in out) == (0, True)
    told = json.loads(spotfed("leases", "--limit", 5, "--json")[1])
    assert (len(told["leases"]), told["more"]) == (5, True)
    told = json.loads(spotfed("leases", "--all", "--json")[1])
    assert (len(told["leases"]), told["more"]) == (12, False)
    assert json.loads(spotfed("leases", "--limit", 12, "--json")[1])["more"] is False
