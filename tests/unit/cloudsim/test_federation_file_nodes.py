"""Federation files: nodes that have more than cores, flavours, line-ups, grace, labels and groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudsim.federation.file import load_federation
from cloudsim.federation.model import PlannedDrain
from cloudsim.model.errors import InputError
from cloudsim.model.nodes import NodeDetails, NodeGroup, groups_of, nodes_of, shape_of
from cloudsim.model.requests import Spread
from cloudsim.scheduling.lineups import LINEUPS, PARTIAL_HOUR, YOUNGEST_JOB_FIRST

GOOD = """
until = "2d"

[flavours]
small = { cores = 1, memory_mb = 2000 }
large = { cores = 4, memory_mb = 8000, gpus = 1 }

[[cloud]]
id = "A"
lineup = "partial-hour"
grace = "2m"
drains = [{ at = "6h", nodes = [2], until = "1d" }, { at = "30h" }]
trace = { synthetic = "table-1", hours = 3 }
nodes = [
    { count = 2, cores = 8, memory_mb = 16000, labels = { zone = "north" }, overcommit = { cores = 1.5 } },
    { count = 1, cores = 16, memory_mb = 100, gpus = 4, overcommit = { memory_mb = 1.15 } },
]

[[cloud]]
id = "B"
nodes = "2x8"
trace = { synthetic = "table-1", hours = 3 }

[[workload]]
origin = "B"
trace = "b.txt"
labels = { zone = "north", disk = "ssd" }
group = "web"
spread = "apart"
"""
TRACE = "START 0 i-1 n 4\nSTOP 7200 i-1\nSTART 10 i-2 n 1\nSTOP 20 i-2\nSTART 30 i-3 n 2\nSTOP 40 i-3\n"


def write(directory: Path, text: str) -> Path:
    lines = sorted(TRACE.splitlines(), key=lambda line: float(line.split()[1]))
    (directory / "b.txt").write_text("\n".join(lines) + "\n")
    path = directory / "federation.toml"
    path.write_text(text)
    return path


def test_groups_of_nodes_have_more_than_cores(tmp_path: Path) -> None:
    first, second = load_federation(write(tmp_path, GOOD), None).clouds
    details = first.spec.details
    assert first.spec.node_cores == (12, 12, 16)
    assert details.resources == ("cores", "gpus", "memory_mb")
    assert dict(details.amounts) == {"gpus": (0, 0, 4), "memory_mb": (16000, 16000, 115)}
    north = frozenset({("zone", "north")})
    assert details.labels == (north, north, frozenset())
    assert first.nodes == "2x12 memory_mb=16000 zone=north, 1x16 gpus=4 memory_mb=115"
    assert (second.nodes, second.spec.node_cores, second.spec.details.amounts) == ("2x8", (8, 8), ())


def test_line_up_grace_and_drains(tmp_path: Path) -> None:
    first, second = load_federation(write(tmp_path, GOOD), None).clouds
    assert (first.spec.lineup, first.spec.grace_s) == (PARTIAL_HOUR, 120.0)
    assert (second.spec.lineup, second.spec.grace_s) == (YOUNGEST_JOB_FIRST, 0.0)
    assert first.drains == (PlannedDrain(21_600.0, (2,), 86_400.0), PlannedDrain(108_000.0))
    assert second.drains == ()
    for one in LINEUPS:
        text = GOOD.replace('"partial-hour"', f'"{one.name}"')
        assert load_federation(write(tmp_path, text), None).clouds[0].spec.lineup is one


def test_traces_take_the_amounts_of_the_flavour_with_as_many_cores(tmp_path: Path) -> None:
    federation = load_federation(write(tmp_path, GOOD), None)
    small, large = (("memory_mb", 2000),), (("gpus", 1), ("memory_mb", 8000))
    requests = [request for _, request, _ in federation.requests()]
    assert [(one.cores, one.amounts) for one in requests] == [(4, large), (1, small), (2, ())]
    assert all(one.labels == frozenset({("zone", "north"), ("disk", "ssd")}) for one in requests)
    assert all((one.group, one.spread) == ("web", Spread.APART) for one in requests)
    # So do the own loads, as far as the cloud counts resources.
    assert [cloud.spec.details.flavours for cloud in federation.clouds] == [((1, small), (4, large)), ()]
    gpus_only = load_federation(
        write(tmp_path, GOOD.replace('"2x8"', "[{ count = 1, cores = 8, gpus = 2 }]")), None
    )
    assert gpus_only.clouds[1].spec.details.flavours == ((4, (("gpus", 1),)),)


def test_a_file_without_any_of_it_says_what_it_said_before(tmp_path: Path) -> None:
    text = """
        [[cloud]]
        id = "B"
        nodes = "2x8,1x16"
        trace = "b.txt"
        [[workload]]
        origin = "A"
        trace = "b.txt"
    """
    federation = load_federation(write(tmp_path, text), None)
    assert federation.clouds[0].spec.details == NodeDetails()
    _, request, _ = next(federation.requests())
    assert (request.amounts, request.labels, request.group, request.spread) == ((), frozenset(), None, None)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("count = 2", "count = 0", "cloud[0].nodes[0].count"),
        ("count = 2, ", "", "cloud[0].nodes[0].count"),
        ("count = 2", "count = 99_999, cores_ = 1", None),
        ("count = 2", "count = 100_000", "cloud[0].nodes"),
        ("cores = 16", "cores = 1.5", "cloud[0].nodes[1].cores"),
        ("memory_mb = 16000", "memory_mb = -1", "cloud[0].nodes[0].memory_mb"),
        ("memory_mb = 16000", 'memory_mb = "16G"', "cloud[0].nodes[0].memory_mb"),
        ("memory_mb = 16000", '"memory mb" = 1', "cloud[0].nodes[0].memory mb"),
        ("gpus = 4", "gpus = true", "cloud[0].nodes[1].gpus"),
        ('labels = { zone = "north" }, ', "labels = { zone = 1 }, ", "cloud[0].nodes[0].labels.zone"),
        ('labels = { zone = "north" }, ', 'lables = { zone = "a" }, ', "cloud[0].nodes[0].lables"),
        ("{ cores = 1.5 }", "{ core = 1.5 }", "cloud[0].nodes[0].overcommit.core"),
        ("{ cores = 1.5 }", "{ cores = 0 }", "cloud[0].nodes[0].overcommit.cores"),
        ("{ cores = 1.5 }", "{ cores = 0.1 }", "cloud[0].nodes[0].overcommit.cores"),
        ("{ cores = 1.5 }", "{ cores = 1e9 }", "cloud[0].nodes[0].overcommit.cores"),
        ("{ cores = 1.5 }", "1.5", "cloud[0].nodes[0].overcommit"),
        ('"2x8"', "[]", "cloud[1].nodes"),
        ('"2x8"', '["2x8"]', "cloud[1].nodes[0]"),
        ('"partial-hour"', '"full-hour"', "cloud[0].lineup"),
        ('"partial-hour"', "7", "cloud[0].lineup"),
        ('grace = "2m"', 'grace = "soon"', "cloud[0].grace"),
        ("nodes = [2]", "nodes = [3]", "cloud[0].drains[0].nodes"),
        ("nodes = [2]", "nodes = []", "cloud[0].drains[0].nodes"),
        ('until = "1d"', 'until = "6h"', "cloud[0].drains[0].until"),
        ("large = { cores = 4", "large = { cores = 1", "flavours.large"),
        ("large = { cores = 4", "large = { core = 4", "flavours.large.cores"),
        ("small = { cores = 1, memory_mb = 2000 }", "small = 1", "flavours.small"),
        ("memory_mb = 2000", "memory_mb = 0.5", "flavours.small.memory_mb"),
        ('disk = "ssd"', "disk = 1", "workload[0].labels.disk"),
        ('spread = "apart"', "", "workload[0].spread"),
        ('spread = "apart"', 'spread = "wide"', "workload[0].spread"),
        ('group = "web"', "", "workload[0].group"),
        ('group = "web"', 'group = "a b"', "workload[0].group"),
    ],
)
def test_a_mistake_names_file_and_field(tmp_path: Path, old: str, new: str, field: str | None) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    if field is None:  # just in bounds
        assert len(load_federation(path, None).clouds[0].spec.node_cores) == 100_000
        return
    with pytest.raises(InputError) as caught:
        load_federation(path, None)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{path}: {field}: ")


def test_the_example_in_its_documentation_is_one(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[3] / "docs/reference/federation-file.md"
    _, _, text = page.read_text(encoding="utf-8").partition("```toml\n")
    example, _, _ = text.partition("```")
    example = example.replace('"eucalyptus/DS2-trace.txt"', '"b.txt"')
    example = example.replace('"eucalyptus/DS3-trace.txt"', '"b.txt"').replace(', "C"]', "]")
    federation = load_federation(write(tmp_path, example), None)
    assert [len(cloud.spec.node_cores) for cloud in federation.clouds] == [7, 10]
    assert max(federation.clouds[1].spec.node_cores) == 16


def test_what_is_sold_is_rounded_down_as_the_factor_is_written() -> None:
    def sold(factor: float, amount: int) -> int:
        return NodeGroup(1, 1, overcommit={"x": factor}).sold("x", amount)

    assert [sold(1.15, 100), sold(1.1, 10), sold(0.29, 100), sold(1.5, 3)] == [115, 11, 29, 4]


def test_groups_and_nodes_are_the_same_thing() -> None:
    groups = (
        NodeGroup(2, 8, (("memory_mb", 5),), frozenset({("zone", "n")})),
        NodeGroup(1, 8, (("memory_mb", 5),)),
        NodeGroup(3, 4),
    )
    cores, details = nodes_of(groups)
    assert groups_of(cores, details) == groups
    assert shape_of(groups) == "2x8 memory_mb=5 zone=n, 1x8 memory_mb=5, 3x4"
