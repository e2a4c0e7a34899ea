"""Synthesised loads stand in for recorded data in quick runs; ``tests/deep`` runs all of them."""

from pathlib import Path

from broker.experiments.runner import run
from cloudsim.experiments.experiment import Case
from cloudsim.experiments.stand_ins import write_stand_ins
from cloudsim.traces.formats import read
from tests.unit.cloudsim import experiment_fakes as fakes


def test_stand_ins_are_the_same_each_time_and_are_read_as_what_they_stand_for(tmp_path: Path) -> None:
    name = "swf/KTH-SP2-1996-2.1-cln.swf.gz"
    for folder in ("a", "b"):
        assert write_stand_ins(tmp_path / folder, [name, "no/such.txt"]) == [name]
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    trace, report = read(tmp_path / "a" / name)
    assert (report.format, report.quarantined) == ("swf", ())
    assert (trace.requested_s >= trace.lifetime_s).mean() > 0.5


def test_recorded_data_are_read_where_they_are(tmp_path: Path) -> None:
    """Stand-ins are for quick runs only, and only where a file is not there."""
    file = "eucalyptus/DS2-trace.txt"
    (tmp_path / "data" / "eucalyptus").mkdir(parents=True)
    (tmp_path / "data" / file).write_text("recorded")
    experiment = fakes.experiment([Case("one", fakes.read, {"name": file}, (file,))])
    result = run(experiment, tmp_path, data=tmp_path / "data", quick=True, processes=1)
    assert (result["rows"], result["manifest"]["stand_ins"]) == ([{"text": "recorded"}], [])
    absent = run(experiment, tmp_path, data=tmp_path, quick=False, processes=1)
    assert absent["skipped"] == {"one": [file]}
    stood_in = run(experiment, tmp_path, data=tmp_path, quick=True, processes=1)
    assert stood_in["rows"][0]["text"].startswith("instance,start_s,stop_s,cores")
