from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cloudsim.history.event_log import START_ON_DEMAND, START_SPOT, STOP, EventLog
from cloudsim.model.errors import InputError
from cloudsim.prediction import history_chunks
from cloudsim.prediction.history_chunks import HistoryCutter
from tests.unit.cloudsim.prediction.clouds import DAY_S, part, random_log, random_nodes


def log(*events: tuple[float, int, int, int]) -> EventLog:
    """time, kind, instance, cores."""
    columns = list(zip(*events, strict=True))
    return EventLog(
        np.array(columns[0], np.float64),
        np.array(columns[1], np.int8),
        np.array(columns[2], np.int64),
        np.array(columns[3], np.int64),
    )


RUNNING = log((1.0, START_ON_DEMAND, 0, 2), (2.0, START_SPOT, 1, 1), (3.0, STOP, 0, 2))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (log((6.0, START_SPOT, 2, 1), (5.0, START_SPOT, 3, 1)), "event 1 at 5.0 s comes after one at 6.0 s"),
        (log((4.0, START_SPOT, 2, 1)), "not within"),
        (log((10.0, START_SPOT, 2, 1)), "not within"),
        (log((float("nan"), START_SPOT, 2, 1)), "finite"),
        (log((6.0, 4, 2, 1)), "STOP, START_ON_DEMAND, START_SPOT or RENEWAL"),
        (log((6.0, START_SPOT, 2, 0)), "cores"),
        (log((6.0, START_SPOT, 2, 2**31)), "cores"),
        (log((6.0, START_SPOT, 1, 1)), "instance 1 starts after instance 1"),
        (log((6.0, START_SPOT, 3, 1), (7.0, START_SPOT, 2, 1)), "instance 2 starts after instance 3"),
        (log((6.0, STOP, 7, 1)), "instance 7 stops but does not run"),
        (log((6.0, STOP, 0, 2)), "instance 0 stops but does not run"),
        (log((6.0, STOP, 1, 1), (6.0, STOP, 1, 1)), "instance 1 stops twice"),
        (log((6.0, STOP, 1, 4)), "other cores"),
        (log((6.0, STOP, 2, 1), (7.0, START_SPOT, 2, 1)), "instance 2 stops but does not run"),
    ],
)
def test_a_log_out_of_order_is_refused_and_leaves_no_trace(events: EventLog, message: str):
    cutter = HistoryCutter()
    cutter.cut(RUNNING, 0.0, 5.0)
    with pytest.raises(InputError, match=message):
        cutter.cut(events, 5.0, 10.0)
    good = log((6.0, STOP, 1, 1), (7.0, START_SPOT, 2, 1), (7.0, STOP, 2, 1))
    assert sum(len(chunk.events.kind) for chunk in cutter.cut(good, 5.0, 10.0)) == 3


@pytest.mark.parametrize("column", ["time_s", "kind", "instance", "cores"])
def test_columns_of_different_lengths_are_refused(column: str):
    torn = replace(RUNNING, **{column: getattr(RUNNING, column)[:2]})
    with pytest.raises(InputError, match="same length"):
        HistoryCutter().cut(torn, 0.0, 5.0)


@pytest.mark.parametrize("size", [1, 3, 256])
def test_slots_and_places_in_line_mean_one_instance_at_a_time(size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history_chunks, "EVENTS_A_CHUNK", size)
    for seed in range(40):
        generator = np.random.default_rng(seed)
        whole = random_log(generator, random_nodes(generator), 50)
        cutter = HistoryCutter()
        holder: dict[int, int] = {}
        line: list[int] = []  # open spot instances, oldest first
        most_open = 0
        bounds = [0.0, *np.sort(generator.uniform(0, DAY_S, 3)).tolist(), DAY_S]
        for from_s, until_s in pairwise(bounds):
            events = part(whole, from_s, until_s)
            for chunk in cutter.cut(events, from_s, until_s):
                released = []
                open_line = list(line)
                assert len(chunk.spots.slot) >= len(open_line)
                for index, slot in enumerate(chunk.events.slot.tolist()):
                    row = chunk.begin + index
                    number, kind = int(events.instance[row]), int(events.kind[row])
                    assert slot < chunk.slots
                    assert chunk.events.cores[index] == events.cores[row]
                    assert chunk.events.spots_before[index] == len(open_line), f"seed {seed}"
                    if kind == STOP:
                        assert holder[slot] == number
                        released.append(slot)
                        line = [one for one in line if one != number]
                    else:
                        assert slot not in holder, f"seed {seed}: slot {slot} means two instances"
                        holder[slot] = number
                        if kind == START_SPOT:
                            assert chunk.spots.slot[len(open_line)] == slot
                            open_line.append(number)
                            line.append(number)
                assert np.all(np.diff(chunk.spots.ordinal) > 0)
                most_open = max(most_open, len(holder))
                for slot in released:
                    del holder[slot]
        assert cutter.slots == most_open  # no slot number is wasted
        assert cutter.spot_starts == np.count_nonzero(whole.kind == START_SPOT)


def test_an_empty_log_is_one_empty_chunk():
    (chunk,) = HistoryCutter().cut(EventLog.empty(), 0.0, 5.0)
    assert len(chunk.events.kind) == 0
    assert chunk.slots == 0
