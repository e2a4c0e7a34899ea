"""Tables that others publish, made here by the schemas that they state (case 26); nothing is copied."""

import gzip
import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats import read
from cloudsim.traces.formats.google_events import MACHINE_CORES
from cloudsim.traces.report import ImportReport
from cloudsim.traces.trace import Trace

#: Event types, as clusterdata_trace_format_v3.proto numbers them.
SUBMIT, QUEUE, ENABLE, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_RUNNING = (*range(9), 10)
AFTER = 2**63 - 1


def rows(trace: Trace) -> list[tuple[str, float, float, int]]:
    columns = (trace.instance, trace.start_s, trace.stop_s, trace.cores)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def read_text(tmp_path: Path, text: str, **options: Any) -> tuple[Trace, ImportReport]:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return read(path, **options)


def event(time: float, kind: int, index: int = 0, **more: Any) -> dict[str, Any]:
    """Make a line of instance_events; int64 is text in the JSON that BigQuery exports. time: seconds."""
    micros = time if time in (0, AFTER) else round((600 + time) * 1e6)
    about = {
        "time": micros,
        "type": kind,
        "collection_id": 330587238433,
        "instance_index": index,
        "priority": 103,
    }
    request = {"resource_request": {"cpus": 2 / MACHINE_CORES, "memory": 0.002}}
    return {name: str(value) for name, value in about.items()} | request | more


def lines(events: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in events)


def test_events_of_google(tmp_path: Path) -> None:
    """Scheduled twice, it ran twice; what ends after the trace, or is lost, was seen until then."""
    events = [
        event(0, SUBMIT), event(0, SCHEDULE),  # before the trace
        event(50, EVICT), event(80, SCHEDULE), event(90, UPDATE_RUNNING), event(100, FINISH),
        event(10, SUBMIT, 1), event(10, SCHEDULE, 1), event(AFTER, KILL, 1),
        event(20, SCHEDULE, 2, resource_request={"cpus": 0.001}), event(70, LOST, 2),
        event(20, SUBMIT, 3), event(30, KILL, 3),
        event(20, SCHEDULE, 4, alloc_collection_id="5"),
        event(30, SCHEDULE, 5, resource_request=None),
        event(40, SCHEDULE, 6), event(60, SCHEDULE, 6),
    ]  # fmt: skip
    trace, report = read_text(tmp_path, lines(events))
    name = "330587238433-"
    assert rows(trace) == [
        (f"{name}0", 0, 50, 2), (f"{name}1", 10, 100, 2), (f"{name}2", 20, 70, 1), (f"{name}6", 40, 60, 2),
        (f"{name}6", 60, 100, 2), (f"{name}0", 80, 100, 2),
    ]  # fmt: skip
    assert trace.left_truncated.tolist() == [True, False, False, False, False, False]
    assert trace.right_censored.tolist() == [False, True, True, True, True, False]
    assert dict(report.skipped) == {
        "a task inside an alloc, which holds its cores": 1,
        "it asks for no cores": 1,
        "it was never scheduled": 1,
    }
    assert (report.records, report.out_of_order) == (9, 4)
    assert any("cores of one with 64" in sentence for sentence in report.warnings)


def test_events_of_google_as_a_table(tmp_path: Path) -> None:
    """BigQuery writes CSV and Parquet without nested columns and with them."""
    generator = np.random.default_rng(1)
    starts = np.sort(generator.integers(1, 10_000, 200)).tolist()
    ends = [start + int(more) for start, more in zip(starts, generator.integers(1, 5000, 200), strict=True)]
    events = [event(at, SCHEDULE, n) for n, at in enumerate(starts)]
    events += [event(at, FINISH, n) for n, at in enumerate(ends)]
    as_json, _ = read_text(tmp_path, lines(events))
    assert rows(as_json) == [
        (f"330587238433-{n}", a, b, 2) for n, (a, b) in enumerate(zip(starts, ends, strict=True))
    ]
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = ("time", "type", "collection_id", "instance_index", "resource_request")
    table = pa.Table.from_pylist(
        [{name: each[name] for name in columns} | {"constraint": []} for each in events]
    )
    parquet.write_table(table, tmp_path / "log.parquet")
    trace, report = read(tmp_path / "log.parquet")
    assert (report.format, rows(trace)) == ("google_events", rows(as_json))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"time": "now"}, "time 'now' is not a whole number"),
        ({"type": None}, "type None is not a whole number"),
        ({"resource_request": {"cpus": -1}}, "cpus '-1' is not from 0 to"),
        ({"resource_request": 5}, "resource_request is no object"),
    ],
)
def test_a_damaged_event_names_its_line_and_field(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    events = [event(1, SCHEDULE), event(2, FINISH), event(3, SCHEDULE, 1) | more]
    _, report = read_text(tmp_path, lines(events))
    assert [(bad.line, bad.reason.startswith(why)) for bad in report.quarantined] == [(3, True)]
    with pytest.raises(TraceError, match="line 3"):
        read_text(tmp_path, lines(events), max_error_rate=0)


def test_a_table_of_events_needs_its_cpus(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"lacks resource_request\.cpus"):
        read_text(tmp_path, "time,type,collection_id,instance_index\n600000000,3,1,0\n")


def test_tasks_of_alibaba(tmp_path: Path) -> None:
    """A task is as wide as its instances together; 0 stands for a time outside the 8 days."""
    text = "\n".join(
        [
            "M1,7,j_1,1,Terminated,87076,87098,100.0,0.3",
            "task_Nzg3,1,j_2,7,Running,87000,0,50.0,0.3",
            "R2_1,2,j_1,1,Terminated,0,500,150,0.3",
            "M3,1,j_3,1,Waiting,0,0,100.0,0.3",
            "M4,1,j_3,1,Failed,87000,87001,,",
        ]
    )
    trace, report = read_text(tmp_path, text)
    assert rows(trace) == [
        ("j_1/R2_1", 0, 500, 3), ("j_2/task_Nzg3", 87_000, 87_098, 1), ("j_1/M1", 87_076, 87_098, 7),
    ]  # fmt: skip
    assert trace.parallel.tolist() == [True, False, True]
    assert trace.left_truncated.tolist() == [True, False, False]
    assert trace.right_censored.tolist() == [False, True, False]
    assert dict(report.skipped) == {
        "it began before or after the 8 days, or never": 1,
        "its plan_cpu is not known": 1,
    }
    assert report.format == "alibaba_batch"


def test_instances_of_alibaba(tmp_path: Path) -> None:
    generator, n = np.random.default_rng(2), 300
    starts = np.sort(generator.integers(1, 691_200, n)).tolist()
    lasted, most = generator.integers(1, 3000, n).tolist(), generator.integers(1, 800, n).tolist()
    text = "".join(
        f"ins_{at},M{at % 3},j_{at // 3},1,Terminated,{start},{start + lasted[at]},m,1,1,9,{most[at]},.1,.2\n"
        for at, start in enumerate(starts)
    )
    trace, report = read_text(tmp_path, text)
    assert (report.records, len(trace), report.format) == (n, n, "alibaba_batch")
    assert trace.lifetime_s.tolist() == lasted
    assert trace.cores.tolist() == [-(-cpu // 100) for cpu in most]
    assert not trace.parallel.any()


def test_pods_of_alibaba(tmp_path: Path) -> None:
    """The published list has 8,152 pods; of those that never were scheduled the time is empty."""
    generator, n = np.random.default_rng(3), 8152
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    header += "creation_time,deletion_time,scheduled_time"
    times = np.sort(generator.integers(0, 10**7, n)).tolist()
    lines = [
        f"openb-pod-{at:04},{milli},1024,1,460,V100M16|V100M32,BE,Pending,{time},{time + 9},"
        + (str(time + 2) if at % 9 else "")
        for at, (time, milli) in enumerate(
            zip(times, generator.integers(1, 128_000, n).tolist(), strict=True)
        )
    ]
    trace, report = read_text(tmp_path, "\n".join([header, *lines, ""]))
    assert (report.records, len(trace)) == (n, n - len(range(0, n, 9)))
    assert (trace.lifetime_s == 7).all()
    assert trace.start_s[0] == times[1] + 2
    assert trace.right_censored.tolist() == (trace.stop_s == times[-1] + 9).tolist()
    assert any("hold parts of cores, rounded up" in sentence for sentence in report.warnings)


def test_jobs_of_a_grid(tmp_path: Path) -> None:
    """The first fields are those of SWF; there are 29, or 30, and the others hold words as well."""
    numbers = count()

    def job(submit: int, wait: int, run: int, cores: int, fields: int) -> str:
        first = (
            next(numbers),
            submit,
            wait,
            run,
            cores,
            -1,
            -1,
            cores,
            259_200,
            -1,
            int(run > 0),
            "user0",
            "group0",
        )
        return "\t".join([*map(str, first), *["-1"] * (fields - len(first))])

    text = "\n".join(
        [
            "# JobID SubmitTime WaitTime RunTime NProcs AverageCPUTimeUsed UsedMemory ReqNProcs ReqTime",
            job(1_136_070_024, 203, 138_467, 1, 29),
            job(1_136_071_207, 12, 11, 4, 30),
            job(1_136_071_208, -1, -1, 1, 29),
            job(1_136_071_209, 1, 1, 1, 28),
        ]
    )
    trace, report = read_text(tmp_path, text)
    assert rows(trace) == [("0", 0, 138_467, 1), ("1", 992, 1003, 4)]
    assert trace.parallel.tolist() == [False, True]
    assert trace.requested_s.tolist() == [259_200, 259_200]
    assert (report.format, report.begins_at_s, report.skipped[0][1]) == ("gwf", 1_136_070_227, 1)
    assert [(bad.line, bad.reason) for bad in report.quarantined] == [
        (5, "a job has 29 or 30 fields, this line 28")
    ]


def test_pods_of_kubernetes(tmp_path: Path) -> None:
    """A pod holds what its containers request, or the first one that needs more before them."""

    def pod(
        name: str, *cpus: object, phase: str = "Running", first: str | None = None, end: str = ""
    ) -> object:
        def asks(cpu: object) -> object:
            return {"resources": {"requests": {"cpu": cpu}} if cpu else {}}

        ended = [{"state": {"terminated": {"finishedAt": f"2026-03-01T{end}Z"}}}] if end else []
        return {
            "metadata": {"name": name, "namespace": "lab"},
            "spec": {"containers": [*map(asks, cpus)]} | ({"initContainers": [asks(first)]} if first else {}),
            "status": {"phase": phase, "containerStatuses": ended}
            | ({} if phase == "Pending" else {"startTime": "2026-03-01T10:00:00Z"}),
        }

    pods = [
        pod("a", "500m", 2),
        pod("b", "500m", "500m", phase="Succeeded", first="3", end="11:00:00"),
        pod("c", 1, phase="Pending"),
        pod("d", None),
        pod("e", 1, phase="Failed"),
        pod("f", "many"),
    ]
    trace, report = read_text(tmp_path, json.dumps({"kind": "List", "items": pods}), max_error_rate=0.5)
    assert rows(trace) == [("lab/a", 0, 3600, 3), ("lab/b", 0, 3600, 3)]
    assert trace.right_censored.tolist() == [True, False]
    assert dict(report.skipped) == {
        "it asks for no cores": 1,
        "it ended at a time that the cluster does not say": 1,
        "it has no start: it never ran": 1,
    }
    assert [(bad.line, bad.reason) for bad in report.quarantined] == [
        (6, "requests.cpu 'many' is not a finite number")
    ]


def test_any_parquet_is_read_by_its_columns(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "jobs.parquet"
    parquet.write_table(
        pa.table({"begin": [5.0, 9.0], "finish": [7.0, None], "cpus": [1, 2], "tags": [[1], []]}), path
    )
    trace, report = read(path, columns={"start": "begin", "end": "finish", "cores": "cpus"})
    assert rows(trace) == [("1", 5, 7, 1), ("2", 9, 9, 2)]
    assert report.right_censored == 1
