"""The pages of the reference leave nothing out that the code has."""

import re
from pathlib import Path

import pytest

from broker.api.services.federation_metrics import (
    FederationFacts,
    RedisMetrics,
    collect_confidential,
    collect_public,
)
from broker.api.services.request_metrics import RequestMetrics
from broker.cli.errors import ExitCode
from broker.contract import LeaseState
from broker.settings import Settings
from cloudsim.federation.file import load_federation
from cloudsim.model.errors import SpecError
from workers.cloud_agent.drivers.ec2 import Ec2Options
from workers.cloud_agent.drivers.openstack import OpenStackOptions
from workers.cloud_agent.drivers.slurm import SlurmOptions

ROOT = Path(__file__).resolve().parents[3]


def page(name: str) -> str:
    return (ROOT / f"docs/reference/{name}.md").read_text(encoding="utf-8")


def first_cells(text: str) -> set[str]:
    return set(re.findall(r"^\| `?([^`|]+?)`? \|", text, re.MULTILINE))


def test_every_setting_is_there() -> None:
    assert {f"SPOTFED_{name.upper()}" for name in Settings.model_fields} == {
        name for name in first_cells(page("settings")) if name.startswith("SPOTFED")
    }


def test_every_exit_code_is_there() -> None:
    assert {str(int(code)) for code in ExitCode} <= first_cells(page("exit-codes"))


def test_every_state_is_there() -> None:
    assert {state.value for state in LeaseState} <= first_cells(page("events"))


def test_every_metric_is_there() -> None:
    facts = FederationFacts((), RedisMetrics(0, 0, 0, 0), ("", 0))
    requests = RequestMetrics()
    requests.watch_replies(lambda: 0, {"expired": 0})
    families = [*collect_public(facts), *collect_confidential(facts), *requests.collect()]
    names = {family.name for family in families if family.name.startswith("spotfed_")}
    assert names <= {name.removesuffix("_total") for name in first_cells(page("metrics"))}


def test_every_kind_of_problem_is_there() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "broker/api").rglob("*.py"))
    kinds = re.findall(r"(?:_problem|_later|conflict)\(\s*\"([a-z-]+)\"", source)
    assert "queue-away" in kinds
    assert set(kinds) <= first_cells(page("problems"))


def test_every_option_of_a_real_cloud_is_there() -> None:
    fields = {name for kind in (Ec2Options, OpenStackOptions, SlurmOptions) for name in kind.model_fields}
    known = first_cells(page("instances"))
    assert {name for name in fields if name not in known and name.removesuffix("_s") not in known} == set()


_CLOUD = "[[cloud]]\nid = 'a'\nnodes = '1x4'\ntrace = { synthetic = 'table-1', hours = 1, seed = 1 }\n"


@pytest.mark.parametrize("before", ["", "[[cloud]]\n", f"{_CLOUD}[[workload]]\n"])
def test_every_field_of_a_federation_file_is_there(before: str, tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(f"{before}nonsense = 1\n")
    with pytest.raises(SpecError, match="unknown field") as raised:
        load_federation(file, None)
    known = re.findall(r"\w+", str(raised.value).partition("known are:")[2])
    assert len(known) > 3
    shown = re.findall(r"^(\w+) = |\[(\w+)\]|`(\w+)(?: = [^`]*)?`", page("federation-file"), re.MULTILINE)
    assert set(known) <= {name for names in shown for name in names}
