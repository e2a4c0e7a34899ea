from __future__ import annotations

import pytest

from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.report import Tally, realised_rate
from cloudsim.model.binomial import clopper_pearson
from cloudsim.model.changes import End
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.traces.trace import Trace


def trace(*rows: tuple[float, float, int]) -> Trace:
    start_s, stop_s, cores = zip(*rows, strict=True)
    return Trace.checked("t", [f"i{n}" for n in range(len(rows))], start_s, stop_s, cores)


def tally(overflow: bool = False) -> Tally:
    load = trace((0, 100, 1))
    cloud = FederatedCloud(CloudSpec("c", (4, 4)), "2x4", load, overflow)
    return Tally(Federation((cloud,), (Workload("o", load, 0, None, ("c",)),)))


def asked(count: Tally, name: str, cores: int, lifetime_s: float, sla: float | None) -> None:
    count.asked(Request(name, Kind.SPOT, cores, lifetime_s, sla, "o"))


def test_each_promise_is_counted_by_itself() -> None:
    count = tally()
    for number, sla in enumerate((None, 0.1, 0.1, 0.01)):
        asked(count, f"r{number}", 1, 3600, sla)
        count.admitted(f"r{number}", "c")
    count.ended("r0", "c", End.EVICTED, 900)
    count.ended("r1", "c", End.EVICTED, 1800)
    count.ended("r2", "c", End.COMPLETED, 3600)
    count.ended("r3", "c", End.COMPLETED, 3600)
    report = count.as_dict()
    for rows in (
        report["origins"]["o"]["by_sla"],
        report["clouds"]["c"]["by_sla"],
        report["total"]["by_sla"],
    ):
        assert [(row["sla"], row["admitted"], row["evicted"]) for row in rows] == [
            (0.01, 1, 0), (0.1, 2, 1), (None, 1, 1),
        ]  # fmt: skip
        assert rows[1]["evicted_share"] == 0.5
        assert (rows[1]["evicted_low"], rows[1]["evicted_high"]) == pytest.approx(
            clopper_pearson(1, 2), abs=1e-6
        )
    assert report["origins"]["o"]["spot_core_hours"] == {"requested": 4, "completed": 2, "lost": 0.75}
    assert (report["total"]["admitted"], report["total"]["evicted_share"]) == (4, 0.5)


def test_work_is_counted_by_size() -> None:
    count = tally()
    asked(count, "small", 1, 3600, None)
    asked(count, "large", 4, 3600, None)
    asked(count, "huge", 8, 3600, None)
    count.refused("huge", "c", RefusalReason.TOO_LARGE)
    for name in ("small", "large"):
        count.admitted(name, "c")
    count.ended("large", "c", End.EVICTED, 900)
    count.ended("small", "c", End.CANCELLED, 1800)  # its user had enough: nobody took anything from it
    rows = count.as_dict()["origins"]["o"]["by_size"]
    counts = [[row[key] for key in ("cores", "requests", "admitted", "completed", "evicted")] for row in rows]
    assert counts == [[1, 1, 1, 1, 0], [4, 1, 1, 0, 1], [8, 1, 0, 0, 0]]
    assert [row["spot_core_hours"] for row in rows] == [
        {"requested": 1, "completed": 0.5, "lost": 0},
        {"requested": 4, "completed": 0, "lost": 1},
        {"requested": 8, "completed": 0, "lost": 0},
    ]
    assert rows[2]["evicted_share"] is None


def test_utilisation_ends_with_the_federation() -> None:
    count = tally()  # 8 cores for 100 s
    count.used("c", 4, 50, 150)
    count.used("c", 2, 0, 100)
    count.used("c", 8, 100, 400)
    assert count.as_dict()["clouds"]["c"]["utilisation"] == 0.5


def test_overflow_is_kept_apart() -> None:
    assert "overflow" not in tally().as_dict()
    count = tally(overflow=True)
    count.asked(Request("overflow/c/x/1", Kind.SPOT, 1, 60, None, "c"), overflow=True)
    count.overflowed("c", "offered")
    report = count.as_dict()
    assert report["total"]["requests"] == 0
    assert report["overflow"]["c"]["requests"] == 1
    assert report["overflow"]["c"]["own_requests"] == {"offered": 1, "completed": 0}


def test_nothing_admitted_is_no_rate() -> None:
    assert realised_rate(0, 0) == {"evicted_share": None, "evicted_low": 0.0, "evicted_high": 1.0}
