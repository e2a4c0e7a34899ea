"""The Slurm driver sits the exam of all drivers, on a real cluster."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.slurm.cluster import PROGRAMS, Cluster, cluster
from tests.support.wait import wait_until
from tests.unit.workers.cloud_agent.exam import (
    GENEROUS,
    PREFIX,
    Fault,
    InstanceDriverExam,
    Scene,
    alive,
    wanted,
)
from workers.cloud_agent.check import check_cloud, list_faults
from workers.cloud_agent.drivers.base import InstanceDriver, RefusedError
from workers.cloud_agent.drivers.slurm import SlurmDriver, SlurmOptions

pytestmark = pytest.mark.xdist_group("slurm")

#: What Slurm's programs do then. They know no other address.
_FAULTS = {
    Fault.FAILS: "echo 'slurm_load_jobs error: Zero Bytes were transmitted or received' >&2; exit 1",
    Fault.FAILS_WITHOUT_A_WORD: "exit 1",
    Fault.ANOTHER_PAGE: "echo '<html><body>Welcome</body></html>'",
    Fault.GARBAGE: r"printf '\377\376\000\001\n'",
    Fault.CUT: "printf 'JOBI'",
    Fault.CLOSES: "kill -9 $$",
    Fault.HANGS: "exec sleep 1000",
    Fault.TRICKLES: "while :; do echo x; sleep 0.05; done",
    Fault.ELSEWHERE: "echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
}


@dataclass(frozen=True)
class SlurmScene:
    """A cluster, through programs in a directory of the test's own; its prefix keeps out what earlier tests
    have left."""

    slurm: Cluster
    programs: Path
    prefix: str

    def driver(self, cloud: str = "A", **changes: Any) -> SlurmDriver:
        known: dict[str, Any] = {
            "driver": "slurm",
            "partition": "spot",
            "script": "start.sh",
            "user_data": "user-data.sh",
            "allow": {"user_data": True},
            "prefix": self.prefix,
            "programs": str(self.programs),
            "config": "slurm.conf",
        }
        changes.pop("foreign_sizes", None)
        if "prefix" in changes:
            changes["prefix"] += self.prefix
        told = SlurmOptions.model_validate({**known, **changes}, context={"beside": self.slurm.directory})
        return SlurmDriver(told, cloud)

    def foreign(self, cores: int, marks: dict[str, str] | None = None) -> str:
        told = {name.rpartition(":")[2]: value for name, value in (marks or {}).items()}
        others = "" if all(name.startswith("spotfed:") for name in marks or {}) else "other-"
        comment = f"spotfed:{others}{self.prefix}:{told.get('cloud', '')}:{told.get('lease', '')}"
        return self.slurm.submit(
            "--partition=spot", f"--cpus-per-task={cores}", *([f"--comment={comment}"] if marks else [])
        )

    def copy(self, name: str) -> str:
        if os.geteuid() != 0:
            pytest.skip("only root submits jobs of other users")
        comment = self.slurm.run("squeue", "--noheader", f"--jobs={name}", "--Format=Comment:1000").strip()
        return self.slurm.submit("--uid=nobody", "--partition=spot", f"--comment={comment}")

    def settle(self) -> None:
        wait_until(self._settled, "what was begun is done")

    def _settled(self) -> bool:
        lines = self.slurm.run("squeue", "--all", "--noheader", "--format=%A %T %j").splitlines()
        jobs = [line.split() for line in lines]
        return all(
            word == "RUNNING" and ("ready" in self.slurm.told(job) or not name.startswith("spotfed:"))
            for job, word, name, *_ in jobs
        )

    def take_back(self, name: str) -> None:
        self.slurm.run("scancel", "--batch", "--signal=KILL", name)

    def equipped(self) -> tuple[SlurmDriver, dict[str, int], dict[str, str]]:
        return self.driver(), {"disk_gb": 100, "gpus": 2, "memory_mb": 4_000}, {"zone": "north"}

    def generous(self) -> SlurmDriver:
        (self.slurm.directory / "prefix.sh").write_text(PREFIX.format(directory=self.slurm.directory))
        return self.driver(allow={**GENEROUS, "images": {"debian-*": "/images/debian.sif"}})

    def chosen(self, name: str) -> tuple[str, str]:
        marks = self.marks(name)
        return marks["spotfed:image"], marks["spotfed:key"]

    def own_image(self) -> str:
        return "/images/debian.sif"

    def keys(self) -> list[str]:
        return []

    def has_all(self, name: str, amounts: dict[str, int]) -> bool:
        told = self.slurm.run("scontrol", "show", "job", name)
        words = [f"MinMemoryNode={amounts['memory_mb']}M", f"MinTmpDiskNode={amounts['disk_gb']}G"]
        words += [f"TresPerNode=gres:gpu:{amounts['gpus']}", "Features=zone=north", " NodeList=n1"]
        return all(word in told for word in words)

    def fill(self) -> None:
        self.slurm.run("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=test")

    def break_down(self, fault: Fault) -> None:
        self._replace(_FAULTS[fault])

    def go_away(self) -> None:
        config = self.slurm.directory / "away.conf"
        told = self.slurm.config.read_text().replace("SlurmctldPort=", "MessageTimeout=2\nSlurmctldPort=1#")
        config.write_text(told)
        self._replace(f'SLURM_CONF={config} exec "{{real}}" "$@"')

    def _replace(self, script: str) -> None:
        for program in PROGRAMS:
            (self.programs / program).unlink()
            (self.programs / program).write_text(
                f"#!/bin/sh\n{script.replace('{real}', str(shutil.which(program)))}\n"
            )
            (self.programs / program).chmod(0o755)

    def user_data(self, name: str) -> str:
        return self.slurm.told(f"{name}.data")

    def marks(self, name: str) -> dict[str, str]:
        lines = [line.partition("=") for line in self.slurm.told(name).splitlines()]
        return {
            f"spotfed:{key.removeprefix('SPOTFED_').lower()}": value
            for key, _, value in lines
            if key.startswith("SPOTFED_")
        }


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with cluster(cpus=64) as made:
        (made.directory / "user-data.sh").write_text("#!/bin/sh\necho from the file\n")
        yield made


class TestSlurm(InstanceDriverExam):
    """On two nodes of 64 CPUs. What a cluster knows nothing of is asked otherwise."""

    @pytest.fixture
    def scene(self, shared: Cluster, tmp_path: Path) -> Iterator[Scene]:
        for program in PROGRAMS:
            (tmp_path / program).symlink_to(str(shutil.which(program)))
        yield SlurmScene(shared, tmp_path, uuid.uuid4().hex[:12])
        if "drained" in shared.run("sinfo", "--noheader", "--format=%T"):
            shared.run("scontrol", "update", "nodename=n1,n2", "state=resume")
        shared.clear()

    def test_an_unknown_image_is_refused(self, scene: Scene) -> None:
        with pytest.raises(RefusedError, match="Invalid feature specification"):
            scene.driver(constraint="none-such").start(wanted())
        assert scene.driver().list_instances() == []

    def test_an_unknown_size_is_refused(self, scene: Scene, driver: InstanceDriver) -> None:
        with pytest.raises(RefusedError, match="no instance of 65 cores here, but of up to 64"):
            driver.start(wanted(cores=65))
        assert driver.list_instances() == []

    def test_wrong_credentials_are_refused(self, scene: Scene, driver: InstanceDriver) -> None:
        """Slurm knows who calls by itself; what may be wrong is the partition."""
        with pytest.raises(RefusedError, match="no partition elsewhere"):
            scene.driver(partition="elsewhere").start(wanted())
        assert driver.list_instances() == []

    def test_wrong_credentials_fail_the_check(self, scene: Scene) -> None:
        driver = scene.driver(partition="elsewhere")
        (result,) = check_cloud(vars(driver)["_options"], driver, (8, 8))
        assert (result.name, result.state) == ("access", "failure")

    def test_an_unknown_image_fails_the_check(self, scene: Scene) -> None:
        (fault,) = list_faults(scene.driver(constraint="none-such"))
        assert fault.startswith("job: sbatch: ")

    def test_notice_reaches_the_instance(self, scene: Scene, driver: InstanceDriver) -> None:
        assert isinstance(scene, SlurmScene)
        driver.start(wanted())
        driver.start(wanted("q-2.1"))
        scene.settle()
        jobs = {one.lease: one.id for one in driver.list_instances()}
        assert driver.give_notice("q-1.1", 1_782_907_200.0) is True
        wait_until(lambda: "noticed" in scene.slurm.told(jobs["q-1.1"]), "the signal")
        assert "noticed" not in scene.slurm.told(jobs["q-2.1"])
        assert driver.give_notice("q-3.1", 1_782_907_200.0) is False
        assert len(alive(driver)) == 1
