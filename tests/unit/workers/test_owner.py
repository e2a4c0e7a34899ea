from __future__ import annotations

import typing

import pytest

from broker.contract import (
    Command,
    Done,
    EventKind,
    LeaseGranted,
    LeaseState,
    Overflow,
    QuoteView,
    RefusalView,
    Room,
    Tick,
)
from cloudsim.admission.population import BETWEEN_UPDATES, FEWEST_REQUESTS
from cloudsim.admission.rule import AdmissionRule
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Mode
from tests.unit.workers.owners import (
    NOW,
    Live,
    ask,
    cancel,
    check_history_replays,
    check_journal,
    command_id,
    confirm,
    harmless_table,
    lease_state,
    load,
    not_found,
    release,
    reserve,
    snapshot,
    spec,
    start,
    stop,
)
from workers.owner import snapshots
from workers.owner.answer_log import AnswerLog
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec


@pytest.fixture
def live() -> Live:
    return Live(spec((4,)))


def test_every_type_of_command_has_a_handler(live: Live) -> None:
    union, *_ = typing.get_args(Command)
    assert set(live.owner.handlers) == set(typing.get_args(union))


def test_a_reservation_is_admitted_when_it_is_confirmed(live: Live) -> None:
    held = live.tell(reserve("r.1", cores=3), 10.0)
    assert lease_state(held) is LeaseState.RESERVED
    assert (held.lease.starts_at_s, held.lease.ends_at_s) == (10.0, 110.0)
    assert live.owner.cloud.inventory.free.tolist() == [1]
    assert lease_state(live.tell(confirm("r.1"), 12.0)) is LeaseState.RUNNING
    assert live.kinds() == [EventKind.RESERVED, EventKind.ADMITTED]
    assert [event.sequence for event in live.events] == [None, 1]
    live.advance(111.0)
    assert live.events[-1].kind is EventKind.COMPLETED
    assert live.events[-1].at_s == 110.0
    check_journal(live.events)


def test_a_command_that_comes_twice_gets_the_same_answer_and_changes_nothing(live: Live) -> None:
    for command in (
        reserve("r.1", cores=3),
        reserve("s.1", cores=3),
        confirm("r.1"),
        release("t.1"),
        start("od"),
    ):
        first = live.tell(command)
        events = list(live.events)
        assert live.tell(command) == first
        assert live.events == events


def test_a_refused_reservation_stays_refused_when_room_appears(live: Live) -> None:
    live.tell(reserve("r.1", cores=4))
    refused = live.tell(reserve("s.1", cores=1))
    assert refused.reason is RefusalReason.NO_CAPACITY
    live.tell(release("r.1"))
    assert live.tell(reserve("s.1", cores=1)) == refused
    assert lease_state(live.tell(reserve("s.2", cores=1))) is LeaseState.RESERVED


def test_a_release_that_overtakes_its_reservation_leaves_a_tombstone(live: Live) -> None:
    assert not_found(live.tell(release("r.1")))
    assert not_found(live.tell(reserve("r.1")))
    assert not_found(live.tell(confirm("r.1")))
    assert len(live.owner.cloud.inventory) == 0
    live.crash()
    assert not_found(live.tell(reserve("r.1")))


def test_a_released_reservation_is_gone_and_not_public(live: Live) -> None:
    live.tell(reserve("r.1"))
    assert live.tell(release("r.1"), 1.0) == Done()
    assert live.tell(release("r.1"), 2.0) == Done()
    assert live.events[-1].sequence is None
    assert len(live.owner.cloud.inventory) == 0
    assert not_found(live.tell(confirm("r.1"), 3.0))


def test_releasing_what_has_been_confirmed_cancels_it(live: Live) -> None:
    live.tell(reserve("r.1"))
    live.tell(confirm("r.1"))
    assert lease_state(live.tell(release("r.1"), 1.0)) is LeaseState.CANCELLED
    assert (live.events[-1].kind, live.events[-1].sequence) == (EventKind.CANCELLED, 2)


def test_an_eviction_before_the_confirmation_stays_the_end(live: Live) -> None:
    live.tell(reserve("r.1", cores=3))
    live.tell(start("od", cores=4), 5.0)
    lapsed = live.events[1]
    assert (lapsed.kind, lapsed.sequence, lapsed.cause) == (EventKind.RELEASED, None, "od")
    assert lease_state(live.tell(confirm("r.1"), 6.0)) is LeaseState.EVICTED
    assert lease_state(live.tell(cancel("r.1"), 6.0)) is LeaseState.EVICTED
    assert lease_state(live.tell(release("r.1"), 6.0)) is LeaseState.EVICTED
    assert live.owner.state.evicted == 1
    check_journal(live.events)


def test_cancelling_ends_a_lease_once(live: Live) -> None:
    live.tell(reserve("r.1"))
    live.tell(confirm("r.1"))
    ended = live.tell(cancel("r.1"), 7.0)
    assert (ended.lease.state, ended.lease.ended_at_s, ended.lease.cause) == (
        LeaseState.CANCELLED,
        7.0,
        "holder",
    )
    assert live.tell(cancel("r.1"), 9.0) == ended
    live.advance(1000.0)
    assert live.kinds()[-1] is EventKind.CANCELLED
    assert not_found(live.tell(cancel("unknown"), 1000.0))


def test_nobody_else_ends_an_on_demand_instance(live: Live) -> None:
    live.tell(start("od"))
    assert not_found(live.tell(cancel("od")))
    assert not_found(live.tell(release("od")))
    assert not_found(live.tell(confirm("od")))
    assert not_found(live.tell(reserve("od")))
    assert lease_state(live.tell(stop("od"), 1.0)) is LeaseState.CANCELLED
    assert lease_state(live.tell(stop("od"), 2.0)) is LeaseState.CANCELLED
    assert [event.sequence for event in live.events] == [None, None]


def test_ids_of_the_own_load_belong_to_it() -> None:
    live = Live(spec((4,), own_load=load((10.0, 20.0, 1), (30.0, 40.0, 1))))
    for command in (
        reserve("A/own-5"),
        start("A/own-1"),
        start("A/own-x"),
        confirm("A/own-0"),
        release("A/own-0"),
    ):
        assert not_found(live.tell(command))
    live.advance(35.0)
    assert [event.at_s for event in live.events] == [10.0, 20.0, 30.0]
    live.crash()
    live.advance(50.0)
    assert len(live.owner.cloud.inventory) == 0


def test_reservations_expire_on_the_monotonic_clock_alone(live: Live) -> None:
    live.tell(reserve("r.1", lifetime_s=1e6))
    live.tell(reserve("s.1", lifetime_s=1e6))
    live.take(live.owner.expire(0.0, NOW, 1000.0))  # first seen
    live.tell(confirm("s.1"))
    live.advance(100_000.0)
    live.take(live.owner.expire(100_000.0, NOW, 1029.0))
    assert live.kinds()[-1] is EventKind.ADMITTED
    live.take(live.owner.expire(100_000.0, NOW, 1031.0))
    assert (live.events[-1].kind, live.events[-1].cause) == (EventKind.RELEASED, "expired")
    assert lease_state(live.tell(confirm("r.1"), 100_000.0)) is LeaseState.CANCELLED
    assert lease_state(live.tell(confirm("s.1"), 100_000.0)) is LeaseState.RUNNING


def test_in_trace_time_nothing_expires_and_time_comes_with_the_commands() -> None:
    live = Live(spec((4,), trace_time=True))
    live.tell(reserve("r.1", lifetime_s=1e6).model_copy(update={"at_s": 50.0}), 9999.0)
    live.take(live.owner.expire(0.0, NOW, 0.0))
    live.take(live.owner.expire(0.0, NOW, 1e9))
    assert live.kinds() == [EventKind.RESERVED]
    assert live.owner.cloud.now_s == 50.0


def test_a_quote_has_no_side_effect_and_says_what_admission_would(live: Live) -> None:
    quote = live.tell(ask(), 5.0)
    assert isinstance(quote, QuoteView)
    assert (quote.free_slots, quote.cloud_time_s) == (4, 5.0)
    assert isinstance(live.tell(ask(sla=0.5), 5.0), RefusalView)
    assert live.tell(ask(cores=5), 5.0).reason is RefusalReason.TOO_LARGE
    assert live.events == []


def test_a_promise_displaces_a_lease_without_one_and_its_holder_hears_of_it() -> None:
    live = Live(spec((2,)), harmless_table((2,)))
    live.tell(reserve("n.1", cores=2), 1.0)
    live.tell(confirm("n.1"), 1.0)
    live.tell(reserve("r.1", cores=1, sla=0.5), 2.0)
    assert live.kinds() == [EventKind.RESERVED, EventKind.ADMITTED, EventKind.EVICTED, EventKind.RESERVED]
    assert live.events[2].cause == "r.1"
    live.owner.validate()
    live.crash()


def test_commands_of_one_instant_keep_the_history_replayable() -> None:
    """Spot before on-demand, a stop after a start: against the order of events within an instant."""
    live = Live(spec((4,)), harmless_table((4,)))
    live.tell(reserve("r.1", cores=4, sla=0.5), 10.0)
    live.tell(release("r.1"), 10.0)
    live.tell(reserve("s.1", cores=2, sla=0.5), 10.0)
    live.tell(start("od", cores=4), 10.0)
    live.tell(stop("od"), 10.0)
    live.tell(start("od2", cores=4), 10.0)
    check_history_replays(live.owner, live.events)
    live.crash()


def test_a_late_command_does_not_turn_time_back() -> None:
    live = Live(spec((4,), trace_time=True))
    live.tell(Tick(**command_id(), at_s=100.0))
    lease = live.tell(reserve("r.1").model_copy(update={"at_s": 60.0})).lease
    assert lease.starts_at_s == 100.0


def test_what_finds_no_room_is_offered_until_it_is_fulfilled() -> None:
    live = Live(spec((4,), overflow=True, overflow_sla=0.1))
    live.take(live.owner.open(0.0, NOW))
    live.tell(start("od", cores=4, lifetime_s=50.0))
    refusal = live.tell(start("more", cores=2, lifetime_s=1000.0), 10.0)
    assert (refusal.reason, refusal.detail) == (
        RefusalReason.NO_CAPACITY,
        "offered to the federation as a spot request",
    )
    offer = {"cloud": "A", "instance": "more", "attempt": 1, "cores": 2, "lifetime_s": 1000.0, "sla": 0.1}
    assert live.offers == [offer | {"avoid": None}]

    def told(outcome: str, attempt: int, at_s: float) -> object:
        news = {"instance": "more", "outcome": outcome, "attempt": attempt, "lease": "more.1", "cloud": "B"}
        return live.tell(Overflow.model_validate(command_id() | news), at_s)

    assert told("placed", 1, 20.0) == Done()
    live.crash()
    assert told("evicted", 1, 320.0) == Done()
    assert not_found(told("evicted", 1, 320.0))
    assert live.offers[1:] == [offer | {"attempt": 2, "lifetime_s": 700.0, "avoid": "B"}]
    live.crash()
    told("placed", 2, 330.0)
    told("completed", 2, 1030.0)
    assert live.owner.state.offers.get("more") is None
    assert len(live.offers) == 2


def test_a_user_can_stop_what_runs_elsewhere() -> None:
    live = Live(spec((4,), overflow=True))
    live.take(live.owner.open(0.0, NOW))
    live.tell(start("od", cores=4))
    live.tell(start("more", lifetime_s=9.0))
    assert live.tell(stop("more")) == Done()
    assert live.offers[-1] == {"cloud": "A", "instance": "more", "attempt": 1, "stop": True, "lease": None}
    assert live.tell(stop("more")) == Done()
    assert len(live.offers) == 2


def test_no_offer_without_a_lifetime_nor_of_what_fits_nowhere_nor_of_the_past() -> None:
    own = load((1.0, 1000.0, 4), (2.0, 3.0, 4), (20.0, 30.0, 4))
    live = Live(spec((4,), own_load=own, overflow=True))
    live.advance(10.0)
    live.take(live.owner.open(10.0, NOW))
    assert "names none" in live.tell(start("x", cores=1), 10.0).detail
    assert live.tell(start("y", cores=5, lifetime_s=5.0), 10.0).detail is None
    assert live.offers == []
    live.advance(25.0)
    assert [offer["instance"] for offer in live.offers] == ["A/own-2"]


def test_the_advert_counts(live: Live) -> None:
    live.tell(reserve("r.1", cores=3))
    live.tell(confirm("r.1"))
    advert = live.owner.advert(NOW)
    assert advert.free_slots == {1: 1, 2: 0, 3: 0, 4: 0}
    assert (advert.free_cores, advert.spot_cores, advert.spot_leases, advert.admitted) == (1, 3, 1, 1)
    # What is lent without a promise is room for those who are promised something.
    assert advert.promised_room == Room(free_cores=4, free_slots={1: 4, 2: 2, 3: 1, 4: 1})
    live.tell(cancel("r.1"))
    assert live.owner.advert(NOW).promised_room is None


def test_a_lease_that_has_ended_cannot_end_again() -> None:
    book = AnswerLog()
    live = Live(spec((4,)))
    answer = live.tell(reserve("r.1"))
    assert isinstance(answer, LeaseGranted)
    book.put(answer.lease)
    ended = answer.lease.model_copy(update={"state": LeaseState.EVICTED})
    book.end(ended)
    with pytest.raises(AssertionError):
        book.end(ended)
    with pytest.raises(AssertionError):
        book.put(answer.lease)


def test_the_book_forgets_the_oldest_ends_first() -> None:
    book = AnswerLog(kept_closed=2)
    for attempt in ("a", "b", "c"):
        book.release(attempt)
    assert [book.get(attempt) is not None for attempt in ("a", "b", "c")] == [False, True, True]


@pytest.mark.parametrize("slas", [(0.1,), (0.1, 0.25)])
def test_population_mode_remembers_what_was_asked_in_journal_and_snapshot(slas: tuple[float, ...]) -> None:
    cloud = CloudSpec("A", (4, 4), admission=AdmissionRule(Mode.POPULATION))
    live = Live(OwnerSpec(cloud), harmless_table((4, 4)))
    for number in range(FEWEST_REQUESTS + 30):
        attempt, sla = f"r{number}.1", slas[number % len(slas)]
        live.tell(reserve(attempt, lifetime_s=10.0 + number, sla=sla), float(number))
        live.tell(confirm(attempt), float(number))
        live.tell(cancel(attempt), float(number))
        live.tell(ask(sla=0.5), float(number))  # curiosity teaches nothing
        live.tell(reserve(f"plain-{number}.1"), float(number))  # nothing is promised
        live.tell(cancel(f"plain-{number}.1"), float(number))
    assert set(live.owner.cloud.request_logs) == set(slas)
    known, threshold = snapshot(live.owner), live.owner.cloud.request_logs[slas[0]].threshold
    assert (threshold.price_per_s > 0) is (len(slas) == 1), (
        "too few of each are no reason to leave strictness"
    )
    live.crash()
    packed = snapshots.pack(snapshots.take(live.owner.state, "1-1", "0" * 64))
    restored = Owner.recover(live.spec, 9, [], snapshots.restored(live.spec, snapshots.unpack(packed)))
    for key in ("request_logs", "considered"):
        assert snapshot(restored)[key] == known[key]
    for owner in (restored, live.owner):
        owner.cloud.table = harmless_table((4, 4))
        for number in range(BETWEEN_UPDATES + 1):
            owner.handle(reserve(f"s{number}.1", sla=slas[0]), 1000.0, NOW)
    assert snapshot(restored)["request_logs"] == snapshot(live.owner)["request_logs"] != known["request_logs"]
