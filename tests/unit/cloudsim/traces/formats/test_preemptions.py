"""Observed lifetimes of preemptible VMs."""

from datetime import UTC, datetime

import pytest

from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.preemptions import parse
from cloudsim.traces.formats.source import Source

HEADER = "vm,zone,machine_type,start_time,time_in_sec,outcome"
GOOD = "a,z,n1-highcpu-16,2019-03-01T23:00:00-08:00,3600.5,preempted"


def parsed(*lines: str) -> Parsed:
    return parse(Source("x", "x", [HEADER, *lines]))


def test_times_count_from_midnight_utc_before_the_first_start() -> None:
    found = parsed(GOOD, "b,z,n1-standard-1,2019-03-01T22:00:00-08:00,60,stopped")
    assert found.begins_at_s == datetime(2019, 3, 2, tzinfo=UTC).timestamp()
    assert found.trace.instance.tolist() == ["b", "a"]
    assert found.trace.start_s.tolist() == [6 * 3600, 7 * 3600]
    assert found.trace.lifetime_s.tolist() == [60, 3600.5]
    assert found.trace.cores.tolist() == [1, 16]
    assert found.trace.right_censored.tolist() == [True, False]
    assert (found.out_of_order, found.continuous) == (1, False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (GOOD.replace("a,z", ",z"), "vm id"),
        (GOOD.replace("-08:00", ""), "start_time"),
        (GOOD.replace("2019", "soon"), "start_time"),
        (GOOD.replace("3600.5", "-1"), "time_in_sec"),
        (GOOD.replace("3600.5", "inf"), "time_in_sec"),
        (GOOD.replace("-16", ""), "machine_type"),
        (GOOD.replace("-16", "-0"), "machine_type"),
        (GOOD.replace("preempted", "lost"), "outcome"),
        (GOOD + ",more", "comma-separated"),
    ],
)
def test_a_bad_row_is_quarantined_alone(line: str, reason: str) -> None:
    found = parsed(GOOD, line, GOOD)
    (bad,) = found.quarantined
    assert (bad.line, bad.text) == (3, line)
    assert reason in bad.reason
    assert (len(found.trace), found.records, found.lost) == (2, 3, 1)
