"""What the instance of a lease runs is its holder's choice, and its secrets are for the cloud agent alone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from broker.client import Client
from broker.contract import Lease, OverflowTerms, RefusalView, Reserve, Show, StartOnDemand, StopOnDemand
from broker.contract.launch import Launch, LaunchRules
from broker.jobs.record import JobRecord
from broker.jobs.work_queue import WorkStore
from broker.signing.agent_keys import SealError, read_agent_key
from broker.signing.key_files import SigningKey, TrustFile
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner
from cloudsim.model.flavours import CloudFlavour
from tests.contract.harness import KEY, FakeOwner, Federation, Run, signing_files
from tests.contract.test_renewable_jobs import job
from tests.contract.test_requests import problem
from tests.support.wait import wait_until
from tests.unit.broker.contract.public_key import PUBLIC_KEY
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.owner_client import OwnerClient
from workers.job_manager.market_client import MarketClient
from workers.owner.catalogue import CatalogueReader

SECRET = "#!/bin/sh\necho s3cret-of-its-holder\n"
LAUNCH: dict[str, Any] = {
    "image": "debian-12", "key": PUBLIC_KEY, "tags": {"team": "x"}, "user_data": SECRET,
}  # fmt: skip
WISH: dict[str, Any] = {"cores": 2, "lifetime_s": 3600, "launch": LAUNCH}
RULES = LaunchRules(images=["debian-*"], keys=True, tags=True, user_data=True)


def agent_signer(cloud: str) -> MessageSigner:
    files, party = signing_files(), cloud_party(cloud)
    files.ensure([party])
    return MessageSigner(SigningKey(files.key(party)), TrustFile(files.trust))


@pytest.fixture
def agent(federation: Federation, api: httpx.Client, tmp_path: Path) -> CloudLeases:
    """What the cloud agent of the real cloud "glade" reads and writes."""
    key = read_agent_key(tmp_path / "glade.jwk")
    agent = CloudLeases(federation.redis, federation.keys, "glade", agent_signer("glade"), key)
    agent.write_catalogue([CloudFlavour("m1.small", 2)], RULES)
    reader = CatalogueReader(federation.redis, federation.keys, "glade", MessageSigner(), lambda: 0.0)
    federation.join("glade", catalogue=reader).tell(instances="openstack")
    wait_until(lambda: api.get("/v1/clouds/glade").json()["info"]["instances"] == "openstack")
    return agent


def stored(federation: Federation) -> str:
    """All that Redis holds of the federation."""
    client = federation.redis
    readers: dict[Any, Callable[[Any], Any]] = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"set": client.smembers,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"stream": client.xrange,
    }
    keys = client.scan_iter(f"{federation.prefix}*")
    return "\n".join(f"{key!r} {readers[client.type(key)](key)!r}" for key in keys)


def lease_of(response: httpx.Response) -> Lease:
    assert response.status_code == 201, response.text
    return Lease.model_validate(response.json()["lease"])


def test_its_agent_gets_all_of_it_and_nobody_else_the_secrets(
    federation: Federation, api: httpx.Client, agent: CloudLeases, caplog: pytest.LogCaptureFixture
) -> None:
    lease = lease_of(api.post("/v1/requests", json=WISH))
    assert lease.launch is not None
    assert (lease.launch.image, lease.launch.key) == ("debian-12", PUBLIC_KEY)
    assert (lease.launch.user_data, lease.launch.secrets) == (None, ("user_data",))
    assert agent.open_launch(lease) == Launch(**LAUNCH)
    (reserved,) = (one for one in federation.owners["glade"].handled if isinstance(one, Reserve))
    assert reserved.launch == lease.launch
    held = stored(federation)
    assert '"debian-12"' in held
    assert "s3cret" not in held + caplog.text + api.get(f"/v1/leases/{lease.id}").text
    name = federation.keys.launch(lease.launch.sealed or "")
    assert 0 < int(federation.redis.ttl(name)) <= 86_400


def test_what_is_not_kept_any_more_cannot_be_opened(
    federation: Federation, api: httpx.Client, agent: CloudLeases
) -> None:
    lease = lease_of(api.post("/v1/requests", json=WISH))
    assert lease.launch is not None
    federation.redis.delete(federation.keys.launch(lease.launch.sealed or ""))
    with pytest.raises(SealError, match="not kept any more"):
        agent.open_launch(lease)


def test_the_same_request_again_is_the_same_lease_and_another_script_another_request(
    api: httpx.Client, agent: CloudLeases
) -> None:
    first = lease_of(api.post("/v1/requests", json=WISH | {"id": "mine"}))
    assert lease_of(api.post("/v1/requests", json=WISH | {"id": "mine"})) == first
    other = WISH | {"id": "mine", "launch": LAUNCH | {"user_data": SECRET + "# other"}}
    problem(api.post("/v1/requests", json=other), "key-reused")


def test_secrets_of_a_list_are_kept_once(
    federation: Federation, api: httpx.Client, agent: CloudLeases
) -> None:
    answer = api.post("/v1/requests", json=[WISH, WISH, WISH | {"launch": {"image": "debian-12"}}])
    leases = [Lease.model_validate(result["lease"]) for result in answer.json()["results"]]
    assert [bool(lease.launch and lease.launch.sealed) for lease in leases] == [True, True, False]
    assert len(list(federation.redis.scan_iter(federation.keys.launch("*")))) == 1
    assert [agent.open_launch(lease).image for lease in leases] == ["debian-12"] * 3


@pytest.mark.parametrize(
    ("launch", "detail"),
    [
        ({"image": "windows"}, "images: windows"),
        ({"networks": ["lab"]}, "networks: lab"),
        ({"user_data": SECRET, "arguments": ["x"]}, "arguments"),
    ],
)
def test_what_the_operator_does_not_allow_is_refused_before_it_is_promised(
    api: httpx.Client, agent: CloudLeases, launch: dict[str, Any], detail: str
) -> None:
    for response in (
        problem(api.post("/v1/requests", json=WISH | {"launch": launch}), "refused"),
        api.post("/v1/quotes", json=WISH | {"launch": launch}).json(),
    ):
        (refusal,) = response["refusals"]
        assert (refusal["reason"], refusal["detail"]) == ("not_allowed", detail)


def test_flavours_by_name(api: httpx.Client, agent: CloudLeases) -> None:
    launch = {"instance_type": "m1.small"}
    assert lease_of(api.post("/v1/requests", json=WISH | {"launch": launch})).launch == Launch(**launch)
    asked = WISH | {"launch": {"instance_type": "m1.huge"}}
    (refusal,) = problem(api.post("/v1/requests", json=asked), "refused")["refusals"]
    assert refusal["reason"] == "no_such_flavour"
    (quote,) = api.post("/v1/quotes", json=WISH).json()["quotes"]
    assert quote["cloud"] == "glade"


def test_a_simulated_cloud_runs_nothing(federation: Federation, api: httpx.Client) -> None:
    federation.join("meadow")
    wait_until(lambda: api.get("/v1/clouds").json()["clouds"])
    (refusal,) = problem(api.post("/v1/requests", json=WISH), "refused")["refusals"]
    assert (refusal["cloud"], refusal["reason"]) == ("meadow", "not_allowed")


@pytest.mark.parametrize(
    ("launch", "field"),
    [
        ({"user_data": "s3cret" * 9999}, "launch.user_data"),
        ({"key": "s3cret"}, "launch.key"),
        ({"flavour": "s3cret"}, "launch.flavour"),
    ],
)
def test_mistakes_are_named_and_nothing_of_them_is_told(
    api: httpx.Client, agent: CloudLeases, launch: dict[str, Any], field: str
) -> None:
    answer = api.post("/v1/requests", json=WISH | {"launch": launch})
    (error,) = problem(answer, "invalid")["errors"]
    assert error["field"] == field
    assert "s3cret" not in answer.text


def test_the_secrets_of_another_request_cannot_be_named(api: httpx.Client, agent: CloudLeases) -> None:
    launch = lease_of(api.post("/v1/requests", json=WISH)).launch
    assert launch is not None
    answer = api.post("/v1/requests", json=WISH | {"launch": launch.model_dump(mode="json")})
    (error,) = problem(answer, "invalid")["errors"]
    assert error["field"] == "launch"


def test_a_key_that_is_none_hurts_its_own_cloud_alone(
    federation: Federation, api: httpx.Client, agent: CloudLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.cloud_agent.leases.public_half", lambda _: '{"kty": "OKP"}')
    agent.write_catalogue([CloudFlavour("m1.small", 2)], RULES)
    lease = lease_of(api.post("/v1/requests", json=WISH))
    with pytest.raises(SealError, match="not kept any more, or not for this agent"):
        agent.open_launch(lease)


def test_a_federation_that_is_being_upgraded_refuses_what_an_older_process_would_drop(
    federation: Federation, api: httpx.Client, agent: CloudLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(federation.owners["glade"], FakeOwner)
    monkeypatch.setattr("broker.requests.launches._SINCE", 99)
    (error,) = problem(api.post("/v1/requests", json=WISH), "invalid")["errors"]
    assert "is older and does not know it yet" in error["message"]


def test_the_command_line_sends_all_of_it(spotfed: Run, agent: CloudLeases, tmp_path: Path) -> None:
    (tmp_path / "id.pub").write_text(f"{PUBLIC_KEY} me@here\n")
    (tmp_path / "run.sh").write_text(SECRET)
    wish = ("submit", "--cores", 2, "--lifetime", "1h", "--sla", "none")
    chosen = ("--image", "debian-12", "--key", tmp_path / "id.pub", "--user-data", tmp_path / "run.sh")
    code, text, errors = spotfed(*wish, *chosen, "--tag", "team=x", "--json")
    assert code == 0, errors
    opened = agent.open_launch(Lease.model_validate_json(json.dumps(json.loads(text)["lease"])))
    assert opened == Launch.model_validate(LAUNCH | {"key": f"{PUBLIC_KEY} me@here"})
    code, text, _ = spotfed(*wish, "--image", "windows")
    assert (code, "not_allowed" in text or "images: windows" in text) == (3, True)


def test_a_quote_tells_what_would_be_refused(spotfed: Run, agent: CloudLeases, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(SECRET)
    wish = ("quote", "--cores", 2, "--lifetime", "1h", "--sla", "none", "--json")
    code, text, _ = spotfed(*wish, "--image", "debian-12", "--user-data", tmp_path / "run.sh")
    assert (code, [quote["cloud"] for quote in json.loads(text)["quotes"]]) == (0, ["glade"])
    for choice, reason in (
        (("--image", "windows"), "not_allowed"),
        (("--instance-type", "x"), "no_such_flavour"),
    ):
        code, text, _ = spotfed(*wish, *choice)
        (refusal,) = json.loads(text)["refusals"]
        assert (code, refusal["reason"]) == (3, reason)


def test_a_fleet_runs_it_too(
    federation: Federation, spotfed: Run, agent: CloudLeases, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(SECRET)
    size = ("--cores", 2, "--lifetime", "1h", "--sla", "none", "--name", f"f{federation.prefix[1:-1]}")
    chosen = ("--image", "debian-12", "--user-data", tmp_path / "run.sh")
    keep = ("fleet", "keep", "--instances", 2, *size, *chosen, "--for", "0.1s", "--keep-leases", "--json")
    code, text, errors = spotfed(*keep)
    assert code == 0, errors
    started = [line for line in map(json.loads, text.splitlines()) if line.get("kind") == "admitted"]
    with Client(federation.url) as client:
        leases = [client.leases.get(line["lease"]) for line in started]
    assert [agent.open_launch(lease) for lease in leases] == [Launch(image="debian-12", user_data=SECRET)] * 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--key", "none.pub"), "--key: none.pub cannot be read"),
        (("--key", "run.sh"), "--key: should be a public key of SSH"),
        (("--argument", "x"), "--user-data: arguments and environment go with user_data"),
        (("--user-data", "run.sh", "--env", "LD_PRELOAD=x"), "--env: names of variables"),
        (("--tag", "team"), "--tag: 'team' is not NAME=VALUE"),
    ],
)
def test_mistakes_on_the_command_line_name_the_option(
    spotfed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(SECRET)
    code, _, errors = spotfed("submit", "--cores", 2, "--lifetime", "1h", *options)
    assert (code, told in " ".join(errors.split())) == (2, True), errors
    assert "s3cret" not in errors


def test_what_a_real_cloud_has_no_room_for_runs_elsewhere_with_its_image_and_data(
    federation: Federation, api: httpx.Client, agent: CloudLeases, caplog: pytest.LogCaptureFixture
) -> None:
    federation.join("meadow")  # simulated: it runs nothing
    home = federation.join("home", (2,), overflow=True, catalogue=lambda: None)
    home.tell(instances="openstack")
    wait_until(lambda: api.get("/v1/clouds/home").json()["info"]["instances"] == "openstack")
    signer = agent_signer("home")
    owner = OwnerClient(federation.redis, federation.keys, "home", "agent", signer, lambda _: None)
    leases = CloudLeases(federation.redis, federation.keys, "home", signer)

    def ask(command: type[Any], instance: str, **fields: Any) -> Any:
        message = command(
            id=f"{instance}:{command.__name__}", reply_to=owner.reply_to, instance=instance, **fields
        )
        return owner.ask([message], 10.0)[message.id]

    ask(StartOnDemand, "home/direct-1", cores=2, lifetime_s=None)
    launch = leases.seal_launch(Launch(image="debian-12", key=PUBLIC_KEY, user_data=SECRET), 3 * 86_400)
    kept = federation.keys.overflow_launch("home", launch.sealed or "")
    assert int(federation.redis.ttl(kept)) > 3 * 86_400
    terms = OverflowTerms(lifetime_s=3600, launch=launch)
    instance = "home/freed-vm.offered"
    refusal = ask(StartOnDemand, instance, cores=2, lifetime_s=300, overflow=terms)
    assert (refusal.reason, refusal.detail) == ("no_capacity", "offered to the federation as a spot request")

    def shown() -> Any:
        return Show(id=uuid4().hex, reply_to=owner.reply_to, instance=instance)

    def placed() -> Any:
        question = shown()
        answer = owner.ask([question], 10.0)[question.id]
        assert isinstance(answer, RefusalView)
        return answer.overflow if answer.overflow and answer.overflow.lease else None

    offer = wait_until(placed)
    lease = Lease.model_validate(api.get(f"/v1/leases/{offer.lease}").json())
    assert (offer.cloud, lease.origin, lease.cores) == ("glade", "home", 2)
    assert lease.ends_at_s is not None
    assert lease.ends_at_s - lease.starts_at_s == pytest.approx(3600)
    assert lease.request == f"overflow/home/{instance}/1"
    assert agent.open_launch(lease) == Launch(image="debian-12", key=PUBLIC_KEY, user_data=SECRET)
    assert "s3cret" not in stored(federation) + caplog.text
    ask(StopOnDemand, instance)
    wait_until(lambda: api.get(f"/v1/leases/{offer.lease}").json()["state"] == "cancelled")


def test_a_job_is_offered_what_its_instance_may_be_started_as(federation: Federation, tmp_path: Path) -> None:
    """The quote is for the very instance of the job: a cloud that offers does not refuse for its sake."""
    key = read_agent_key(tmp_path / "glade.jwk")
    agent = CloudLeases(federation.redis, federation.keys, "glade", agent_signer("glade"), key)
    clock = itertools.count(step=10)
    reader = CatalogueReader(federation.redis, federation.keys, "glade", MessageSigner(), clock.__next__)
    federation.join("glade", catalogue=reader, runs_commands=True).tell(instances="openstack")
    federation.redis.set(federation.keys.agent("glade"), "alive")
    works = WorkStore(federation.redis, federation.keys)
    typed = job(instance_type="m1.tiny")
    with Client(federation.url, KEY) as client:
        wait_until(lambda: client.clouds.get("glade").info.instances == "openstack")

        def offered(record: JobRecord) -> dict[str, str]:
            market = MarketClient(client, works).market(record, 600.0)
            return dict(market.refused) or {offer.cloud: "offers" for offer in market.offers}

        assert "has not described its flavours yet" in offered(job())["glade"]
        agent.write_catalogue([CloudFlavour("m1.small", 2)], RULES)
        assert "batch jobs" in offered(job())["glade"]
        agent.write_catalogue([CloudFlavour("m1.small", 1)], RULES.model_copy(update={"jobs": True}))
        assert "m1.tiny" in offered(typed)["glade"]
        assert offered(job()) == {"glade": "offers"}
