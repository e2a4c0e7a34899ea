"""Every experiment runs quickly: on the recorded data, and on a machine without, where it says on what."""

import json
from pathlib import Path

import pytest

from broker.experiments.runner import WITHOUT_DATA, run
from cloudsim.experiments import registry
from cloudsim.experiments.experiment import where
from cloudsim.experiments.volatile.runs import POLICIES, VALUE

#: Experiments whose quick run reads recorded data.
RECORDED = [name for name in registry.MODULES if any(case.needs for case in registry.load(name).cases(True))]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", registry.MODULES)
def test_a_quick_run_needs_no_data(tmp_path: Path, name: str) -> None:
    experiment = registry.load(name)
    result = run(experiment, tmp_path, data=None, quick=True, processes=1)
    assert (result["failed"], result["skipped"]) == ({}, {})
    assert result["rows"]
    needed = {file for case in experiment.cases(True) for file in case.needs}
    assert result["manifest"]["stand_ins"] == sorted(needed)
    assert (result["findings"][0] == WITHOUT_DATA) == bool(needed)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RECORDED)
def test_a_quick_run_on_recorded_data_has_findings_and_pictures(data_dir: Path, name: str) -> None:
    experiment = registry.load(name)
    rows = []
    for case in experiment.cases(True):
        assert all((data_dir / file).exists() for file in case.needs)
        rows += case.function(data_dir, **json.loads(json.dumps(case.options)))
    rows = json.loads(json.dumps(rows, allow_nan=False))
    findings = experiment.findings(rows)
    assert findings
    assert all(sentence.endswith(".") and any(map(str.isdigit, sentence)) for sentence in findings)
    for picture in experiment.pictures:
        figure = picture.draw(rows)
        figure.canvas.draw()
        assert any(len(axes.lines) + len(axes.patches) + len(axes.collections) for axes in figure.axes)
    if name.startswith("volatile-"):
        assert {row["policy"] for row in where(rows, row=VALUE)} == set(POLICIES)
    assert len({case.name for case in experiment.cases(False)}) == len(experiment.cases(False))
