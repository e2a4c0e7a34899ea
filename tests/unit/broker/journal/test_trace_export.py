"""A cloud's own load, recorded from its journal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from broker.journal.trace_export import OwnLoad
from tests.unit.workers.owners import Live, confirm, load, reserve, spec, start, stop


def recorded(live: Live) -> OwnLoad:
    own = OwnLoad()
    for event in live.events:
        own.note(event)
    return own


def test_what_a_cloud_played_is_recorded_again() -> None:
    played = load((1, 50, 2), (3, 30, 1), (10, 10, 1), (20, 90, 2), (130, 140, 6))
    told = spec((4, 4), own_load=played)
    live = Live(replace(told, cloud=replace(told.cloud, headroom=(2,))))
    live.tell(reserve("s.1", 3, 40.0))
    live.tell(confirm("s.1"))
    live.advance(200)
    trace = recorded(live).trace("again")
    for column in ("start_s", "stop_s", "cores"):
        np.testing.assert_array_equal(getattr(trace, column), getattr(played, column))
    assert not trace.right_censored.any()
    assert trace.parallel.tolist() == [False, False, False, False, True]


def test_who_still_runs_is_censored_and_who_was_turned_away_counted() -> None:
    live = Live(spec((4,)))
    live.tell(start("A/direct-i-1", 3), 5.0)
    live.tell(start("od-2", 2), 6.0)
    live.tell(start("A/freed-1", 1), 7.0)
    live.tell(start("od-3", 1, 100.0), 8.0)
    live.tell(stop("od-3"), 9.0)
    own = recorded(live)
    trace = own.trace("t")
    assert (own.running, own.turned_away) == (1, 1)
    assert trace.instance.tolist() == ["A/direct-i-1", "od-3"]
    assert trace.right_censored.tolist() == [True, False]
    assert trace.stop_s.tolist() == [9.0, 9.0]
