from __future__ import annotations

import math
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from cloudsim.disclosure.levels import Disclosure
from cloudsim.federation.file import load_federation
from cloudsim.federation.file_schema import FederationFile
from cloudsim.federation.model import Prices
from cloudsim.model.errors import InputError, SpecError
from cloudsim.model.requests import Mode
from cloudsim.prediction.rule import CAREFUL_RULE

GOOD = """
until = "2d"

[[cloud]]
id = "A"
nodes = "8x4"
trace = { synthetic = "table-1", hours = 30, seed = 1 }
overflow = true

[[cloud]]
id = "B"
nodes = "2x8"
trace = "b.txt"

[[workload]]
origin = "A"
trace = "b.txt"
delay = "1h"
sla = 0.05
"""

SPOT, ON_DEMAND = "spot_usd_per_core_hour", "on_demand_usd_per_core_hour"

TRACE = "START 0 i-1 NODE0 2\nSTOP 7200 i-1\nSTART 7300 i-2 NODE0 16\nSTOP 400000 i-2\n"


def write(directory: Path, text: str) -> Path:
    (directory / "b.txt").write_text(TRACE)
    path = directory / "federation.toml"
    path.write_text(text)
    return path


def test_a_federation_is_read(tmp_path: Path) -> None:
    federation = load_federation(write(tmp_path, GOOD), None)
    first, second = federation.clouds
    assert (first.spec.id, first.nodes, first.overflow, len(first.spec.node_cores)) == ("A", "8x4", True, 8)
    assert (second.spec.id, len(second.own_load), second.overflow) == ("B", 2, False)
    (workload,) = federation.workloads
    assert (workload.delay_s, workload.sla, workload.targets) == (3600, 0.05, ("B",))
    assert 0 < federation.ends_s <= 2 * 86400
    assert load_federation(write(tmp_path, GOOD), None, until_s=5.0).ends_s == 5.0
    assert federation.spot_sizes(second) == (2,)  # 16 cores fit on none of its nodes
    assert federation.spot_sizes(first) == ()
    assert first.overflow_sla is None
    promised = load_federation(
        write(tmp_path, GOOD.replace("overflow = true", "overflow = true\noverflow_sla = 0.1")), None
    )
    assert promised.clouds[0].overflow_sla == 0.1
    assert promised.spot_sizes(promised.clouds[1]) == (1, 2)  # A's own load consists of single cores


def test_who_plays_some_clouds_reads_the_traces_of_no_other(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    whole, of_one = load_federation(path, None), load_federation(path, None, played={"B"})
    assert [cloud.spec for cloud in of_one.clouds] == [cloud.spec for cloud in whole.clouds]
    assert [len(cloud.own_load) for cloud in of_one.clouds] == [0, len(whole.clouds[1].own_load)]
    assert of_one.workloads == ()
    (tmp_path / "b.txt").unlink()
    (first, _) = load_federation(path, None, played={"A"}).clouds
    assert len(first.own_load) == len(whole.clouds[0].own_load) > 0
    with pytest.raises(SpecError, match="no such trace"):
        load_federation(path, None, played={"B"})


def test_requests_come_by_time_then_workload_then_file_order(tmp_path: Path) -> None:
    text = GOOD + '[[workload]]\norigin = "B"\ntrace = "b.txt"\ndelay = "1h"\n'
    requests = list(load_federation(write(tmp_path, text), None).requests())
    assert [(at_s, request.id) for at_s, request, _ in requests] == [
        (3600, "A-w0-0"), (3600, "B-w1-0"), (10900, "A-w0-1"), (10900, "B-w1-1"),
    ]  # fmt: skip
    assert requests[1][1].sla is None


def test_a_cloud_says_whether_it_runs_commands_and_what_its_cores_cost(tmp_path: Path) -> None:
    first, second = load_federation(write(tmp_path, GOOD), None).clouds
    assert (first.driver, first.prices) == (None, None)
    text = GOOD.replace("overflow = true", f'driver = "process"\n{SPOT} = 0\n{ON_DEMAND} = 0.05')
    text = text.replace("2x8", f'2x8"\n{SPOT} = 0.01\n{ON_DEMAND} = 0.04\n#')
    first, second = load_federation(write(tmp_path, text), None).clouds
    assert (first.driver, first.prices) == ("process", Prices(0.0, 0.05))
    assert (second.driver, second.prices) == (None, Prices(0.01, 0.04))


def test_a_cloud_sells_on_demand_to_others_at_its_price(tmp_path: Path) -> None:
    assert not load_federation(write(tmp_path, GOOD), None).clouds[0].sells_on_demand
    sells = "sells_on_demand = true"
    text = GOOD.replace("overflow = true", f"{SPOT} = 0\n{ON_DEMAND} = 0.05\n{sells}")
    text = text.replace("2x8", f'2x8"\n{SPOT} = 0.01\n{ON_DEMAND} = 0.04\n#')
    first, second = load_federation(write(tmp_path, text), None).clouds
    assert (first.sells_on_demand, second.sells_on_demand) == (True, False)


REAL = """
[[cloud]]
id = "real"
nodes = "2x4"

[cloud.instances]
driver = "ec2"
anything = ["at", "all"]
"""


def test_a_real_cloud_has_instances_and_perhaps_a_record_of_its_load(tmp_path: Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text(REAL)
    federation = load_federation(file, None)
    (real,) = federation.clouds
    assert real.instances == {"driver": "ec2", "anything": ["at", "all"]}
    assert len(real.own_load) == 0
    assert federation.ends_s == math.inf
    file.write_text(REAL.replace('id = "real"', 'id = "real"\ndriver = "process"'))
    with pytest.raises(SpecError, match="does not go with instances") as raised:
        load_federation(file, None)
    assert raised.value.field == "cloud[0].driver"
    sold = f"sells_on_demand = true\n{SPOT} = 1\n{ON_DEMAND} = 1"
    file.write_text(REAL.replace('id = "real"', f'id = "real"\n{sold}'))
    assert load_federation(file, None).clouds[0].sells_on_demand
    overflow = {"own": REAL.replace('id = "real"', 'id = "real"\noverflow = true'),
                "table": f"{REAL}[cloud.instances.overflow]\n"}  # fmt: skip
    for text in overflow.values():
        file.write_text(text)
        with pytest.raises(SpecError, match=r"goes with the table instances\.overflow") as raised:
            load_federation(file, None)
        assert raised.value.field == "cloud[0].overflow"
    file.write_text(f"{overflow['own']}[cloud.instances.overflow]\n")
    assert load_federation(file, None).clouds[0].overflow
    file.write_text(REAL.replace('id = "real"', 'id = "real"\ntrace = "b.txt"'))
    (tmp_path / "b.txt").write_text(TRACE)
    federation = load_federation(file, None)
    assert len(federation.clouds[0].own_load) > 0
    assert federation.ends_s == federation.clouds[0].own_load.last_stop_s
    file.write_text(REAL.partition("[cloud.instances]")[0] + 'instances = "ec2"\n')
    with pytest.raises(SpecError, match="should be a table, not 'ec2'"):
        load_federation(file, None)


def test_data_directory_comes_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "b.txt").write_text(TRACE.splitlines()[0] + "\n" + TRACE.splitlines()[1] + "\n")
    assert len(load_federation(write(tmp_path, GOOD), data).clouds[1].own_load) == 1


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('nodes = "8x4"', 'nodes = "8xx4"', "cloud[0].nodes"),
        ('nodes = "8x4"', "", "cloud[0].nodes"),
        ('id = "B"', 'id = "A"', "cloud.id"),
        ('id = "B"', "id = 7", "cloud[1].id"),
        ("overflow = true", 'overflow = "yes"', "cloud[0].overflow"),
        ("overflow = true", "overflow = true\noverflow_sla = 2", "cloud[0].overflow_sla"),
        ("overflow = true", "overflow_sla = 0.1", "cloud[0].overflow_sla"),
        ("sla = 0.05", "sla = 1.5", "workload[0].sla"),
        ("sla = 0.05", "sla = nan", "workload[0].sla"),
        ("sla = 0.05", 'sla = "low"', "workload[0].sla"),
        ('delay = "1h"', 'delay = "PT1H"', "workload[0].delay"),
        ("sla = 0.05", 'targets = ["X"]', "workload.targets"),
        ("sla = 0.05", 'targets = "B"', "workload[0].targets"),
        ("sla = 0.05", "slo = 0.05", "workload[0].slo"),
        ("seed = 1", "seed = -1", "cloud[0].trace.seed"),
        ("hours = 30", "hours = 0", "cloud[0].trace.hours"),
        ("hours = 30", "days = 30", "cloud[0].trace.days"),
        ('synthetic = "table-1"', 'synthetic = "table-9"', "cloud[0].trace.synthetic"),
        ('until = "2d"', 'untill = "2d"', "untill"),
        ('until = "2d"', 'until = "soon"', "until"),
        ('"b.txt"', '"missing.txt"', "cloud[1].trace"),
        ("[[workload]]", "[workload]", "workload"),
        ("overflow = true", 'driver = "docker"', "cloud[0].driver"),
        ("overflow = true", "spot_usd_per_core_hour = 0.1", "cloud[0].on_demand_usd_per_core_hour"),
        ("overflow = true", "on_demand_usd_per_core_hour = 0.1", "cloud[0].spot_usd_per_core_hour"),
        ("overflow = true", f"{SPOT} = -1\n{ON_DEMAND} = 1", f"cloud[0].{SPOT}"),
        ("overflow = true", f"{SPOT} = 1\n{ON_DEMAND} = inf", f"cloud[0].{ON_DEMAND}"),
        ("overflow = true", f"{SPOT} = 1\n{ON_DEMAND} = true", f"cloud[0].{ON_DEMAND}"),
        ("overflow = true", f"{SPOT} = 1\n{ON_DEMAND} = 5", f"cloud[1].{SPOT}"),  # and the other has none
        ("overflow = true", "sells_on_demand = true", f"cloud[0].{ON_DEMAND}"),
        ("overflow = true", 'sells_on_demand = "yes"', "cloud[0].sells_on_demand"),
    ],
)
def test_a_mistake_names_file_and_field(tmp_path: Path, old: str, new: str, field: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_federation(path, None)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{path}: {field}: ")


@pytest.mark.parametrize("content", [b"[[cloud", b"\xff\xfe", b""])
def test_what_is_no_federation_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "federation.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"federation\.toml"):
        load_federation(path, None)


def test_a_damaged_trace_names_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    (tmp_path / "b.txt").write_text("this is\nno trace\n")
    with pytest.raises(InputError, match=r"b\.txt"):
        load_federation(path, None)


def test_a_cloud_says_to_whom_its_sla_is_a_promise(tmp_path: Path) -> None:
    first, second = load_federation(
        write(tmp_path, GOOD.replace("overflow = true", 'admission = "population"')), None
    ).clouds
    assert first.spec.admission.mode is Mode.POPULATION
    assert first.spec.prediction == CAREFUL_RULE
    assert second.spec.admission.mode is Mode.STRICT
    with pytest.raises(InputError, match=r"cloud\[0\].admission: should be 'strict' or 'population'"):
        load_federation(write(tmp_path, GOOD.replace("overflow = true", 'admission = "mean"')), None)


def test_a_cloud_says_how_much_it_tells_of_lifetimes(tmp_path: Path) -> None:
    def disclosure(lines: str) -> Disclosure:
        return (
            load_federation(write(tmp_path, GOOD.replace("overflow = true", lines)), None)
            .clouds[0]
            .spec.disclosure
        )

    assert disclosure('admission = "population"') is Disclosure.FULL
    assert disclosure('disclosure = "p10"') is Disclosure.P10
    for lines, message in (
        ('disclosure = "p50"', "should be 'nothing', 'mttr', 'p10', 'p90' or 'full', not 'p50'"),
        ("disclosure = 10", "should be 'nothing', 'mttr', 'p10', 'p90' or 'full', not 10"),
        ('disclosure = "p10"\nadmission = "population"', "leave one of the two out"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            disclosure(lines)
        assert caught.value.field == "cloud[0].disclosure"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('until = "2d"', 'untill = "2d"', "untill: unknown field; did you mean until? known are: cloud, "),
        ('nodes = "8x4"', 'node = "8x4"', "cloud[0].node: unknown field; did you mean nodes?"),
        ("seed = 1", "sede = 1", "cloud[0].trace.sede: unknown field; did you mean seed?"),
        ("sla = 0.05", "zz = 1", "workload[0].zz: unknown field; known are: delay, group, labels, "),
        ("[[workload]]", "[workload]", "workload: write each as [[workload]]"),
        ('nodes = "8x4"', "", "cloud[0].nodes: is missing"),
        ('nodes = "8x4"', "nodes = 8", 'cloud[0].nodes: write a shape such as "7x12", or a list of groups'),
        ('"b.txt"', "7", "cloud[1].trace: name a trace file, or write a table with synthetic, prices"),
        ('"b.txt"', '{ price = "x" }', "cloud[1].trace: name a trace file, or write a table with synthetic"),
        ("overflow = true", "overflow_sla = 0.1", "cloud[0].overflow_sla: goes with overflow = true"),
        ("hours = 30", "days = 30", "cloud[0].trace.days: goes with production traces; write hours"),
        ('delay = "1h"', "delay = [1]", "workload[0].delay: [1] is not a duration such as 30s, 15m"),
        ("sla = 0.05", "sla = 1979-05-27", "workload[0].sla: should be a valid number, not datetime.date("),
        ("sla = 0.05", 'sla = "{low}"', "workload[0].sla: should be a valid number, not '{low}'"),
        ("sla = 0.05", 'labels = { "{x}" = "y" }', "workload[0].labels.{x}: '{x}' is no name: letters"),
    ],
)
def test_an_error_says_what_to_do(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        load_federation(path, None)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_file_needs_a_cloud(tmp_path: Path) -> None:
    for text in ("", "cloud = []"):
        with pytest.raises(SpecError, match=r"toml: cloud: a federation needs at least one \[\[cloud\]\]"):
            load_federation(write(tmp_path, text), None)


ROOT = Path(__file__).resolve().parents[3]
SHIPPED = sorted([*(ROOT / "deploy").rglob("*.toml"), *(ROOT / "broker/cli/federations").glob("*.toml")])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_json_schema_accepts_every_file_that_is_shipped(path: Path) -> None:
    jsonschema_rs.validate(FederationFile.model_json_schema(), tomllib.loads(path.read_text()))


@pytest.mark.parametrize(
    ("old", "new", "accepted"),
    [
        ('nodes = "8x4"', "nodes = [{ count = 2, cores = 8, gpus = 1, labels = { zone = 'a' } }]", True),
        ('trace = "b.txt"', "trace = { prices = 'prices', bid_usd_per_hour = 0.1 }", True),
        ('delay = "1h"', "delay = 3600", True),
        ('delay = "1h"', "delay = true", False),
        ('until = "2d"', 'untill = "2d"', False),
        ('nodes = "8x4"', "nodes = [{ count = 2 }]", False),
        ('id = "B"', "id = 7", False),
    ],
)
def test_the_json_schema_agrees_with_the_reader(old: str, new: str, accepted: bool) -> None:
    assert old in GOOD
    document = tomllib.loads(GOOD.replace(old, new, 1))
    assert jsonschema_rs.is_valid(FederationFile.model_json_schema(), document) is accepted
