"""A lease without a lifetime is renewed while its SLA can be kept; then its holder is warned."""

from __future__ import annotations

import pytest

from broker.contract import Ask, Event, EventKind, Finish, LeaseState, Migrate, QuoteView
from cloudsim.model.refusals import RefusalReason
from tests.unit.cloudsim.test_offers import table
from tests.unit.workers.owners import (
    Live,
    cancel,
    check_history_replays,
    check_journal,
    command_id,
    confirm,
    extend,
    not_found,
    release,
    reserve,
    spec,
)

#: With three slots free nobody is evicted in the first 1000 s; half of them at 1000 s, the rest at 2000 s.
SAFE_AT_FIRST = table((1000, True), (2000, True), (2500, False))
#: A hundredth are evicted in the first 10 s.
RISKY = table(*[(10, True)] * 20, *[(2500, False)] * 80)


def endless(attempt: str, sla: float = 0.1) -> object:
    return reserve(attempt, sla=sla).model_copy(update={"lifetime_s": None})


@pytest.fixture(params=[False, True], ids=["wall", "trace"])
def live(request: pytest.FixtureRequest) -> Live:
    live = Live(spec((3,), renewal_s=400.0, trace_time=request.param), SAFE_AT_FIRST)
    live.tell(endless("r.1"), 0.0)
    live.tell(confirm("r.1"), 0.0)
    return live


def pass_time(live: Live, at_s: float) -> None:
    live.advance(at_s)
    live.owner.validate()


def told(live: Live) -> list[tuple[EventKind, float, float | None]]:
    public = [event for event in live.events if event.sequence is not None]
    return [(event.kind, event.at_s, event.lease.ends_at_s if event.lease else None) for event in public]


def test_it_is_renewed_a_quarter_before_its_end_until_that_fails(live: Live) -> None:
    first = live.events[0].lease
    assert first is not None
    assert (first.ends_at_s, first.renewal_s, first.eviction_probability) == (400.0, 400.0, 0.0)
    pass_time(live, 800.0)
    live.owner.cloud.table = RISKY
    pass_time(live, 5000.0)
    assert told(live) == [
        (EventKind.ADMITTED, 0.0, 400.0),
        (EventKind.EXTENDED, 300.0, 700.0),
        (EventKind.EXTENDED, 600.0, 1000.0),
        (EventKind.WARNED, 900.0, 1000.0),
        (EventKind.WARNED, 950.0, 1000.0),
        (EventKind.WARNED, 975.0, 1000.0),
        (EventKind.COMPLETED, 1000.0, 1000.0),
    ]
    assert [event.cause for event in live.events[2:5]] == ["renewal", "renewal", "risk_too_high"]
    warned = live.events[4]
    assert warned.refusal is not None
    assert warned.refusal.reason is RefusalReason.RISK_TOO_HIGH
    assert warned.refusal.counter_offers.sla == pytest.approx(0.2)
    live.crash()
    check_journal(live.events)
    check_history_replays(live.owner, live.events)


def test_it_makes_no_difference_how_often_the_owner_looks(live: Live) -> None:
    other = Live(live.spec, SAFE_AT_FIRST)
    other.tell(endless("r.1"), 0.0)
    other.tell(confirm("r.1"), 0.0)
    pass_time(other, 800.0)
    other.owner.cloud.table = RISKY
    for at_s in range(0, 1200, 7):
        pass_time(live, float(at_s))
        if at_s % 10 == 0:
            live.crash()
        if at_s == 798:
            live.owner.cloud.table = live.table = RISKY
    pass_time(other, 1200.0)
    assert told(live) == told(other)
    assert live.kinds().count(EventKind.WARNED) == 3


def test_less_than_a_period_is_promised_where_the_sla_allows_no_more() -> None:
    live = Live(spec((3,), renewal_s=1500.0), SAFE_AT_FIRST)
    lease = live.tell(endless("r.1"), 0.0).lease
    assert (lease.ends_at_s, lease.eviction_probability) == (1000.0, 0.0)
    short = Live(spec((3,), renewal_s=20_000.0), SAFE_AT_FIRST)
    refused = short.tell(endless("r.1"), 0.0)
    assert refused.reason is RefusalReason.NO_EVIDENCE
    assert refused.counter_offers.lifetime_s == 1000.0


def test_a_last_renewal_may_be_shorter() -> None:
    live = Live(spec((3,), renewal_s=600.0), SAFE_AT_FIRST)
    live.tell(endless("r.1"), 0.0)
    live.tell(confirm("r.1"), 0.0)
    live.owner.cloud.table = table((500, True), (2500, False))
    pass_time(live, 1000.0)
    assert told(live)[1:] == [(EventKind.EXTENDED, 450.0, 950.0), (EventKind.EXTENDED, 825.0, 1325.0)]


def test_what_its_holder_extended_by_many_periods_is_renewed_near_the_new_end(live: Live) -> None:
    """A renewal that is due long before such an end would have to be to an earlier one."""
    longer = table((50_000, True), (60_000, False))
    other = Live(live.spec, longer)
    other.tell(endless("r.1"), 0.0)
    other.tell(confirm("r.1"), 0.0)
    assert other.tell(extend("r.1", 8000.0), 0.0).lease.ends_at_s == 8000.0
    pass_time(other, 8300.0)
    assert told(other)[1:3] == [(EventKind.EXTENDED, 0.0, 8000.0), (EventKind.EXTENDED, 7900.0, 8300.0)]
    other.crash()
    check_journal(other.events)


def test_what_was_refused_is_tried_again_before_it_ends(live: Live) -> None:
    live.owner.cloud.table = None
    pass_time(live, 310.0)
    live.crash()
    live.owner.cloud.table = SAFE_AT_FIRST
    pass_time(live, 360.0)
    assert told(live)[1:] == [(EventKind.WARNED, 300.0, 400.0), (EventKind.EXTENDED, 350.0, 750.0)]
    lease = live.events[-1].lease
    assert lease is not None
    assert lease.warned_at_s is None, "it is renewed again"
    pass_time(live, 660.0)
    assert told(live)[-1] == (EventKind.EXTENDED, 650.0, 1050.0)


def test_what_ends_is_not_renewed(live: Live) -> None:
    live.tell(cancel("r.1"), 200.0)
    live.tell(endless("s.1"), 200.0)
    live.tell(release("s.1"), 250.0)
    live.tell(endless("t.1"), 250.0)
    live.tell(confirm("t.1"), 250.0)
    live.tell(Finish(**command_id()), 260.0)
    assert EventKind.EXTENDED not in live.kinds()
    assert EventKind.WARNED not in live.kinds()
    assert live.owner.state.renewals.next() is None


def offer(cloud: str) -> QuoteView:
    return QuoteView(
        cloud=cloud, cores=1, free_slots=9, eviction_probability=0.0, survives_s=9e9, table_version="v",
        table_made_at_s=0.0, cloud_time_s=0.0,
    )  # fmt: skip


def test_the_holder_hears_once_what_other_clouds_would_promise(live: Live) -> None:
    offers = Migrate(**command_id(), lease="r.1", offers=(offer("B"),))
    assert not_found(live.tell(offers, 100.0)), "it is renewed yet"
    live.table = live.owner.cloud.table = RISKY
    pass_time(live, 340.0)
    live.tell(offers, 340.0)
    live.crash()
    live.tell(offers, 351.0)
    events: list[Event] = [event for event in live.events if event.kind is EventKind.OFFERED]
    assert [[one.cloud for one in event.offers] for event in events] == [["B"]]
    assert events[0].lease is not None
    assert events[0].lease.state is LeaseState.RUNNING
    pass_time(live, 500.0)
    assert not_found(live.tell(Migrate(**command_id(), lease="nobody", offers=()), 500.0))
    check_journal(live.events)


def test_a_quote_is_for_what_would_be_promised_at_once(live: Live) -> None:
    wish = {"request": "q", "origin": "B", "cores": 1, "lifetime_s": None, "sla": 0.1}
    answer = live.tell(Ask.model_validate(command_id() | wish), 1.0)
    assert answer.free_slots == 2, "where one runs already, so little was never seen"
    live.tell(cancel("r.1"), 2.0)
    answer = live.tell(Ask.model_validate(command_id() | wish), 3.0)
    assert isinstance(answer, QuoteView)
    assert (answer.eviction_probability, answer.survives_s) == (0.0, 1000.0)
