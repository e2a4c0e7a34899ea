"""Requests for longer than can be promised at once are promised bit by bit; each promise counts."""

from __future__ import annotations

from typing import Any

import pytest

from cloudsim.admission.promise_ledger import Account
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.renewals import RenewalTerms, may_renew
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.changes import End, Started
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind, Request
from cloudsim.traces.trace import Trace

HOUR_S, DAY_S = 3600.0, 86_400.0
SLA = 0.01

Row = tuple[float, float, int]  # start, stop, cores


def trace(*rows: Row) -> Trace:
    start_s, stop_s, cores = zip(*rows, strict=True)
    return Trace.checked("t", [f"i{n}" for n in range(len(rows))], start_s, stop_s, cores)


#: Own users want one of four cores, an hour each half day, for ten days.
CALM: tuple[Row, ...] = tuple((half * DAY_S / 2, half * DAY_S / 2 + HOUR_S, 1) for half in range(21))


def run(spot: Trace, *own: Row, least_s: float | None = HOUR_S, sla: float = SLA) -> dict[str, Any]:
    member = FederatedCloud(CloudSpec("c", (4,)), "1x4", trace(*sorted((*CALM, *own))))
    federation = Federation((member,), (Workload("o", spot, 0.0, sla, ("c",), least_s=least_s),))
    origin: dict[str, Any] = replay(federation, seed=0, births=200)["origins"]["o"]
    return origin


def test_what_is_too_long_for_the_history_is_promised_as_it_grows() -> None:
    spot = trace((2 * DAY_S, 6 * DAY_S, 1))
    at_once = run(spot, least_s=None)
    assert (at_once["admitted"], at_once["refusals"]) == (0, {"no_evidence": 1})
    assert "promises" not in at_once
    renewed = run(spot)
    assert (renewed["admitted"], renewed["completed"], renewed["refusals"]) == (1, 1, {})
    assert renewed["spot_core_hours"] == {"requested": 96.0, "completed": 96.0, "lost": 0.0}
    # A quarter of the history ahead at a time, asked for an hour before: 12 h, then a little more each time.
    assert renewed["promises"]["made"] == 6
    assert renewed["promises"]["evicted"] == renewed["promises"]["not_renewed"] == 0


def test_what_can_be_promised_at_once_is() -> None:
    spot = trace((2 * DAY_S, 2 * DAY_S + 6 * HOUR_S, 1))
    renewed = run(spot)
    assert renewed["promises"] == {"made": 1, "evicted": 0, "not_renewed": 0}
    assert renewed["completed"] == 1


def test_what_would_begin_with_more_than_the_cloud_can_promise_is_refused() -> None:
    spot = trace((2 * DAY_S, 6 * DAY_S, 1))
    assert run(spot, least_s=12 * HOUR_S)["admitted"] == 1
    refused = run(spot, least_s=13 * HOUR_S)
    assert (refused["admitted"], refused["refusals"]) == (0, {"no_evidence": 1})
    assert refused["promises"] == {"made": 0, "evicted": 0, "not_renewed": 0}


def test_a_peak_breaks_the_last_promise_alone() -> None:
    evicted = run(trace((2 * DAY_S, 6 * DAY_S, 1)), (4.2 * DAY_S, 4.4 * DAY_S, 4))
    assert (evicted["completed"], evicted["evicted"], evicted["promises"]["evicted"]) == (0, 1, 1)
    assert evicted["promises"]["made"] > 3
    assert evicted["spot_core_hours"]["lost"] == pytest.approx(2.2 * 24)


def test_what_is_not_renewed_is_neither_completed_nor_lost() -> None:
    # While one core is in own use a request for all four is turned away: nothing is out of their reach now.
    full = (2.51 * DAY_S, 2.6 * DAY_S, 4)
    assert run(trace((2.6 * DAY_S, 6 * DAY_S, 1)), full)["admitted"] == 0
    cut = run(trace((2.1 * DAY_S, 6 * DAY_S, 1)), full)
    assert cut["promises"]["not_renewed"] == 1
    assert (cut["completed"], cut["evicted"]) == (0, 0)
    assert cut["spot_core_hours"] == {"requested": 93.6, "completed": 0.0, "lost": 0.0}


# -- what one peak would break ---------------------------------------------------------------------------


def cloud_with(own_peak_cores: int, admitted: int, running: tuple[int, ...]) -> Cloud:
    """A cloud of eight cores whose own users once wanted some of them; spot runs in this order."""
    cloud = Cloud(CloudSpec("c", (8,)))
    if own_peak_cores:
        cloud.start_on_demand(Request("own", Kind.ON_DEMAND, own_peak_cores, 1.0), 0.0)
        cloud.advance(2.0)
    for number, cores in enumerate(running):
        cloud.apply(Started(Instance(f"s{number}", Kind.SPOT, cores, 0, 3.0, 1e6, number + 1, sla=SLA)))
    cloud.ledger._accounts[SLA] = Account(completed=admitted)  # those that run are among them
    return cloud


def newcomer(cores: int) -> Request:
    return Request("new", Kind.SPOT, cores, 100.0, SLA)


@pytest.mark.parametrize(
    ("own_peak_cores", "admitted", "running", "may"),
    [
        (0, 0, (), True),
        (3, 0, (1,), True),  # own users would have to want more than ever, by more than one request
        (3, 0, (2,), False),
        (3, 99, (2,), False),
        (3, 100, (2,), True),  # one of a hundred may be evicted
        (4, 299, (1, 1), False),  # and all three at once would be
        (4, 300, (1, 1), True),
    ],
)
def test_one_peak_breaks_no_more_than_was_earned(
    own_peak_cores: int, admitted: int, running: tuple[int, ...], may: bool
) -> None:
    assert may_renew(cloud_with(own_peak_cores, admitted, running), newcomer(1)) is may


def test_what_was_broken_has_been_spent() -> None:
    cloud = cloud_with(7, 299, (1,))
    assert may_renew(cloud, newcomer(1))
    cloud.ledger.account(SLA).evicted = 1
    assert may_renew(cloud, newcomer(1))
    cloud.ledger.account(SLA).evicted = 2
    assert not may_renew(cloud, newcomer(1))


def test_only_those_as_old_count() -> None:
    cloud = cloud_with(3, 0, (2, 1))
    oldest, latest = cloud.inventory.spot()
    assert may_renew(cloud, oldest)
    assert not may_renew(cloud, latest)


def test_own_users_that_are_turned_away_count_at_the_peak() -> None:
    cloud = Cloud(CloudSpec("c", (4,)))
    for number, cores in enumerate((3, 3)):
        cloud.start_on_demand(Request(f"own{number}", Kind.ON_DEMAND, cores, 10.0), 1.0)
    assert cloud.own_peak_cores == 6
    cloud.start_on_demand(Request("other", Kind.ON_DEMAND, 4, 10.0), 2.0)
    assert cloud.own_peak_cores == 7
    cloud.start_on_demand(Request("never", Kind.ON_DEMAND, 5, 10.0), 2.0)
    assert cloud.own_peak_cores == 7
    cloud.end("own0", 3.0, End.CANCELLED)
    assert cloud.own_cores == 0


def test_an_instance_is_renewed_an_hour_before_a_long_promise_ends() -> None:
    assert RenewalTerms(1e9).due_s(0.0, 2 * DAY_S) == 2 * DAY_S - HOUR_S
    assert RenewalTerms(1e9).due_s(0.0, HOUR_S) == 0.75 * HOUR_S
    assert RenewalTerms(period_s=HOUR_S).due_s(0.0, DAY_S) == DAY_S - HOUR_S / 4


def test_what_is_refused_is_tried_again_half_way_to_the_end_twice() -> None:
    terms, ends_s = RenewalTerms(1e9), 2 * DAY_S
    tried_s = []
    due_s = terms.due_s(0.0, ends_s)
    while due_s is not None:
        tried_s.append(ends_s - due_s)
        due_s = terms.due_s(0.0, ends_s, due_s)
    assert tried_s == [HOUR_S, HOUR_S / 2, HOUR_S / 4]
    assert RenewalTerms(ends_s).due_s(0.0, ends_s) is None, "it has all that it wants"
