"""The calls of a node agent on an instance: its token opens its own work, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.api.services import instances
from broker.client import Client, InputRefusedError, NotFoundError, ProblemAnswer, UnauthorizedError
from broker.contract import Lease
from broker.contract.launch import LaunchRules
from broker.identity.permissions import Role
from broker.jobs.bucket import Bucket
from broker.jobs.models import JobWish, StateRequest, Work, WorkReport, WorkState
from broker.jobs.work_queue import WorkStore, decode_log
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from broker.signing.agent_keys import read_agent_key
from broker.signing.key_files import SigningKey
from broker.signing.parties import JOBS, cloud_party
from broker.signing.signer import MessageSigner
from cloudsim.model.flavours import CloudFlavour
from tests.contract.harness import KEY, Federation, serving, signing_files
from tests.contract.test_launches import stored
from tests.contract.test_requests import problem
from tests.support.wait import wait_until
from workers.cloud_agent.leases import CloudLeases
from workers.owner.catalogue import CatalogueReader

WISH: dict[str, Any] = {"id": "j.1.0", "cores": 2, "lifetime_s": 3600, "targets": ["glade"]}


@dataclass
class Scene:
    """A lease of a job on the real cloud "glade", its token, and the job manager's hand."""

    federation: Federation
    agent: CloudLeases
    works: WorkStore
    lease: Lease
    token: str

    def client(self) -> Client:
        return Client(self.federation.url, self.token, deadline_s=2.0)

    def assign(self, **more: Any) -> Work:
        work = Work.model_validate(
            {
                "id": "j.1.0", "job": "j", "attempt": 1, "cloud": "glade", "instance": self.lease.id,
                "spot": True, "node": 0, "command": ("true",), "cores": 2, **more,
            }
        )  # fmt: skip
        self.works.put([work])
        return work


@pytest.fixture
def scene(redis_url: str, tmp_path: Path) -> Iterator[Scene]:
    with serving(Federation(redis_url)) as federation:
        files, party = signing_files(), cloud_party("glade")
        files.ensure([party, JOBS])
        signing = MessageSigner(SigningKey(files.key(party)))
        key = read_agent_key(tmp_path / "glade.jwk")
        agent = CloudLeases(federation.redis, federation.keys, "glade", signing, key)
        agent.write_catalogue([CloudFlavour("m1.small", 2)], LaunchRules(jobs=True))
        reader = CatalogueReader(federation.redis, federation.keys, "glade", MessageSigner(), lambda: 0.0)
        federation.join("glade", catalogue=reader).tell(instances="openstack", runs_commands=True)
        works = WorkStore(federation.redis, federation.keys, MessageSigner(SigningKey(files.key(JOBS))))
        federation.forget_members()
        with httpx.Client(base_url=federation.url, headers={"Authorization": f"Bearer {KEY}"}) as api:
            answer = api.post("/v1/requests", json=WISH | {"launch": {"agent": True}})
        assert answer.status_code == 201, answer.text
        lease = Lease.model_validate(answer.json()["lease"])
        launch = agent.open_launch(lease)
        assert launch.agent_token is not None
        yield Scene(federation, agent, works, lease, launch.agent_token.get_secret_value())


def test_a_token_is_told_to_its_agent_and_kept_nowhere(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    assert scene.lease.launch is not None
    assert (scene.lease.launch.agent, scene.lease.launch.secrets) == (True, ("agent_token",))
    with scene.client() as client:
        assert client.instance.get_work().work is None
    assert scene.token not in stored(scene.federation) + caplog.text


def test_an_agent_gets_its_work_and_reports_for_job_managers(scene: Scene) -> None:
    with scene.client() as client:
        before = client.instance.get_work()
        work = scene.assign()
        told = client.instance.get_work(before.version)
        assert (told.work, told.lease, told.leave_in_s) == (work, scene.lease, None)
        report = WorkReport(work=work.id, state=WorkState.RUNNING, at=1.0)
        client.instance.write_report(report, is_news=True)
        client.instance.write_output(3, b"\xffhello")
        assert scene.works.read_reports("glade", [work.id]) == {work.id: report}
        text: Any = scene.federation.redis.get(scene.federation.keys.work_log("glade", work.id))
        assert decode_log(text) == (3, b"\xffhello")
        assert client.instance.get_work().report == report


def test_news_of_the_lease_come_at_once(scene: Scene) -> None:
    scene.assign()
    with scene.client() as client, Client(scene.federation.url, KEY) as operator:
        known = client.instance.get_work()
        operator.leases.cancel(scene.lease.id)
        told = client.instance.get_work(known.version)
        assert told.lease is not None
        assert not told.lease.state.is_open


def test_a_token_opens_nothing_of_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    monkeypatch.setattr(scene.federation.services.instances, "_bucket", Bucket("states", "spotfed", None))
    scene.assign(restore=("j.0.0", 3))
    other = WorkReport(work="k.1.0", state=WorkState.EXITED, at=1.0)
    with scene.client() as client:
        with pytest.raises(InputRefusedError, match=r"report\.work"):
            client.instance.write_report(other, is_news=True)
        refused = [("read", "k.1.0", 1), ("read", "j.0.0", 2), ("write", "j.0.0", 3), ("write", "k.1.0", 1)]
        for action, work, checkpoint in refused:
            with pytest.raises(InputRefusedError, match="is not the work of this token"):
                client.instance.sign(wanted(action, work, checkpoint))
        for action, work, checkpoint in (("read", "j.0.0", 3), ("write", "j.1.0", 1), ("read", "j.1.0", 1)):
            (url,) = client.instance.sign(wanted(action, work, checkpoint))
            assert f"/spotfed/j/{work}/{checkpoint}/part-00000?" in url
        for call in (client.jobs.list, client.leases.list, client.clouds.list):
            with pytest.raises(UnauthorizedError):
                call()
    assert scene.works.read_reports("glade", ["k.1.0"]) == {}


def report(client: Client) -> None:
    client.instance.write_report(WorkReport(work="j.1.0", state=WorkState.RUNNING, at=1.0), is_news=True)


def wanted(action: str, work: str, checkpoint: int) -> StateRequest:
    return StateRequest.model_validate(
        {"action": action, "work": work, "checkpoint": checkpoint, "files": ("part-00000",)}
    )


def test_no_key_opens_what_tokens_open(scene: Scene) -> None:
    paths = [
        f"{method} {path}"
        for path, verbs in httpx.get(f"{scene.federation.url}/openapi.json").json()["paths"].items()
        for method in verbs
        if path.startswith("/v1/instance/")
    ]
    assert len(paths) == 4
    for key in (KEY, "", scene.token + "x"):
        for method, _, path in (one.partition(" ") for one in paths):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            answer = httpx.request(method, f"{scene.federation.url}{path}", headers=headers, json=None)
            assert answer.status_code == 401, (path, answer.text)


def test_a_token_is_worthless_without_work_and_dies_with_the_lease(scene: Scene) -> None:
    work = scene.assign()
    with scene.client() as client, Client(scene.federation.url, KEY) as operator:
        known = client.instance.get_work()
        scene.works.drop("glade", [work.id])
        assert client.instance.get_work(known.version).work is None
        for call in (lambda: client.instance.sign(wanted("write", work.id, 1)), lambda: report(client)):
            with pytest.raises(NotFoundError):
                call()
        scene.assign()  # a Redis that had lost it is told again
        assert client.instance.get_work().work == work
        scene.works.drop("glade", [work.id])
        operator.leases.cancel(scene.lease.id)
        with pytest.raises(UnauthorizedError):
            client.instance.get_work()
    assert not list(scene.federation.redis.scan_iter(scene.federation.keys.instance_token("*")))


def test_a_token_dies_with_its_lease_after_a_last_word(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    work = scene.assign()
    with scene.client() as client, Client(scene.federation.url, KEY) as operator:
        operator.leases.cancel(scene.lease.id)
        wait_until(lambda: not operator.leases.get(scene.lease.id).state.is_open, "it has ended")
        report = WorkReport(work=work.id, state=WorkState.EVICTED, at=1.0)
        client.instance.write_report(report, is_news=True)
        assert scene.works.read_reports("glade", [work.id]) == {work.id: report}
        with pytest.raises(UnauthorizedError):
            client.instance.sign(wanted("write", work.id, 1))
        monkeypatch.setattr(instances, "LAST_WORD_S", -1e9)
        with pytest.raises(UnauthorizedError):
            client.instance.get_work()


def test_work_that_no_job_manager_signed_is_not_handed_out(scene: Scene) -> None:
    work = scene.assign()
    forged = work.model_copy(update={"command": ("evil",)})
    scene.federation.redis.hset(scene.federation.keys.work("glade"), work.id, forged.model_dump_json())
    with scene.client() as client:
        assert client.instance.get_work().work is None


def test_members_start_no_agents(scene: Scene) -> None:
    with Client(scene.federation.url, KEY) as operator:
        operator.members.add(MemberWish(name="acme"))
        key = operator.api_keys.create(KeyWish(principal="acme", role=Role.MEMBER)).key
    with httpx.Client(base_url=scene.federation.url, headers={"Authorization": f"Bearer {key}"}) as api:
        answer = api.post("/v1/requests", json=WISH | {"launch": {"agent": True}})
        assert answer.json()["errors"][0]["field"] == "launch"
    with httpx.Client(base_url=scene.federation.url, headers={"Authorization": f"Bearer {KEY}"}) as api:
        told = {"agent": True, "agent_token": "mine"}
        problem(api.post("/v1/requests", json=WISH | {"id": "x", "launch": told}), "invalid")


def test_without_a_bucket_nothing_is_signed(scene: Scene) -> None:
    work = scene.assign()
    with scene.client() as client, pytest.raises(ProblemAnswer, match="in no bucket"):
        client.instance.sign(wanted("write", work.id, 1))
    with Client(scene.federation.url, KEY) as client:
        client.jobs.submit(JobWish(command=("true",), home="glade", id="j"))
        with pytest.raises(ProblemAnswer, match="in no bucket"):
            client.jobs.find_files("j")
