"""A later end for a lease, as the owner sees it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.contract import Ask, EventKind, LeaseState, QuoteView, RefusalView
from cloudsim.model.refusals import RefusalReason
from tests.unit.cloudsim.test_offers import TABLE
from tests.unit.workers.owners import (
    NOW,
    Live,
    cancel,
    check_history_replays,
    check_journal,
    command_id,
    confirm,
    extend,
    harmless_table,
    lease_state,
    not_found,
    reserve,
    spec,
    start,
)


@pytest.fixture
def live() -> Live:
    """With a lease that has three free slots to begin with, from 100 s to 120 s; see ``TABLE``."""
    live = Live(spec((3,)), TABLE)
    live.tell(reserve("r.1", lifetime_s=20.0, sla=0.4), 100.0)
    live.tell(confirm("r.1"), 100.0)
    return live


def test_an_extension_is_a_public_event_and_a_new_promise(live: Live) -> None:
    longer = live.tell(extend("r.1", 130.0), 115.0).lease
    assert (longer.ends_at_s, longer.promised_at_s, longer.extensions) == (130.0, 115.0, 1)
    assert longer.eviction_probability == 0.25
    assert (longer.promised_sla, longer.table_version) == (0.4, TABLE.version)
    event = live.events[-1]
    assert (event.kind, event.sequence, event.lease) == (EventKind.EXTENDED, 2, longer)
    first = live.events[0].lease
    assert first is not None
    assert (first.ends_at_s, first.eviction_probability) == (120.0, 0.25), "what was promised first stays"
    live.crash()
    live.advance(140.0)
    assert (live.events[-1].kind, live.events[-1].at_s) == (EventKind.COMPLETED, 130.0)
    check_journal(live.events)
    check_history_replays(live.owner, live.events)


def test_the_same_wish_gets_the_same_answer(live: Live) -> None:
    wish, other = extend("r.1", 130.0, "a"), extend("r.1", 140.0, "b", sla=0.1)
    granted, refused = live.tell(wish, 115.0), live.tell(other, 115.0)
    events = list(live.events)
    live.crash()
    assert live.tell(wish, 116.0) == granted
    assert live.tell(other, 116.0) == refused
    assert live.events == events
    live.tell(cancel("r.1"), 117.0)
    assert live.tell(wish, 118.0) == granted


def test_a_refusal_says_what_would_be_accepted_and_that_is_accepted(live: Live) -> None:
    refused = live.tell(extend("r.1", 140.0, "a"), 115.0)
    assert isinstance(refused, RefusalView)
    assert refused.reason is RefusalReason.RISK_TOO_HIGH
    assert refused.counter_offers.lifetime_s == 35.0
    sla = refused.counter_offers.sla
    assert sla is not None
    assert refused.table_age_s == pytest.approx(115.0 - 1e6)
    assert lease_state(live.tell(extend("r.1", 100.0 + 35.0, "b"), 115.0)) is LeaseState.RUNNING
    assert live.tell(extend("r.1", 140.0, "c", sla=sla), 115.0).lease.promised_sla == sla


def test_what_cannot_be_extended(live: Live) -> None:
    before = live.owner.cloud.inventory.get("r.1")
    live.tell(reserve("s.1", sla=0.99), 101.0)
    assert not_found(live.tell(extend("s.1", 1e6), 101.0)), "not confirmed yet"
    assert not_found(live.tell(extend("nobody", 1e6), 101.0))
    live.tell(start("od", lifetime_s=50.0), 101.0)
    assert not_found(live.tell(extend("od", 1e6), 101.0))
    unchanged = live.tell(extend("r.1", 110.0), 101.0).lease
    assert unchanged.ends_at_s == 120.0, "it has longer already"
    assert live.owner.cloud.inventory.get("r.1") == before
    ended = live.tell(extend("r.1", 130.0, "late"), 120.0)
    assert isinstance(ended, RefusalView)
    assert ended.reason is RefusalReason.ENDED
    assert live.events[-1].kind is EventKind.DECLINED
    live.crash()


def test_a_lease_without_a_promise_is_extended_without_one(live: Live) -> None:
    live.tell(reserve("n.1", lifetime_s=20.0), 100.0)
    live.tell(confirm("n.1"), 100.0)
    longer = live.tell(extend("n.1", 1e9, sla=0.5), 105.0).lease
    assert (longer.ends_at_s, longer.promised_sla) == (1e9, None)
    live.crash()
    check_journal(live.events)


def test_in_trace_time_an_extension_waits_for_its_table() -> None:
    live = Live(spec((3,), trace_time=True), harmless_table((3,)))
    live.tell(reserve("r.1", lifetime_s=1e6, sla=0.99).model_copy(update={"at_s": 0.0}))
    live.tell(confirm("r.1").model_copy(update={"at_s": 0.0}))
    wish = extend("r.1", 2e6)
    live.owner.cloud.table = None
    assert live.owner.table_due(wish.model_copy(update={"at_s": 90_000.0})) == 86_400.0
    assert live.owner.table_due(wish.model_copy(update={"at_s": 80_000.0})) is None
    assert live.owner.table_due(extend("nobody", 2e6).model_copy(update={"at_s": 90_000.0})) is None


def asked(live: Live, cores: int, **told: Any) -> QuoteView | RefusalView:
    wish = {"request": "q", "origin": "B", "cores": cores, "lifetime_s": 20.0, "sla": 0.4} | told
    answer = live.tell(Ask.model_validate(command_id() | wish), 101.0)
    assert isinstance(answer, QuoteView | RefusalView)
    return answer


def test_a_quote_tells_of_the_other_sizes_only_when_asked_to() -> None:
    live = Live(spec((2,)), TABLE)
    plain, whole = asked(live, 2), asked(live, 2, other_sizes=True)
    assert isinstance(plain, RefusalView)
    assert (plain.reason, plain.cores, plain.other_sizes) == (RefusalReason.NO_TABLE, 2, ())
    assert plain.counter_offers.cores is None, "two free slots are fewer than were ever seen: too risky"
    (one,) = whole.other_sizes
    assert (one.cores, one.admitted, one.free_slots) == (1, False, 2)
    assert one.eviction_probability == pytest.approx(0.25 * 2 / 3 + 1 / 3)
    larger = Live(spec((3,)), TABLE)
    refused = asked(larger, 2)
    assert isinstance(refused, RefusalView)
    assert refused.counter_offers.cores == 1
    too_large = asked(larger, 9, sla=None, other_sizes=True)
    assert isinstance(too_large, RefusalView)
    assert too_large.counter_offers.cores == 3
    assert [offer.cores for offer in too_large.other_sizes if offer.admitted] == [1, 2, 3]


def test_a_declined_reservation_is_kept_with_its_counter_offer() -> None:
    live = Live(spec((3,)), TABLE)
    refused = live.tell(reserve("r.1", cores=2, lifetime_s=20.0, sla=0.4), 100.0)
    assert refused.counter_offers.cores == 1
    assert live.events[-1].refusal == refused
    live.take(live.owner.adopt(TABLE, NOW))
    live.crash()
    assert live.tell(reserve("r.1", cores=2, lifetime_s=20.0, sla=0.4), 100.0) == refused
