"""What installed packages add by entry points is found by its name, and a broken one is named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec, sampler_spec
from cloudsim.federation.file import load_federation
from cloudsim.history.event_log import PHASE_STOP
from cloudsim.jobs.job import OVERHEADS, Job
from cloudsim.jobs.mechanisms import all_mechanisms, find_mechanism
from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance
from cloudsim.model.plugins import load_plugins
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.kernels.line_up_replays import is_compiled
from cloudsim.prediction.predictor import LocalPredictor, find_predictor
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import lineup
from cloudsim.scheduling.victims import InOrder
from cloudsim.traces.synthesis import lognormal_trace
from cloudsim.traces.trace import Trace

LARGEST_FIRST = """
from cloudsim.scheduling.eviction import ByKey
from cloudsim.scheduling.lineups import LineUp
from cloudsim.scheduling.victims import InOrder

LINE_UP = LineUp("whatever", InOrder(ByKey(lambda cores, sla: -cores)))
"""
ORDER = """
from cloudsim.scheduling.victims import InOrder


def order(inventory, first):
    running = [instance for instance in inventory.spot() if instance.evict_at_s is None]
    yield from sorted(running, key=lambda each: (not each.yields, first * each.cores, -each.number))


def largest_first(first=-1):
    return InOrder(lambda inventory: order(inventory, first))


def tidy(inventory, request, *, pull=1.0):
    return -pull * inventory.free.astype(float)
"""
PREDICTOR = """
from dataclasses import replace

from cloudsim.prediction.samplers.replay import ReplaySampler


class Careful(ReplaySampler):
    def __init__(self, spec, cores, share, shares, amounts, *, factor):
        super().__init__(spec, cores, share, shares)
        self.factor = factor

    def samples(self):
        samples = super().samples()
        return replace(samples, duration_s=samples.duration_s * self.factor)
"""
MECHANISM = """
from dataclasses import dataclass

from cloudsim.jobs.mechanisms import Checkpoint


@dataclass(frozen=True)
class Often(Checkpoint):
    @property
    def name(self):
        return "often"

    def interval_s(self, job, overheads):
        return super().interval_s(job, overheads) / 2


OFTEN, SAME = Often(), Checkpoint()
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
        sys.modules.pop(module, None)
        information = tmp_path / f"{module}-{group}.dist-info"
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


def inline(value: object) -> str:
    """Return a value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {inline(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def cloud_of(tmp_path: Path, **table: object) -> CloudSpec:
    """Return the cloud of a federation file with these fields."""
    file = tmp_path / "federation.toml"
    (tmp_path / "own.csv").write_text("instance,start_s,stop_s,cores\na,0,9,1\n")
    fields = {"id": "a", "nodes": "1x4,1x2", "trace": "own.csv"} | table
    lines = [f"{key} = {inline(value)}" for key, value in fields.items()]
    file.write_text("\n".join(["[[cloud]]", *lines, ""]))
    return load_federation(file, None).clouds[0].spec


def table_of(line_up: str, load: Trace, births: int = 60, predictor: str | None = None) -> QuantileTable:
    nodes, until_s = (4,) * 3, 12 * 3600.0
    cloud = Cloud(CloudSpec("c", nodes, lineup=lineup(line_up)), load, until_s)
    cloud.advance(until_s, PHASE_STOP)
    spec = SamplerSpec(nodes, seed=1, births=births, lineup=line_up, predictor=predictor)
    return LocalPredictor(spec, (1, 2)).table(cloud.history.cut(until_s), until_s)


@pytest.fixture(scope="module")
def load() -> Trace:
    return lognormal_trace(np.random.default_rng(1), hours=12, arrival_mu=5.5, cores=((1, 2), (0.7, 0.3)))


def test_an_order_in_plain_python_promises_what_the_compiled_one_does(install: Install, load: Trace) -> None:
    """The same order, once as a function and once by a key that the compiled replay knows."""
    install("spotfed.line_ups", "added_line_up:LINE_UP", LARGEST_FIRST)
    install("spotfed.victim_policies", "added_order:largest_first", ORDER)
    text = '{"victims": "added"}'
    assert (is_compiled(lineup("added")), is_compiled(lineup(text))) == (True, False)
    plain, compiled = table_of(text, load), table_of("added", load)
    for cores in (1, 2):
        free = range(1, 13 // cores)
        assert [plain.survives_s(cores, slots, 0.2) for slots in free] == [
            compiled.survives_s(cores, slots, 0.2) for slots in free
        ]
    assert any(plain.survives_s(2, slots, 0.2) > 0 for slots in range(1, 7))


def test_a_line_up_of_named_parts_has_weights_and_parameters(install: Install, tmp_path: Path) -> None:
    install("spotfed.victim_policies", "added_order:largest_first", ORDER)
    install("spotfed.weighers", "added_weigher:tidy", ORDER)
    parts = {
        "victims": {"name": "added", "first": 1},
        "weighers": {"added": {"weight": 2.0, "pull": -1.0}},
        "spot_weighers": {"most-free-cores": 1.5},
        "ranking": "weighted",
        "cost_factor": 0.5,
    }
    made = cloud_of(tmp_path, lineup=parts).lineup
    assert lineup(made.name).name == made.name, "its name says all of it, in whatever process"
    ((weigher, weight),) = made.weighers
    assert (weight, made.spot_weighers[0][1], made.cost_factor, made.ranking) == (2.0, 1.5, 0.5, "weighted")
    inventory = Inventory((4, 2))
    assert weigher(inventory, Request("r", Kind.ON_DEMAND, 1, None)).tolist() == [4.0, 2.0]
    for number, cores in enumerate((2, 1)):
        inventory.place(Instance(f"i{number}", Kind.SPOT, cores, 0, 0.0, 9.0, number, sla=0.1))
    assert isinstance(made.victims, InOrder)
    assert [instance.cores for instance in made.victims.order(inventory)] == [1, 2]


@pytest.mark.parametrize(
    ("table", "field", "why"),
    [
        ({"victims": "nobody"}, "victims", "there is no 'nobody'; there are: added, cheapest"),
        ({"victims": {"name": "added", "last": 1}}, "victims", "unexpected keyword argument 'last'"),
        ({"victims": {"name": "cheapest", "gold": 1}}, "victims", "unexpected keyword argument 'gold'"),
        ({"victims": 5}, "victims", "neither a name nor a table"),
        ({"weighers": {"most-free-cores": "much"}}, "weighers.most-free-cores", "'much' is no weight"),
        ({"weighers": ["last-nodes"]}, "weighers", "no table of weights"),
        ({"ranking": "best"}, "ranking", "'best' is not one of lexicographic, weighted"),
        ({"cost_factor": "1"}, "cost_factor", "'1' is no number"),
        ({"victim": "added"}, "", "victim is not one of victims, weighers"),
    ],
)
def test_a_part_that_is_wrong_is_named(
    install: Install, tmp_path: Path, table: dict[str, object], field: str, why: str
) -> None:
    install("spotfed.victim_policies", "added_order:largest_first", ORDER)
    with pytest.raises(SpecError) as error:
        cloud_of(tmp_path, lineup=table)
    assert (error.value.field or "").endswith(f"lineup.{field}" if field else "lineup")
    assert why in str(error.value)


def test_a_predictor_of_a_package_makes_the_tables(install: Install, load: Trace, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no predictor is called 'added'; there are: none"):
        find_predictor("added")
    install("spotfed.predictors", "added_predictor:Careful", PREDICTOR)
    spec = cloud_of(tmp_path, predictor={"name": "added", "factor": 0.5})
    ours, careful = (
        table_of("youngest-job-first", load, 500, predictor) for predictor in (None, spec.predictor)
    )
    assert sampler_spec(spec, 1, 500).predictor == spec.predictor
    assert 0 < careful.survives_s(2, 3, 0.2) < ours.survives_s(2, 3, 0.2)
    with pytest.raises(SpecError, match=r"cannot be made: .*factor"):
        table_of("youngest-job-first", load, 10, "added")


def test_a_mechanism_of_a_package_is_one_of_all(install: Install) -> None:
    install("spotfed.checkpoint_mechanisms", "added_mechanism:OFTEN", MECHANISM)
    job = Job(3600.0, 4.0, slack=0.01)
    often, ours = find_mechanism("often", "remote"), find_mechanism("checkpoint", "remote")
    assert often in all_mechanisms()
    assert often is not None
    assert ours is not None
    interval_s = ours.interval_s(job, OVERHEADS)
    assert interval_s is not None
    assert often.interval_s(job, OVERHEADS) == interval_s / 2


def test_a_mechanism_needs_a_name_of_its_own(install: Install) -> None:
    install("spotfed.checkpoint_mechanisms", "added_mechanism:SAME", MECHANISM)
    with pytest.raises(SpecError, match="added is called 'checkpoint', as one of ours is"):
        all_mechanisms()
