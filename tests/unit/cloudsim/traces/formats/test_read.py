"""What all formats have in common: recognition by content, the error rate, the report, the errors."""

import gzip
import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.model.errors import SpecError, TraceError
from cloudsim.traces.formats import FORMATS, HEADERS, read
from cloudsim.traces.formats.source import load_source

SWF_JOB = "1 0 5 100 4 -1 -1 4 200 -1 1 1 1 -1 -1 -1 -1 -1"
SAMPLES = {
    "eucalyptus": "START 5 i-1 NODE0 4\nSTOP 105 i-1\n",
    "swf": f"; MaxProcs: 64\n{SWF_JOB}\n",
    "azure": "vm,start_s,duration_s,cores,memory_gb,censored\n1,5,100,4,7,0\n",
    "preemptions": "vm,machine_type,start_time,time_in_sec,outcome\n"
    "1,n1-highcpu-4,2019-03-01T00:00:05Z,100,stopped\n",
    "table": "instance,start_s,stop_s,cores\n1,5,105,4\n",
    "gwf": f"# JobID SubmitTime WaitTime RunTime NProcs\n{SWF_JOB} {'-1 ' * 11}\n",
    "google_events": "time,type,collection_id,instance_index,resource_request.cpus\n"
    "605000000,3,7,0,0.0625\n705000000,6,7,0,0.0625\n",
    "alibaba_batch": "M1,1,j_1,1,Terminated,5,105,400,0.3\n",
    "alibaba_pods": "name,cpu_milli,num_gpu,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p,4000,1,Succeeded,4,105,5\n",
    "kubernetes_pods": '{"items": [{"metadata": {"name": "p"}, "spec": {"containers": [{"resources":\n'
    '{"requests": {"cpu": "4000m"}}}]}, "status": {"phase": "Failed", "startTime": "2026-03-01T00:00:05Z",\n'
    '"containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-03-01T00:01:45Z"}}}]}}]}\n',
    "azure_vmtable": "vm,sub,dep,5,105,99.4,3.4,10.2,Interactive,4,7\n",
    "sacct": "JobID|AllocCPUS|Start|End|State\n1|4|2026-03-01T00:00:05|2026-03-01T00:01:45|COMPLETED\n",
    "htcondor": '[{"ClusterId": 1, "ProcId": 0, "RequestCpus": 4, "JobStartDate": 1767225605,\n'
    '"CompletionDate": 1767225705}]\n',
    "openstack_servers": '"ID","Launched At","Terminated At","Flavor: VCPUs"\n'
    '"1","2026-03-01T00:00:05.000000","2026-03-01T00:01:45.000000","4"\n',
    "openstack_usage": '{"tenant_usage": {"server_usages": [{"instance_id": "1", "vcpus": 4,\n'
    '"started_at": "2026-03-01T00:00:05.000000", "ended_at": "2026-03-01T00:01:45.000000"}]}}\n',
    "ec2_instances": '{"Reservations": [{"Instances": [{"InstanceId": "i-1", "LaunchTime":\n'
    '"2026-03-01T00:00:05+00:00", "State": {"Name": "terminated"}, "CpuOptions": {"CoreCount": 2,\n'
    '"ThreadsPerCore": 2}, "StateTransitionReason": "User initiated (2026-03-01 00:01:45 GMT)"}]}]}\n',
}
#: Formats whose times are of a wall clock: their traces begin with the first start.
ON_A_WALL_CLOCK = (
    "sacct",
    "htcondor",
    "openstack_servers",
    "openstack_usage",
    "ec2_instances",
    "kubernetes_pods",
)
#: Documents of the JSON formats without an instance.
EMPTY = {
    "htcondor": "[]",
    "openstack_usage": '{"tenant_usages": []}',
    "ec2_instances": '{"Reservations": []}',
    "kubernetes_pods": '{"items": []}',
    "eucalyptus": "# nothing",
    "swf": ";",
}


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_every_format_has_a_sample() -> None:
    assert set(SAMPLES) == set(FORMATS)


@pytest.mark.parametrize("kind", SAMPLES)
def test_content_decides_not_the_name(tmp_path: Path, kind: str) -> None:
    names = ("x", "x.gz", "x.csv", "x.swf", "x.txt", "x.png")
    for given_name, packed, ends in product(names, (False, True), ("\n", "\r\n", "\r")):
        data = SAMPLES[kind].replace("\n", ends).encode()
        path = write(tmp_path / given_name, gzip.compress(data, mtime=0) if packed else data)
        trace, report = read(path)
        assert report.format == kind, (given_name, packed, ends)
        first_s = 0 if kind in ON_A_WALL_CLOCK else 5
        assert (trace.start_s[0], trace.stop_s[0], trace.cores[0]) == (first_s, first_s + 100, 4)
        assert (report.rows, report.records, report.quarantined) == (1, 1, ())
        assert read(str(path), format=kind)[0].equals(trace)


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_byte_order_mark_and_latin_1_are_read(tmp_path: Path, kind: str) -> None:
    assert read(write(tmp_path / "bom", b"\xef\xbb\xbf" + SAMPLES[kind].encode()))[1].format == kind
    if kind == "swf":
        assert len(read(write(tmp_path / "latin", b"; Universit\xe4t\n" + SAMPLES[kind].encode()))[0]) == 1


def test_the_trace_is_named_after_the_file(tmp_path: Path) -> None:
    for file, name in [
        ("KTH-1996-2.1-cln.swf.gz", "KTH-1996-2.1-cln"),
        ("DS2-trace.txt", "DS2-trace"),
        ("a.b", "a.b"),
    ]:
        assert read(write(tmp_path / file, SAMPLES["table"]))[0].name == name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n\n\t",
        b"\0\1\2\3" * 50,
        bytes(range(1, 256)) * 4,
        b"\x89PNG\r\n\x1a\n" + bytes(40),
        b"\x1f\x8b" + b"nonsense",
        gzip.compress(SAMPLES["table"].encode(), mtime=0)[:-12],
        gzip.compress(b"", mtime=0),
        b"hello\nworld\n",
        b"vm,cores\n1,2\n",
        b"instance,start_s,stop_s\na,1,2\n",
        b"; only a header\n",
        b"1 2 3 4 5\n",
        b'{"vm": 1}',
        SAMPLES["table"].encode("utf-16"),
    ],
)
def test_what_is_no_trace_is_refused_and_told_what_is(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "x", content)
    with pytest.raises(TraceError, match="accepted are") as error:
        read(path)
    assert error.value.file == str(path)


@pytest.mark.parametrize("kind", [*HEADERS, *EMPTY])
def test_a_trace_without_instances_is_refused(tmp_path: Path, kind: str) -> None:
    header = SAMPLES[kind].split("\n")[0] if kind in HEADERS else EMPTY[kind]
    with pytest.raises(TraceError, match="holds no instance"):
        read(write(tmp_path / "x", header + "\n\n"), format=kind)


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_paths_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match="accepted are"):
        read(f"{tmp_path}/{name}")


@given(st.binary(max_size=300))
def test_garbage_is_a_trace_error_or_a_trace(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = write(tmp_path_factory.mktemp("garbage") / "x", data)
    for kind in [None, *FORMATS]:
        try:
            trace, report = read(path, format=kind, max_error_rate=1.0)
        except TraceError:
            continue
        assert len(trace) == report.rows > 0


@pytest.mark.parametrize("kind", [kind for kind, form in FORMATS.items() if not form.marker])
@given(text=st.text(alphabet='START OP0123456789.,-"eNaN_;#\n\r\tx', max_size=200))
def test_damaged_text_is_a_trace_error_or_a_trace(
    tmp_path_factory: pytest.TempPathFactory, kind: str, text: str
) -> None:
    path = write(tmp_path_factory.mktemp("damaged") / "x", SAMPLES[kind] + text)
    trace, report = read(path, format=kind, max_error_rate=1.0)
    skipped = sum(count for _, count in report.skipped)
    assert len(trace) == report.rows == report.records - report.quarantined_records - skipped
    assert all(1 <= q.line <= len(load_source(path, accepted="").lines) for q in report.quarantined)


@pytest.mark.parametrize(
    ("lines", "bad", "rate", "accepted"),
    [
        (2000, 20, 0.01, True),
        (2000, 21, 0.01, False),
        (2000, 40, 0.02, True),
        (2000, 1, 0, False),
        (8, 4, 0.01, True),  # of a short file some lines may be bad
        (8, 5, 0.01, False),
        (30, 11, 0.01, False),
        (8, 1, 0, False),
    ],
)
def test_the_error_rate_is_a_limit(tmp_path: Path, lines: int, bad: int, rate: float, accepted: bool) -> None:
    rows = [f"i{i},{i},{i + 9},1" for i in range(lines - bad)] + ["broken"] * bad
    path = write(tmp_path / "x", "instance,start_s,stop_s,cores\n" + "\n".join(rows))
    if accepted:
        trace, report = read(path, max_error_rate=rate)
        assert len(trace) == lines - bad
        assert len(report.quarantined) == bad
    else:
        with pytest.raises(TraceError, match=f"{bad} of {lines} lines are bad") as error:
            read(path, max_error_rate=rate)
        assert error.value.line == lines + 2 - bad


def test_the_summary_names_the_first_few(tmp_path: Path) -> None:
    path = write(tmp_path / "x", SAMPLES["eucalyptus"] + "BANG 1 2\n" * 9)
    with pytest.raises(TraceError) as error:
        read(path)
    text = str(error.value)
    assert text.startswith(f"{path}:3: 9 of 11 lines are bad")
    assert all(f"line {n}: unknown keyword 'BANG'" in text for n in range(3, 8))
    assert "line 8" not in text
    assert "and 4 more" in text


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("format", {"format": "parquet"}),
        ("max_error_rate", {"max_error_rate": 1.5}),
        ("max_error_rate", {"max_error_rate": float("nan")}),
        ("capacity_cores", {"capacity_cores": 0}),
    ],
)
def test_bad_arguments_are_named(tmp_path: Path, field: str, bad: dict[str, object]) -> None:
    with pytest.raises(SpecError) as error:
        read(write(tmp_path / "x", SAMPLES["table"]), **bad)  # type: ignore[arg-type]
    assert error.value.field == field


def test_the_report_is_json_and_says_it_all(tmp_path: Path) -> None:
    lines = [
        "START -7157 vm-1 node0 60",
        "START 100 vm-2 node0 56",
        "STOP 400 vm-1",
        "START 500 vm-3 node0 1" + " x" * 500,
        "STOP 600 vm-2",
        "START 650 vm-4 node0 1",
    ]
    path = write(tmp_path / "x", "\n".join(lines))
    trace, report = read(path, max_error_rate=0.5, capacity_cores=96)
    told = json.loads(json.dumps(report.as_dict()))
    assert told["rows"] == len(trace) == 3
    assert told["left_truncated"] == told["right_censored"] == 1
    assert told["peak_cores"] == 116
    assert (told["capacity_cores"], told["overcommitted_s"]) == (96, 300.0)
    (line,) = told["quarantined"]
    assert line["line"] == 4
    assert len(line["text"]) == 200
    assert [sentence.split()[0] for sentence in told["warnings"]] == ["1", "1", "1", "116"]


def test_a_drop_out_is_a_warning_with_its_length(tmp_path: Path) -> None:
    """Case 14: replay takes the file as written."""
    gap_s = 12 * 86400
    # 17 of the short ones also stop within the last 1 % of twelve days before it.
    lines = ["START 0 a n 2", "START 0 b n 2", "START 0 c n 2"]
    for i in range(40):
        lines += [f"START {600 * i} s{i} n 1", f"STOP {600 * i + 300} s{i}"]
    lines += [f"STOP {24000 + i} {vm}" for i, vm in enumerate("abc")]
    lines += [f"START {24002 + gap_s} {vm}2 n 2" for vm in "abc"]
    lines += [f"STOP {24100 + gap_s} {vm}2" for vm in "abc"]
    trace, report = read(write(tmp_path / "x", "\n".join(lines)))
    (found,) = report.drop_outs
    assert (found.end_s - found.start_s, found.closed, found.reopened) == (gap_s, 3 + 17, 3)
    assert "1 drop-outs of the log were found, the longest 12.0 days." in report.warnings
    assert trace.last_stop_s == 24100 + gap_s
    assert len(trace) == 46
