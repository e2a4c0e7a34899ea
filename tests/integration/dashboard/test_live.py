"""Real owners behind the dashboard: silence, evictions, quotes and a lost connection, as they happen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.client import Client
from broker.contract import OnDemandRequest, SpotRequest
from tests.contract.harness import KEY, Federation
from tests.contract.twins import NODES, table_of
from tests.integration.dashboard.conftest import Visiting
from tests.integration.dashboard.looking import await_true

# Where a test names both, the federation comes first: so its pages are closed before it stops.
pytestmark = pytest.mark.xdist_group("browser")

HOURS = [3600.0 * hour for hour in range(1, 41)]


@pytest.fixture
def client(federation: Federation) -> Iterator[Client]:
    with Client(federation.url, KEY) as client:
        yield client


def test_a_silent_cloud_is_shown_and_comes_back(federation: Federation, visiting: Visiting) -> None:
    federation.join("north")
    south = federation.join("south")
    page = visiting(federation).open("clouds")
    row = page.locator("tr[data-cloud=south]")
    row.get_by_text("✓ reachable").wait_for()
    south.go_deaf()
    federation.forget_adverts_after(1.2)
    row.get_by_text("✕ unreachable").wait_for()
    row.get_by_text("silent since").wait_for()
    page.get_by_role("listitem").filter(has_text="south is unreachable").wait_for()
    assert page.locator("tr[data-cloud]").first.get_attribute("data-cloud") == "south"
    federation.forget_adverts_after(60.0)
    south.hear()
    page.get_by_role("listitem").filter(has_text="south is unreachable").wait_for(state="detached")


def test_an_eviction_appears_as_it_happens(
    federation: Federation, client: Client, visiting: Visiting
) -> None:
    federation.join("north", (4,))
    granted = client.requests.submit(SpotRequest(id="mine", cores=4, lifetime_s=3600))
    listing, watching = visiting(federation), visiting(federation)
    listing.allowed.append("/v1/events")
    watching.allowed.append("/v1/events")
    leases, events = listing.open("leases/north"), watching.open("events")
    row = leases.locator("tr[data-lease='mine.1']")
    row.get_by_text("running").wait_for()
    events.get_by_text("● live").wait_for()
    leases.get_by_text("● live").wait_for()
    client.on_demand.start("north", OnDemandRequest(id="own", cores=4))
    events.locator("tr[data-kind=evicted]").filter(has_text="mine.1").wait_for()
    assert "because of own" in events.locator("tr[data-kind=evicted]").inner_text()
    assert events.locator("#news").get_attribute("aria-live") == "polite"
    await_true(events, "document.getElementById('news').textContent.includes('Evicted: mine.1 on north')")
    row.get_by_text("evicted").wait_for()
    assert client.leases.get(granted.lease.id).state == "evicted"  # type: ignore[union-attr]
    events.get_by_label("Of which kind").select_option("completed")
    events.get_by_text("No such event lately").wait_for()


def test_a_paused_list_stands_still(federation: Federation, client: Client, visiting: Visiting) -> None:
    federation.join("north", (4,))
    visit = visiting(federation)
    visit.allowed.append("/v1/events")
    page = visit.open("events")
    page.get_by_text("● live").wait_for()
    client.requests.submit(SpotRequest(id="first", cores=1, lifetime_s=3600))
    page.locator("tr[data-kind=admitted]").wait_for()
    page.get_by_role("button", name="Pause").click()
    client.requests.submit(SpotRequest(id="second", cores=1, lifetime_s=3600))
    page.wait_for_timeout(700)
    assert page.locator("tr[data-kind]").count() == 1
    page.get_by_role("button", name="Pause").click()
    page.locator("tr", has_text="second.1").wait_for()


def test_what_happens_while_the_line_is_cut_is_read_afterwards(
    federation: Federation, client: Client, visiting: Visiting
) -> None:
    federation.join("north", (4,))
    client.requests.submit(SpotRequest(id="before", cores=1, lifetime_s=3600))
    headers = {"Authorization": f"Bearer {KEY}"}
    told = httpx.get(f"{federation.url}/v1/events?follow=false", headers=headers).text
    (last,) = re.findall(r"^id: (.*?)\r?$", told, re.MULTILINE)
    asked: list[str | None] = []

    def answer(route: Any) -> None:
        asked.append(route.request.headers.get("last-event-id"))
        if len(asked) == 1:  # a stream that breaks off after an event
            route.fulfill(body=told, content_type="text/event-stream")
        elif len(asked) == 2:
            route.abort()
        else:
            route.continue_()

    visit = visiting(federation)
    visit.allowed.append("/v1/events")
    visit.page.route("**/v1/events", answer)
    page = visit.open("events")
    page.locator("tr", has_text="before.1").wait_for()
    page.get_by_text("Events do not arrive now").wait_for()
    client.requests.submit(SpotRequest(id="meanwhile", cores=1, lifetime_s=3600))
    page.locator("tr", has_text="meanwhile.1").wait_for()
    page.get_by_text("● live").wait_for()
    assert page.locator("tr", has_text="before.1").count() == 1
    assert asked[1:] == [last, last]


def test_what_would_i_get_is_what_the_api_says(federation: Federation, visiting: Visiting) -> None:
    for cloud, lives_s in (("north", HOURS), ("south", [60.0] * 30 + [9000.0] * 10)):
        owner = federation.join(cloud, NODES, clock=lambda: 1000.0)
        owner.owner.cloud.table = table_of(lives_s)
    wish = {"cores": 2, "lifetime_s": 7200, "sla": 0.05}
    with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}) as api:
        said = api.post("/v1/quotes", json=wish).json()
    visit = visiting(federation)
    visit.allowed.append("/table")  # answers 404: it is not published
    page = visit.open("table")
    page.get_by_label("Cores").fill("2")
    page.get_by_label("Lifetime").fill("2h")
    page.get_by_label("SLA", exact=True).fill("0.05")
    page.keyboard.press("Enter")
    page.locator(".outcome", has_text="2 cores for 2 h, SLA 0.05").wait_for()
    taking, refusing = (
        page.locator(f"{place} tr[data-cloud]")
        for place in (".scroller:nth-of-type(1)", ".scroller:nth-of-type(2)")
    )
    assert [one["cloud"] for one in said["quotes"]] == ["north"]
    assert taking.get_attribute("data-cloud") == "north"
    assert f"{said['quotes'][0]['eviction_probability']:.4f}" in taking.inner_text()
    (refusal,) = said["refusals"]
    assert refusing.get_attribute("data-reason") == refusal["reason"] == "risk_too_high"
    assert "the risk of eviction is above the SLA" in refusing.inner_text()
    refusing.get_by_role("button", name="at this SLA").click()
    page.locator(".outcome", has_text="2 of 2 clouds would take it").wait_for()
    assert page.get_by_label("Lifetime").input_value() != "2h"


def test_who_gets_no_promise_is_told_where_on_demand_is_sold(
    federation: Federation, visiting: Visiting
) -> None:
    federation.join("north", NODES)
    prices = {"spot_usd_per_core_hour": 0.01, "on_demand_usd_per_core_hour": 0.05}
    federation.join("public", NODES).tell(sells_on_demand=True, **prices)
    visit = visiting(federation)
    visit.allowed.append("/table")  # answers 404: it is not published
    page = visit.open("table")
    page.get_by_label("Cores").fill("2")
    page.get_by_label("Lifetime").fill("2h")
    page.keyboard.press("Enter")
    page.locator(".outcome", has_text="no cloud would take it").wait_for()
    sold = page.locator("tr[data-on-demand]")
    assert sold.get_attribute("data-on-demand") == "public"
    assert sold.inner_text().split() == ["public", "0.05", "$", "0.20", "$"]
    assert "never taken back" in page.locator(".answer").inner_text()
    page.get_by_label("SLA", exact=True).fill("none")
    page.keyboard.press("Enter")
    page.locator(".outcome", has_text="2 of 2 clouds would take it").wait_for()
    assert sold.count() == 0


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("Cores", "0", "Cores:"), ("Lifetime", "soon", "Lifetime:"), ("SLA", "2", "SLA:")],
)
def test_a_wish_that_cannot_be_used_is_told_at_its_field(
    federation: Federation, visiting: Visiting, field: str, value: str, words: str
) -> None:
    page = visiting(federation).open("table")
    page.get_by_label(field, exact=True).fill(value)
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text=words).wait_for()
    assert page.get_by_label(field, exact=True).get_attribute("aria-invalid") == "true"
