from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.history.history import History
from cloudsim.model.instances import Instance
from cloudsim.model.requests import Kind


def instance(
    number: int, start_s: float, end_s: float, kind: Kind = Kind.ON_DEMAND, cores: int = 1
) -> Instance:
    sla = 0.1 if kind is Kind.SPOT else None
    return Instance(f"i{number}", kind, cores, 0, start_s, end_s, number, sla=sla)


def test_spot_without_a_promise_leaves_no_trace() -> None:
    history = History()
    unpromised = Instance("n", Kind.SPOT, 1, 0, 1.0, 5.0, 0, sla=1.0)
    history.record_start(unpromised)
    history.record_start(instance(1, 2, 4))
    history.record_changed_stop(unpromised, 3.0)
    assert history.cut(9).instance.tolist() == [1, 1]


def test_order_within_an_instant() -> None:
    history = History()
    history.record_start(instance(0, 0, 10))
    history.record_start(instance(1, 10, 20))
    history.record_start(instance(2, 10, 10, Kind.SPOT))  # ends after all starts of its instant
    history.record_start(instance(3, 10, 30, Kind.SPOT))
    log = history.cut(11)
    assert log.kind.tolist() == [START_ON_DEMAND, STOP, START_ON_DEMAND, START_SPOT, START_SPOT, STOP]
    assert log.instance.tolist() == [0, 0, 1, 2, 3, 2]


def test_requested_ends_of_spot_are_known_from_the_start_and_those_of_on_demand_are_not() -> None:
    history = History()
    history.record_start(instance(0, 1, 9, Kind.SPOT))
    history.record_start(instance(1, 2, 8))
    assert history.cut(5).end_s.tolist() == [9, math.inf]
    assert history.cut(10).end_s.tolist() == [8, 9]


def test_a_cut_holds_what_is_strictly_before_its_boundary() -> None:
    history = History()
    history.record_start(instance(0, 1, 5))
    history.record_start(instance(1, 5, 9))
    assert history.cut(5).instance.tolist() == [0]
    assert history.cut(9).instance.tolist() == [0, 1]
    assert history.cut(10).instance.tolist() == [1]
    assert len(history.cut(math.inf)) == 0


def test_a_stop_by_hand_moves_the_requested_end() -> None:
    history = History()
    early, open_ended = instance(0, 1, 100), instance(1, 2, math.inf)
    history.record_start(early)
    history.record_start(open_ended)
    history.record_changed_stop(early, 4)
    history.record_changed_stop(open_ended, 6)
    log = history.cut(1000)
    stops = log.kind == STOP
    assert log.time_s[stops].tolist() == [4, 6]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=30), st.data())
def test_cuts_put_together_are_the_whole(rows: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    rows.sort(key=lambda row: (row[0], row[2]))
    whole, parts = History(), History()
    for number, (start, lasts, is_spot) in enumerate(rows):
        kind = Kind.SPOT if is_spot else Kind.ON_DEMAND
        for history in (whole, parts):
            history.record_start(instance(number, start, start + lasts, kind))
    boundaries = sorted(data.draw(st.lists(st.integers(0, 45), max_size=5)))
    pieces = EventLog.concatenate([parts.cut(boundary) for boundary in [*boundaries, 50]])
    expected = whole.cut(50)
    assert pieces.to_bytes() == expected.to_bytes()
    assert len(expected) == 2 * len(rows)


@given(st.integers(0, 5))
def test_event_logs_travel_as_bytes(count: int) -> None:
    history = History()
    for number in range(count):
        history.record_start(instance(number, number, number + 0.5, cores=number + 1))
    log = history.cut(100)
    assert EventLog.from_bytes(log.to_bytes()).to_bytes() == log.to_bytes()
    with pytest.raises(ValueError, match="33 bytes"):
        EventLog.from_bytes(log.to_bytes() + b"x")
