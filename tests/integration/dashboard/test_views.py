"""Each view in headless Chromium: what it shows, that it asks nobody else, and who can use it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from broker.jobs.models import Attempt, JobList, JobState, JobView, Outcome
from tests.contract.harness import KEY, Federation
from tests.integration.dashboard.conftest import Visiting
from tests.integration.dashboard.looking import await_true, faint_texts, focused, sideways, unnamed_controls
from tests.integration.dashboard.scripted import scripted_federation

pytestmark = pytest.mark.xdist_group("browser")

VIEWS = {
    "clouds": "Clouds",
    "table": "Quantile table",
    "leases": "Leases",
    "events": "Events",
    "ledger": "Ledger of promises",
    "jobs": "Jobs",
}
#: Something of each view that is there only once the API has answered.
ANSWERED = {
    "clouds": "tr[data-cloud=meadow-1]",
    "table": ".heat .cell",
    "leases": "tr[data-lease]",
    "events": "tr[data-kind]",
    "ledger": "tr[data-kept]",
    "jobs": ".empty-title",
}
WHY = "cheapest of 3 clouds"
JOB = JobView(
    id="job-1",
    name="nightly",
    holder="acme",
    origin="harbour-1",
    home="harbour-1",
    state=JobState.RUNNING,
    said="Running on meadow (spot): 40% done.",
    command=("echo", "<b>build</b>"),
    cores=1,
    instances=1,
    submitted_at=1.7e9,
    cost=0.25,
    attempts=tuple(
        Attempt(
            number=number,
            role="main",
            mechanism="checkpoint",
            cloud=cloud,
            spot=True,
            cores=1,
            asked_at=1.7e9,
            outcome=outcome,
            cost=cost,
            began=WHY,
            ended=ended,
        )
        for number, cloud, outcome, cost, ended in (
            (1, "harbour", Outcome.EVICTED, 0.2, "harbour took its instance back"),
            (2, "meadow", None, 0.05, None),
        )
    ),
)


@pytest.fixture(scope="module")
def world(redis_url: str) -> Iterator[Federation]:
    with scripted_federation(redis_url, 3) as federation:
        yield federation


@pytest.fixture(scope="module")
def nobody(redis_url: str) -> Iterator[Federation]:
    with scripted_federation(redis_url) as federation:
        yield federation


def known_answers(visiting: Visiting, federation: Federation, **options: object):
    """A visit on which the browser may say that an old event is gone."""
    visit = visiting(federation, **options)
    visit.allowed.append("/v1/events")
    return visit


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_read_in_light_and_dark_on_any_screen_and_by_screen_readers(
    visiting: Visiting, world: Federation, view: str
) -> None:
    page = known_answers(visiting, world).open(view)
    page.wait_for_selector(ANSWERED[view])
    assert page.locator("h1").all_inner_texts() == [VIEWS[view]]
    assert page.title().startswith(VIEWS[view])
    assert page.locator("nav [aria-current=page]").get_attribute("href") == f"#{view}"
    assert unnamed_controls(page) == []
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 740})
        assert sideways(page) <= 0
        for scheme, background in (("light", "rgb(243, 245, 248)"), ("dark", "rgb(16, 20, 27)")):
            page.emulate_media(color_scheme=scheme)
            await_true(page, f"getComputedStyle(document.body).backgroundColor === '{background}'")
            assert faint_texts(page) == [], (width, scheme)
    if view == "clouds":  # a table still, although its rows are cards
        assert page.get_by_role("table", name="Clouds now").get_by_role("row").count() == 4


def test_where_there_is_nothing_it_is_said_what_to_do(visiting: Visiting, nobody: Federation) -> None:
    page = known_answers(visiting, nobody).open()
    for view, words in {
        "clouds": "spotfed up",
        "table": "No cloud has joined",
        "leases": "No cloud has joined",
        "events": "spotfed submit",
        "ledger": "spotfed submit",
        "jobs": "spotfed job submit",
    }.items():
        page.get_by_role("link", name=VIEWS[view].split(" of ")[0], exact=True).click()
        page.locator(".empty", has_text=words).wait_for()
        assert focused(page) == VIEWS[view]


def test_a_key_is_asked_for_once_and_a_wrong_one_is_told(visiting: Visiting, world: Federation) -> None:
    visit = known_answers(visiting, world)
    visit.allowed.append("/v1/clouds")  # answers 401
    page = visit.open("ledger", key=None)
    assert focused(page) == "key"
    page.get_by_label("API key").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="The API key is not accepted").wait_for()
    assert focused(page) == "key"
    assert page.get_by_label("API key").get_attribute("aria-invalid") == "true"
    page.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector(ANSWERED["ledger"])
    page.reload()
    page.wait_for_selector(ANSWERED["ledger"])
    assert page.evaluate("JSON.stringify({...localStorage}) + document.cookie").find(KEY) < 0
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("API key").wait_for()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_key_that_is_revoked_meanwhile_leads_back_to_the_door(
    visiting: Visiting, world: Federation
) -> None:
    visit = known_answers(visiting, world)
    visit.allowed.append("/v1/")
    page = visit.open("clouds")
    page.wait_for_selector(ANSWERED["clouds"])
    gone = {
        "type": "urn:spotfed:problem:unauthorized",
        "title": "x",
        "status": 401,
        "detail": "it was revoked",
    }
    page.route("**/v1/*", lambda route: route.fulfill(status=401, json=gone))
    page.get_by_role("alert").filter(has_text="it was revoked").wait_for()
    assert page.evaluate("sessionStorage.getItem('spotfed-key')") is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (503, "The federation cannot answer now"),
        (429, "Too many calls"),
        (None, "The broker does not answer"),
    ],
)
def test_what_goes_wrong_is_said_and_goes_away(
    visiting: Visiting, world: Federation, status: int | None, words: str
) -> None:
    visit = known_answers(visiting, world)
    visit.allowed.append("/v1/ledger")
    problem = {"type": "about:blank", "title": "Later", "status": status, "detail": "it is away"}
    visit.page.route(
        "**/v1/ledger*",
        lambda route: (
            route.abort()
            if status is None
            else route.fulfill(status=status, json=problem, headers={"Retry-After": "1"})
        ),
    )
    page = visit.open("ledger")
    error = page.get_by_role("status").filter(has_text=words)
    error.wait_for()
    page.unroute("**/v1/ledger*")
    page.wait_for_selector(ANSWERED["ledger"])
    error.wait_for(state="detached" if error.count() == 0 else "hidden")


def test_the_whole_way_is_walked_with_the_keyboard(visiting: Visiting, world: Federation) -> None:
    page = known_answers(visiting, world).open("clouds")
    page.wait_for_selector(ANSWERED["clouds"])
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Shift+Tab")  # Sign out
    while focused(page) != "Leases":
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(ANSWERED["leases"])
    assert focused(page) == "Leases"
    assert page.evaluate("document.activeElement.tagName") == "H1"
    while focused(page) != "Leases per node over time":
        page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    told = page.locator(".readout")
    page.keyboard.press("ArrowRight")
    first = told.inner_text()
    assert "on node 0: " in first
    page.keyboard.press("ArrowDown")
    assert "on node 1: " in told.inner_text()
    page.keyboard.press("ArrowLeft")
    assert told.inner_text() not in ("", first)
    page.keyboard.press("Escape")
    assert told.inner_text() == ""


def test_the_theme_is_chosen_and_stays(visiting: Visiting, world: Federation) -> None:
    page = known_answers(visiting, world, color_scheme="light").open("leases")
    page.wait_for_selector(ANSWERED["leases"])
    pixels = "document.querySelector('canvas').toDataURL()"
    light = page.evaluate(pixels)
    page.get_by_label("Theme").select_option("dark")
    await_true(page, f"{pixels} !== {json.dumps(light)}")
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 27)"


def test_nothing_moves_for_who_does_not_want_it(visiting: Visiting, world: Federation) -> None:
    for wish, moves in (("reduce", "0s"), ("no-preference", "0.4s")):
        page = known_answers(visiting, world, reduced_motion=wish).open("clouds")
        page.wait_for_selector(ANSWERED["clouds"])
        style = "getComputedStyle(document.querySelector('.cores-bar span')).transitionDuration"
        assert page.evaluate(style) == moves


def test_jobs_with_their_attempts(visiting: Visiting, world: Federation) -> None:
    visit = known_answers(visiting, world)
    answer = JobList(jobs=(JOB,)).model_dump_json()
    visit.page.route("**/v1/jobs", lambda route: route.fulfill(body=answer, content_type="application/json"))
    page = visit.open("jobs")
    card = page.locator("li.job")
    assert "echo <b>build</b>" in card.inner_text()  # words of others are text, never markup
    assert "40% done. Cost so far: $0.2500." in card.inner_text()
    card.get_by_text("2 attempts").click()
    rows = card.get_by_role("table").get_by_role("row")
    assert [row.split("\t") for row in rows.all_inner_texts()[1:]] == [
        ["1", "harbour", "checkpoint", "evicted", "$0.2000", f"{WHY}; harbour took its instance back"],
        ["2", "meadow", "checkpoint", "–", "$0.0500", WHY],
    ]
