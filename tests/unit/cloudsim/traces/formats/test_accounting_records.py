"""What sites have at hand: accounting of schedulers and clouds (case 26)."""

import json
from pathlib import Path

import pytest

from cloudsim.model.errors import SpecError, TraceError
from cloudsim.traces.formats import read
from cloudsim.traces.report import ImportReport
from cloudsim.traces.trace import Trace

SACCT = "JobID|Partition|AllocCPUS|NNodes|Start|End|State"


def rows(trace: Trace) -> list[tuple[str, float, float, int, bool]]:
    columns = (trace.instance, trace.start_s, trace.stop_s, trace.cores, trace.right_censored)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def read_text(tmp_path: Path, text: str, **options: object) -> tuple[Trace, ImportReport]:
    path = tmp_path / "log"
    path.write_text(text)
    return read(path, **options)  # type: ignore[arg-type]


def sacct(*jobs: str) -> str:
    return "\n".join([SACCT, *jobs, ""])


def test_jobs_of_slurm(tmp_path: Path) -> None:
    """One runs yet; one was cancelled while it waited; one waits; a step is part of its job."""
    text = sacct(
        "1|q|4|1|2026-01-10T00:10:00|2026-01-10T03:10:00|COMPLETED",
        "2|q|0|0|None|2026-01-10T00:30:00|CANCELLED by 1000",
        "3_[1-9]|q|1|1|Unknown|Unknown|PENDING",
        "1.batch||4|1|2026-01-10T00:10:00|2026-01-10T03:10:00|COMPLETED",
        "4|q|8|1|2026-01-10T01:10:00|Unknown|RUNNING",
        "5|q|0|1|2026-01-10T01:10:00|2026-01-10T01:20:00|FAILED",
        "6|q|1|1|2026-01-10T01:10:00|2026-01-10T00:20:00|FAILED",
    )
    trace, report = read_text(tmp_path, text, max_error_rate=0.5)
    assert rows(trace) == [("1", 0, 10_800, 4, False), ("4", 3600, 10_800, 8, True)]
    assert trace.parallel.all()
    assert dict(report.skipped) == {
        "a step of a job, whose cores are the job's": 1,
        "it has no start: it never ran": 2,
    }
    assert [(bad.line, bad.reason) for bad in report.quarantined] == [
        (7, "cores '0' is not a whole number from 1 to 2147483647"),
        (8, "the end precedes the start"),
    ]
    assert report.format == "sacct"
    assert any("times name no zone" in sentence for sentence in report.warnings)


@pytest.mark.parametrize(
    ("zone", "lifetimes_s", "warned"),
    [("Europe/Berlin", [7200, 600], 0), ("UTC", [10_800, 4200], 0), (None, [10_800, 4200], 1)],
)
def test_a_night_in_which_the_clock_goes_forward(
    tmp_path: Path, zone: str | None, lifetimes_s: list[float], warned: int
) -> None:
    text = sacct(
        "1|q|4|1|2026-03-29T00:10:00|2026-03-29T03:10:00|COMPLETED",
        "2|q|4|1|2026-03-29T01:55:00|2026-03-29T03:05:00|COMPLETED",
    )
    trace, report = read_text(tmp_path, text, time_zone=zone)
    assert trace.lifetime_s.tolist() == lifetimes_s
    assert sum("times name no zone" in sentence for sentence in report.warnings) == warned
    assert report.time_zone == (zone or "")


def test_a_night_in_which_an_hour_comes_twice(tmp_path: Path) -> None:
    """The job starts at 02:50 the first time and ends at 02:10 the second time."""
    text = sacct("1|q|4|1|2026-10-25T02:50:00|2026-10-25T02:10:00|COMPLETED")
    trace, report = read_text(tmp_path, text, time_zone="Europe/Berlin")
    assert trace.lifetime_s.tolist() == [1200]
    assert any("2 times are in an hour that daylight saving" in sentence for sentence in report.warnings)


def test_an_unknown_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Europe/Nowhere") as raised:
        read_text(tmp_path, sacct("1|q|1|1|0|1|COMPLETED"), time_zone="Europe/Nowhere")
    assert raised.value.field == "time_zone"


def test_servers_of_openstack(tmp_path: Path) -> None:
    header = '"ID","Name","Status","Created At","Launched At","Terminated At","Flavor: VCPUs"'
    created = "2026-03-01T10:00:00Z"
    text = "\n".join(
        [
            header,
            f'"a","web","ACTIVE","{created}","2026-03-01T10:00:41.000000","","2"',
            f'"b","web","DELETED","{created}","2026-03-01T10:00:41.000000","2026-03-02T10:00:41.000000","4"',
            f'"c","web","ERROR","{created}","","","4"',
        ]
    )
    trace, report = read_text(tmp_path, text)
    assert rows(trace) == [("a", 0, 86_400, 2, True), ("b", 0, 86_400, 4, False)]
    assert dict(report.skipped) == {"it has no start: it never ran": 1}
    assert not any("zone" in sentence for sentence in report.warnings)


@pytest.mark.parametrize("several", [False, True])
def test_usage_of_openstack(tmp_path: Path, several: bool) -> None:
    """What runs yet ran until the window of the report ended."""
    server = {"instance_id": "a", "vcpus": 2, "started_at": "2026-03-01T10:00:41.000000", "ended_at": None}
    usage = {"stop": "2026-03-03T00:00:41.000000", "server_usages": [server]}
    document = {"tenant_usages": [usage]} if several else {"tenant_usage": usage}
    trace, report = read_text(tmp_path, json.dumps(document))
    assert rows(trace) == [("a", 0, 38 * 3600, 2, True)]
    assert report.format == "openstack_usage"


def test_instances_of_ec2(tmp_path: Path) -> None:
    def instance(name: str, state: str, **more: object) -> dict[str, object]:
        options = {"CoreCount": 2, "ThreadsPerCore": 2}
        launched = {"InstanceId": name, "LaunchTime": "2026-03-01T10:00:00+00:00", "CpuOptions": options}
        return {**launched, "State": {"Name": state}, **more}

    ended = instance("b", "terminated", StateTransitionReason="User initiated (2026-03-01 11:00:00 GMT)")
    instances = [
        instance("a", "running"),
        ended,
        instance("c", "terminated"),
        instance("d", "running", CpuOptions=None),
    ]
    document = {"Reservations": [{"Instances": instances[:2]}, {"Instances": instances[2:]}]}
    trace, report = read_text(tmp_path, json.dumps(document), max_error_rate=0.5)
    assert rows(trace) == [("a", 0, 3600, 4, True), ("b", 0, 3600, 4, False)]
    assert dict(report.skipped) == {"it ended at a time that the cloud does not say": 1}
    (bad,) = report.quarantined
    assert (bad.line, "CpuOptions" in bad.reason) == (4, True)


def test_jobs_of_htcondor(tmp_path: Path) -> None:
    """The latest start counts; 0 as completion: it runs yet; no start: it waits."""
    jobs = [
        {"ClusterId": 1, "ProcId": 0, "RequestCpus": 2, "JobStartDate": 1767225700, "CompletionDate": 0},
        {
            "ClusterId": 2, "ProcId": 3, "JobStartDate": 1767225600, "JobCurrentStartDate": 1767225800,
            "CompletionDate": 1767229400,
        },
        {"ClusterId": 3, "ProcId": 0, "RequestCpus": 1, "QDate": 1767225600},
    ]  # fmt: skip
    trace, report = read_text(tmp_path, json.dumps(jobs))
    assert rows(trace) == [("1.0", 0, 3700, 2, True), ("2.3", 100, 3700, 1, False)]
    assert dict(report.skipped) == {"it has no start: it never ran": 1}


def test_vms_of_azure(tmp_path: Path) -> None:
    """An end at the last reading is no end."""
    text = "a,s,d,0,2591700,9,3,1,Delay-insensitive,1,1.75\nb,s,d,300,2188800,9,9,5,Interactive,2,3.5\n"
    trace, report = read_text(tmp_path, text)
    assert rows(trace) == [("a", 0, 2_591_700, 1, True), ("b", 300, 2_188_800, 2, False)]
    assert report.format == "azure_vmtable"


@pytest.mark.parametrize(
    "text", ['{"tenant_usage": 5, "server_usages"', '{"tenant_usage": [], "server_usages": 1}']
)
def test_a_damaged_document_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match=r"damaged JSON|no document of tenant_usage"):
        read_text(tmp_path, text)


def test_columns_of_any_csv(tmp_path: Path) -> None:
    text = "who;begin;lasted;cpus\nx;100;60,5;2\ny;160;;1\nz;;5;1\n"
    columns = {"start": "begin", "duration": "lasted", "cores": "cpus"}
    trace, report = read_text(tmp_path, text.replace(",", "."), columns=columns)
    assert rows(trace) == [("1", 100, 160.5, 2, False), ("2", 160, 160.5, 1, True)]
    assert dict(report.skipped) == {"it has no start: it never ran": 1}
    named, _ = read_text(tmp_path, text.replace(",", "."), columns={**columns, "instance": "who"})
    assert named.instance.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"start": "a", "cores": "b"}, "either end or duration"),
        ({"start": "a", "cores": "b", "end": "c", "duration": "d"}, "either end or duration"),
        ({"begin": "a"}, "begin is not one of"),
    ],
)
def test_columns_that_are_not_enough_are_refused(tmp_path: Path, columns: dict[str, str], match: str) -> None:
    with pytest.raises(SpecError, match=match):
        read_text(tmp_path, "a,b,c,d\n1,1,1,1\n", columns=columns)


def test_what_was_mended_to_read_columns_is_told(tmp_path: Path) -> None:
    columns = {"start": "a", "end": "b", "cores": "c"}
    _, report = read_text(tmp_path, "\ufeffa,b,c\n1,2,1", columns=columns)
    assert report.repaired == ("a byte order mark was passed over.",)
    assert report.ends_open


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="lacks cpus"):
        read_text(tmp_path, "a,b\n1,2\n", columns={"start": "a", "end": "b", "cores": "cpus"})
