"""A Slurm cluster of a test's own, where Slurm is installed: two nodes, on loopback."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.wait import wait_until
from workers.cloud_agent.drivers.slurm import SlurmDriver, SlurmOptions

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "sinfo", "scancel", "scontrol")
#: What instances of these tests do: they tell their environment and each notice, until they are killed.
_SCRIPT = """#!/bin/sh
out={directory}/$SLURM_JOB_ID
trap 'echo noticed >> $out' TERM
env | grep SPOTFED_ > $out
printf '%s' "$SPOTFED_USER_DATA" > $out.data
echo ready >> $out
while :; do sleep 0.1; done
"""
_CONFIG = """
ClusterName=spotfed
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
SlurmctldPort={ports[0]}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
NodeName=DEFAULT CPUs={cpus} RealMemory=64000 State=UNKNOWN
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} {details}
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]}
PartitionName=regular Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF Default=YES
PartitionName=spot Nodes=n1,n2 PriorityTier=1 PreemptMode=CANCEL GraceTime=2
"""


@dataclass(frozen=True)
class Cluster:
    """A running one. ``directory`` holds what its instances tell, in files named by job."""

    directory: Path

    @property
    def config(self) -> Path:
        return self.directory / "slurm.conf"

    def driver(self, **options: object) -> SlurmDriver:
        """Of the partition "spot", with these options beside."""
        known = {"driver": "slurm", "partition": "spot", "script": "start.sh", "config": "slurm.conf"}
        told = SlurmOptions.model_validate({**known, **options}, context={"beside": self.directory})
        return SlurmDriver(told, "hpc")

    def run(self, *command: str) -> str:
        """What one of Slurm's programs prints."""
        environment = {**os.environ, "SLURM_CONF": str(self.config)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, *options: str, command: str = "sleep 1000") -> str:
        """A job of the cluster's own users; its id."""
        quiet = ("--parsable", "--output=/dev/null", "--chdir=/")
        return self.run("sbatch", *quiet, *options, f"--wrap={command}")

    def told(self, job: str) -> str:
        """What an instance has told so far."""
        path = self.directory / job
        return path.read_text() if path.exists() else ""

    def states(self) -> dict[str, str]:
        """Slurm's own word for each job that has not ended."""
        lines = self.run("squeue", "--all", "--noheader", "--format=%A %T").splitlines()
        return {line.split()[0]: line.split()[1] for line in lines}

    def clear(self) -> None:
        """Ends all jobs."""
        for signal in (("--signal=KILL", "--batch"), ()):
            self.run("scancel", "--quiet", f"--user={getpass.getuser()}", *signal)
            self.run("scancel", "--quiet", "--user=nobody", *signal)
        wait_until(lambda: not self.states(), "no job runs")
        wait_until(lambda: self._idle() == ["idle", "idle"], "both nodes are idle")

    def _idle(self) -> list[str]:
        return self.run("sinfo", "--noheader", "--Node", "--partition=spot", "--format=%T").split()


@contextmanager
def cluster(cpus: int = 4) -> Iterator[Cluster]:
    """A cluster whose nodes have so many CPUs; the test is skipped where Slurm is not installed."""
    if missing := [program for program in PROGRAMS if _path(program) is None]:
        reason = f"no {missing[0]} here (Debian: apt-get install slurm-wlm munge)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with ExitStack() as stack:
        # Not pytest's: the name of a socket is short.
        directory = Path(tempfile.mkdtemp(prefix="slurm-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)  # jobs of other users pass through it
        made = Cluster(directory)
        _write(directory, cpus)
        _start(stack, directory, "munged", *_munge_options(directory))
        wait_until((directory / "munge.socket").exists, "munged")
        _start(stack, directory, "slurmctld", "-D", "-f", str(made.config))
        wait_until(lambda: _pings(made), "slurmctld")
        for node in ("n1", "n2"):
            _start(stack, directory, "slurmd", "-D", "-N", node, "-f", str(made.config))
        wait_until(lambda: made._idle() == ["idle", "idle"], "both nodes")
        stack.callback(made.clear)
        yield made


def _write(directory: Path, cpus: int) -> None:
    ports = [free_port() for _ in range(3)]
    text = _CONFIG.format(
        user=getpass.getuser(),
        directory=directory,
        ports=ports,
        cpus=cpus,
        details="Gres=gpu:a100:2 TmpDisk=102400 Feature=zone=north,ssd",
    )
    (directory / "slurm.conf").write_text(text)
    devices = "".join(f"NodeName=n1 Name=gpu Type=a100 File={file}\n" for file in ("/dev/null", "/dev/zero"))
    (directory / "gres.conf").write_text(devices)
    (directory / "state").mkdir()
    (directory / "start.sh").write_text(_SCRIPT.format(directory=directory))
    key = directory / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)


def _munge_options(directory: Path) -> list[str]:
    names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    return ["--foreground", "--force", *(f"--{name}={directory}/munge.{end}" for name, end in names.items())]


def _start(stack: ExitStack, directory: Path, *command: str) -> None:
    with (directory / "daemons.out").open("ab") as output:
        program = _path(command[0])
        assert program is not None
        process = subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    stack.callback(process.wait)
    stack.callback(process.kill)


def _path(program: str) -> str | None:
    """Daemons are where a user's PATH often does not lead."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def _pings(made: Cluster) -> bool:
    try:
        return " is UP" in made.run("scontrol", "ping")
    except AssertionError:
        return False
