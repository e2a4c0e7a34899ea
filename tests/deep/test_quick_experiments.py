"""Every experiment runs quickly on a machine without any recorded data, and says on what."""

from pathlib import Path

import pytest

from broker.experiments.runner import WITHOUT_DATA, run
from cloudsim.experiments import registry


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
