"""A federation whose clouds are real, with a bucket at moto's server, for batch jobs on instances."""

from __future__ import annotations

import base64
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar, cast

import boto3
import httpx

from broker.client import Client
from broker.contract import SpotRequest
from broker.contract.launch import Launch
from broker.jobs.events import JobEntry
from broker.jobs.models import JobView
from broker.jobs.store import JobStore
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from tests.integration.agents import end_shim
from tests.integration.worker_processes import ROOT
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.unit.workers.cloud_agent.ec2_server import REGION, Ec2Scene
from tests.unit.workers.cloud_agent.nova_server import NovaServer

BUCKET = "states"
#: Writes numbers into a file, from where that ends, and makes a link to it.
COUNT = """
mkdir -p deep; touch deep/numbers; ln -sf deep/numbers link
n=$(wc -l < deep/numbers)
echo "from $n"
while [ $n -lt {count} ]; do n=$((n + 1)); echo $n >> deep/numbers; sleep 0.1; done
echo done
"""
_prefixes = itertools.count()

Machines = TypeVar("Machines", bound="Hypervisor")


@dataclass
class JobsOnInstances:
    """The federation. ``environment``: that of its processes."""

    local: LocalFederation
    client: Client
    directory: Path
    redis_url: str

    @property
    def client_url(self) -> str:
        """The address of the API."""
        return self.local.processes.url

    def entries(self, job: str) -> list[JobEntry]:
        """The journal of a job."""
        client = connect(self.redis_url)
        try:
            return JobStore(client, RedisKeys(self.local.key_prefix)).read_entries(job)
        finally:
            client.close()

    def view(self, job: str) -> JobView:
        time.sleep(0.1)  # whoever waits asks often: the machine is for the job
        return self.client.jobs.get(job)

    def ended(self, job: str, limit_s: float) -> JobView:
        job_view = self.client.jobs.wait(job, limit_s)
        assert job_view.ended_at is not None, job_view.said
        return job_view

    def evicted(self, job: str, times: int) -> None:
        """Waits until so many attempts have been evicted."""
        wait_until(lambda: self.view(job).evictions == times, f"{job} is evicted", 90)

    def kept(self, job: str, cloud: str, limit_s: float = 120.0) -> None:
        """Waits for a state that an attempt on a cloud has saved, and that its job manager knows."""
        wait_until(
            lambda: [
                one
                for one in self.view(job).attempts
                if one.cloud == cloud and one.checkpoints and one.ended_at is None
            ],
            f"{job} has saved a state on {cloud}",
            limit_s,
        )

    def files(self, job: str) -> dict[str, str]:
        """The files of a job as its user gets them: contents of files, and where links lead."""
        parts = [httpx.get(url).raise_for_status().content for url in self.client.jobs.find_files(job).urls]
        found = {}
        with tarfile.open(fileobj=BytesIO(b"".join(parts))) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                found[member.name] = member.linkname if content is None else content.read().decode()
        return found

    def tells_nobody(self, tokens: set[str]) -> None:
        """No token is in a log, or anywhere in Redis."""
        assert tokens
        for log in (self.directory / "state" / "logs").iterdir():
            text = log.read_text(errors="replace")
            assert not [token for token in tokens if token in text], log
        client = connect(self.redis_url)
        prefix = self.local.key_prefix
        for key in cast("list[bytes]", client.keys(f"{prefix}*")):
            dumped = cast("bytes", client.dump(key)) or b""
            assert not [token for token in tokens if token.encode() in dumped + key], key
        client.close()


@contextmanager
def bucket() -> Iterator[dict[str, str]]:
    """A store that speaks S3, with a bucket; what processes are told of it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        told = {
            "AWS_ACCESS_KEY_ID": "federation",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-bucket",
            "AWS_DEFAULT_REGION": REGION,
            "SPOTFED_JOBS_BUCKET": f"s3://{BUCKET}/jobs",
            "SPOTFED_JOBS_BUCKET_URL": url,
        }
        wait_until(lambda: _answers(url), "the store")
        store(told).create_bucket(Bucket=BUCKET)
        yield told
    finally:
        server.kill()
        server.wait()


def store(told: Mapping[str, str]) -> Any:
    """A client of the store, with the credentials of the federation."""
    return boto3.client(
        "s3",
        endpoint_url=told["SPOTFED_JOBS_BUCKET_URL"],
        region_name=REGION,
        aws_access_key_id=told["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=told["AWS_SECRET_ACCESS_KEY"],
    )


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def federation(
    directory: Path, redis_url: str, text: str, clouds: tuple[str, ...], port: int, told: Mapping[str, str]
) -> Iterator[JobsOnInstances]:
    """The federation of that file, whose clouds are all real, once each would start an instance for a job."""
    file = directory / "federation.toml"
    file.write_text(text)
    options = wall_time(speed=1, history="1h", samples=10, seed=0)
    layout = ProcessList(file, clouds, options, 0, port=port, instanced=clouds, boots_agents=True)
    prefix = f"ij{os.getpid()}-{next(_prefixes)}:"
    local = LocalFederation(
        layout, directory / "state", redis_url, prefix, forget=True, environment=dict(told)
    )
    with local, local.client() as client:
        request = SpotRequest(
            origin="guest", cores=1, lifetime_s=60.0, sla=None, targets=clouds, launch=Launch(agent=True)
        )
        wait_until(lambda: len(client.requests.quote(request).quotes) == len(clouds), "they start jobs", 120)
        yield JobsOnInstances(local, client, directory, redis_url)


def install_script(told: Mapping[str, str]) -> str:
    """What an operator's installation does here: spotfed is there, and no credential comes along."""
    names = " ".join(sorted({*told, "SPOTFED_REDIS_URL", "SPOTFED_API_KEY"}))
    return f"unset {names}\nexport PYTHONPATH={ROOT} PYTHONUNBUFFERED=1\ncd /\n"


class Hypervisor(threading.Thread):
    """Stands for the machines of a cloud whose instances run nothing: runs the user data of its instances.

    It reads them at the cloud's API, and has a shell run them, as cloud-init does. What an instance runs is
    killed when it is terminated.
    """

    def __init__(self, directory: Path):
        super().__init__(daemon=True)
        self._directory, self._ending = directory, threading.Event()
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self.user_data: list[str] = []

    def instances(self) -> set[str]:
        """The cloud's names of the leases' instances that run."""
        raise NotImplementedError

    def read_user_data(self, name: str) -> str:
        """What the cloud has for an instance, in base64."""
        raise NotImplementedError

    def run(self) -> None:
        while not self._ending.wait(0.2):
            alive = self.instances()
            for name in alive - self._machines.keys():
                self._machines[name] = self._boot(name)
            for name in set(self._machines) - alive:
                self._cut(name)

    def stop(self) -> None:
        self._ending.set()
        self.join(10)
        for name in list(self._machines):
            self._cut(name)

    def _boot(self, name: str) -> subprocess.Popen[bytes]:
        text = base64.b64decode(self.read_user_data(name)).decode()
        self.user_data.append(text)
        machine = self._directory / name
        machine.mkdir(mode=0o755)
        script = machine / "user-data"
        script.write_text(text)
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(machine)}
        with (machine / "console").open("wb") as console:
            return subprocess.Popen(
                ["/bin/sh", script], env=environment, stdout=console, stderr=console, start_new_session=True
            )

    def _cut(self, name: str) -> None:
        machine = self._machines.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()
        for state in (self._directory / name).glob("*/agents/instance/*/state"):
            end_shim(state)


class Ec2Machines(Hypervisor):
    """The machines of one region of a cloud that speaks EC2."""

    def __init__(self, scene: Ec2Scene, region: str, directory: Path):
        super().__init__(directory)
        self._ec2 = boto3.client(
            "ec2", region_name=region, endpoint_url=scene.url, aws_access_key_id=scene.user,
            aws_secret_access_key=scene.secret,
        )  # fmt: skip

    def instances(self) -> set[str]:
        found = [one for part in self._ec2.describe_instances()["Reservations"] for one in part["Instances"]]
        return {one["InstanceId"] for one in found if one["State"]["Name"] == "running"}

    def read_user_data(self, name: str) -> str:
        told = self._ec2.describe_instance_attribute(InstanceId=name, Attribute="userData")
        return str(told["UserData"]["Value"])

    def take_back(self) -> None:
        """The cloud terminates all instances."""
        self._ec2.terminate_instances(InstanceIds=sorted(self.instances()))


class NovaMachines(Hypervisor):
    """The machines of the server that speaks Nova's API, as far as they run leases."""

    def __init__(self, nova: NovaServer, directory: Path):
        super().__init__(directory)
        self._nova = nova

    def instances(self) -> set[str]:
        self._nova.settle()
        return {name for name, server in self._nova.servers.items() if server["status"] == "ACTIVE"}

    def read_user_data(self, name: str) -> str:
        return str(self._nova.servers[name]["_user_data"])


@contextmanager
def running(machines: Machines) -> Iterator[Machines]:
    """Machines, which run until the end."""
    machines.start()
    try:
        yield machines
    finally:
        machines.stop()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that all users may pass through, as jobs have users of their own."""
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="spotfed-jobs-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)
        yield directory


def token_of(user_data: str) -> str:
    """The token in a script."""
    (line,) = (line for line in user_data.splitlines() if "umask 077" in line)
    return line.split("printf %s ")[1].split()[0].strip("'")
