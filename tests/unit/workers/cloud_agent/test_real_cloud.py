"""What an owner is told of a cloud that is real, and what its agent is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from broker.settings import Settings, SettingsError
from cloudsim.federation.file import load_federation
from cloudsim.model.errors import InputError
from workers.cloud_agent.__main__ import read_cloud, read_credentials
from workers.owner.__main__ import parser, process_spec

FILE = """
[[cloud]]
id = "simulated"
nodes = "2x4"
trace = { synthetic = "table-1", hours = 24, seed = 1 }

[[cloud]]
id = "real"
nodes = "2x4"

[cloud.instances]
driver = "ec2"
endpoint = "http://127.0.0.1:1"
image = "ami-1"
sizes = { 1 = "m1.small" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "federation.toml"
    path.write_text(FILE)
    return path


def test_it_lives_in_real_time_and_begins_with_what_was_recorded_of_it(file: Path, tmp_path: Path) -> None:
    config, federation = Settings(state_dir=tmp_path), load_federation(file, None)

    def spec(*told: str) -> tuple[str | None, float, float]:
        arguments = parser().parse_args(["--federation", str(file), *told])
        found = process_spec(arguments.cloud[0], arguments, config, federation)
        return found.info.instances, found.info.speed, found.history_s

    fast = ("--speed", "600", "--history", "48h")
    assert spec("--cloud", "real", *fast) == ("ec2", 1.0, 0.0)
    assert spec("--cloud", "simulated", *fast) == (None, 600.0, 48 * 3600.0)
    assert spec("--cloud", "real", "--time", "trace")[0] is None, "a replay has no instances"
    (tmp_path / "record.csv").write_text("instance,start_s,stop_s,cores\n1,0,5000,4\n2,10,90000.25,2\n")
    file.write_text(FILE.replace('id = "real"', 'id = "real"\ntrace = "record.csv"'))
    federation = load_federation(file, None)
    assert spec("--cloud", "real", *fast) == ("ec2", 1.0, 90000.25)


def test_what_overflows_is_promised_what_the_file_says(file: Path, tmp_path: Path) -> None:
    file.write_text(FILE.replace('id = "simulated"', 'id = "simulated"\noverflow = true\noverflow_sla = 0.1'))
    federation = load_federation(file, None)

    def spec(*told: str) -> tuple[bool, float | None]:
        arguments = parser().parse_args(["--federation", str(file), "--cloud", "simulated", *told])
        owner = process_spec(arguments.cloud[0], arguments, Settings(state_dir=tmp_path), federation).owner
        return owner.overflow, owner.overflow_sla

    assert spec() == (True, 0.1)
    assert spec("--overflow-sla", "0.2") == (True, 0.2)
    assert spec("--time", "trace")[0] is False


def test_what_is_wrong_in_the_table_is_named(file: Path) -> None:
    assert read_cloud(file, "real", None)[1].sizes == {1: "m1.small"}
    with pytest.raises(InputError, match="simulated is simulated"):
        read_cloud(file, "simulated", None)
    with pytest.raises(InputError, match="no cloud is called 'nobody'"):
        read_cloud(file, "nobody", None)
    file.write_text(FILE.replace('image = "ami-1"', ""))
    with pytest.raises(InputError) as raised:
        read_cloud(file, "real", None)
    assert raised.value.field == "cloud[1].instances.image"


def test_a_cluster_sells_on_demand_in_a_partition_of_its_own(file: Path, tmp_path: Path) -> None:
    sold = "sells_on_demand = true\nspot_usd_per_core_hour = 0.01\non_demand_usd_per_core_hour = 0.05"
    prices = "spot_usd_per_core_hour = 0\non_demand_usd_per_core_hour = 0"
    text = FILE.replace('id = "real"', f'id = "real"\n{sold}').replace('id = "simu', f'{prices}\nid = "simu')
    file.write_text(text)
    assert read_cloud(file, "real", None)[0].sells_on_demand
    (tmp_path / "start.sh").touch()
    slurm = 'driver = "slurm"\npartition = "spot"\nscript = "start.sh"\n'
    file.write_text(text.partition('driver = "ec2"')[0] + slurm)
    with pytest.raises(InputError, match="name a partition whose jobs nothing preempts") as raised:
        read_cloud(file, "real", None)
    assert raised.value.field == "cloud[1].instances.on_demand_partition"
    file.write_text(text.partition('driver = "ec2"')[0] + slurm + 'on_demand_partition = "regular"\n')
    assert read_cloud(file, "real", None)[0].sells_on_demand


def test_credentials_come_from_settings_or_a_file(tmp_path: Path) -> None:
    assert read_credentials(Settings()) == (None, None)
    told = Settings(cloud_user="u", cloud_secret=SecretStr("s"))
    assert read_credentials(told) == ("u", "s")
    assert "'s'" not in repr(told)
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("from a file\n")
    assert read_credentials(Settings(cloud_user="u", cloud_secret_file=secret)) == ("u", "from a file")
    with pytest.raises(SettingsError, match="SPOTFED_CLOUD_SECRET_FILE"):
        read_credentials(Settings(cloud_secret_file=tmp_path / "none"))
