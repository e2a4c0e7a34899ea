"""What installed packages add by entry points is found by its name, and a broken one is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import PHASE_STOP
from cloudsim.model.errors import SpecError
from cloudsim.model.plugins import load_plugins
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.scheduling.lineups import lineup
from cloudsim.traces.synthesis import lognormal_trace

LARGEST_FIRST = """
from cloudsim.scheduling.eviction import ByKey
from cloudsim.scheduling.lineups import LineUp
from cloudsim.scheduling.victims import InOrder

LINE_UP = LineUp("whatever", InOrder(ByKey(lambda cores, sla: -cores)))
"""
PIPES = """
from cloudsim.traces.formats import table
from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.trace import Trace


def parse(source: Source) -> Parsed:
    rows = [line.split("|") for line in source.lines if line]
    ids, starts, stops, cores = zip(*rows)
    return Parsed(Trace.checked("pipes", ids, starts, stops, cores), len(rows), len(rows), 0, ())


FORMAT = TraceFormat("START|STOP with pipes", parse, is_record=lambda words: words[0].count("|") == 3)
"""

Install = Callable[[str, str, str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with one entry point, as an installer does."""

    def installed(group: str, target: str, code: str) -> Path:
        module = target.partition(":")[0]
        (tmp_path / f"{module}.py").write_text(code)
        information = tmp_path / f"{module}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[{group}]\nadded = {target}\n")
        load_plugins.cache_clear()
        return tmp_path

    monkeypatch.syspath_prepend(tmp_path)
    yield installed
    load_plugins.cache_clear()


def test_a_line_up_of_a_package_places_evicts_and_promises(install: Install) -> None:
    install("spotfed.line_ups", "added_line_up:LINE_UP", LARGEST_FIRST)
    assert lineup("added").name == "added"
    nodes, until_s = (4,) * 4, 30 * 3600.0
    load = lognormal_trace(np.random.default_rng(1), hours=30)
    cloud = Cloud(CloudSpec("c", nodes, lineup=lineup("added")), load, until_s)
    cloud.advance(until_s, PHASE_STOP)
    table = LocalPredictor(SamplerSpec(nodes, seed=1, births=100, lineup="added"), (1,)).table(
        cloud.history.cut(until_s), until_s
    )
    assert table.survives_s(1, 8, 0.25) > 0
    with pytest.raises(SpecError, match="no line-up is called 'other'; there are: added, consolidation"):
        lineup("other")


def test_a_format_of_a_package_is_recognised(install: Install, tmp_path: Path) -> None:
    place = install("spotfed.trace_formats", "added_format:FORMAT", PIPES)
    log = tmp_path / "log.txt"
    log.write_text("vm-1|0|3600|2\nvm-2|60|7200|1\n")
    code = f"""
import sys
sys.path.insert(0, {str(place)!r})
from cloudsim.traces.formats import read
trace, report = read({str(log)!r})
print(report.format, trace.cores.tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.stderr) == ("added [2, 1]\n", "")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("LINE_UP = 1", r"broken:LINE_UP of broken is no LineUp, but int"),
        ("import no_such_module", r"broken:LINE_UP of broken cannot be loaded: No module named"),
    ],
)
def test_a_package_that_is_broken_is_named(install: Install, code: str, why: str) -> None:
    install("spotfed.line_ups", "broken:LINE_UP", code)
    sys.modules.pop("broken", None)
    with pytest.raises(SpecError, match=why):
        lineup("added")
    assert lineup("fifo").name == "fifo"
