"""A federation whose parties have the Redis users that ``spotfed acl generate`` makes, and nothing more."""

from __future__ import annotations

import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import redis
from celery import Celery
from redis.exceptions import NoPermissionError

from broker import cli
from broker.contract import VERSION, Batch, Event, EventKind, Lease, LeaseGranted, LeaseState, StartOnDemand
from broker.contract.instances import InstanceRecord
from broker.identity.store import let_in_operator
from broker.journal.journal import Commit, Journal
from broker.queue.celery_config import (
    CONTROL_CHANNEL,
    CONTROL_REPLIES,
    EVENT_CHANNELS,
    JOBS,
    MONTECARLO,
    cloud_queue,
    make_app,
)
from broker.queue.send import ring, ring_for_job, send_batch
from broker.settings import Settings, settings
from broker.signing.key_files import create_key
from broker.signing.signer import UNSIGNED
from broker.storage.connections import connect
from broker.storage.negotiation import FederationVersion
from broker.storage.outages import until_answered
from broker.storage.scripts import load_scripts
from cloudsim.model.requests import Kind
from tests.integration.redis_servers import ADMIN, server_with_acl
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until
from workers.agents.agent_lock import AgentLock
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.owner_client import OwnerClient

pytestmark = pytest.mark.xdist_group("worker-processes")

FEDERATION = """
[[cloud]]
id = "A"
nodes = "16x4"
driver = "process"
trace = { synthetic = "table-1", hours = 120, seed = 1 }

[[cloud]]
id = "B"
nodes = "4x4"
trace = { synthetic = "table-1", hours = 120, seed = 2 }
"""


class Shared:
    """A server that A and B share, under a key prefix, with the users of the generated file."""

    def __init__(self, processes: Processes, directory: Path, acl: Path):
        self.processes, self.keys, self.acl = processes, processes.keys, acl
        self._users = directory / "users"
        self._base = processes.settings.key_prefix.strip(":")

    def url(self, user: str) -> str:
        line = (self._users / f"{self._base}-{user}.env").read_text()
        assert (self._users / f"{self._base}-{user}.env").stat().st_mode & 0o777 == 0o600
        return shlex.split(line)[0].partition("=")[2]

    def client(self, user: str) -> redis.Redis:
        return connect(self.url(user))

    def denied(self) -> list[dict[str, Any]]:
        """What the server refused since the last reset of its log."""
        return list(self.processes.client.acl_log(128))


@pytest.fixture
def shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shared]:
    with (
        server_with_acl(tmp_path) as (address, acl),
        Processes(f"{address}&username=admin&password=pw", tmp_path) as processes,
    ):
        processes.file.write_text(FEDERATION)
        monkeypatch.setenv("SPOTFED_KEY_PREFIX", processes.settings.key_prefix)
        settings.cache_clear()
        made = tmp_path / "made.acl"
        told = ["--out", str(made), "--users-out", str(tmp_path / "users"), "--redis", address]
        told += ["--together", "A,B"]
        monkeypatch.setattr(sys, "argv", ["spotfed", "acl", "generate", str(processes.file), *told])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code in {0, None}
        settings.cache_clear()
        acl.write_text(made.read_text() + ADMIN + "\n")
        assert processes.client.execute_command("ACL", "LOAD") in {b"OK", True}
        load_scripts(processes.client)
        shared = Shared(processes, tmp_path, made)
        said = capsys.readouterr()
        parties = ("broker", "montecarlo", "jobs", "reader", "operator")
        own = [f"{kind}-{cloud}" for kind in ("cloud", "agent", "instances") for cloud in "AB"]
        for user in (*own, "owner-A", *parties):
            password = shared.url(user).rpartition("=")[2]
            assert len(password) > 40
            assert password not in said.out + said.err + made.read_text()
        yield shared


def test_a_federation_lives_under_its_users(shared: Shared) -> None:
    processes = shared.processes
    with shared.client("operator") as operator:
        let_in_operator(operator, shared.keys, "k")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    signed = {"SPOTFED_TRUST": str(processes.directory / "trust.json")}
    for party in ("broker", "cloud.A", "jobs"):
        create_key(party, processes.directory / f"{party}.key", Path(signed["SPOTFED_TRUST"]))
    processes.owner(
        "--speed", "60", "--history", "30h", SPOTFED_REDIS_URL=shared.url("cloud-A"),
        SPOTFED_SIGNING_KEY=str(processes.directory / "cloud.A.key"), **signed,
    )  # fmt: skip
    processes.start("workers.montecarlo", "--name", "m", SPOTFED_REDIS_URL=shared.url("montecarlo"))
    processes.start(
        "broker.api", "--port", port, SPOTFED_REDIS_URL=shared.url("broker"),
        SPOTFED_SIGNING_KEY=str(processes.directory / "broker.key"),
        SPOTFED_WEBHOOK_ALLOW="127.0.0.0/8", **signed,
    )  # fmt: skip
    processes.start(
        "workers.node_agent", "--cloud", "A", "--federation", str(processes.file),
        SPOTFED_REDIS_URL=shared.url("agent-A"),
        SPOTFED_SIGNING_KEY=str(processes.directory / "cloud.A.key"), **signed,
    )  # fmt: skip
    processes.start(
        "workers.job_manager", "--name", "own", SPOTFED_REDIS_URL=shared.url("jobs"), SPOTFED_URL=f"http://127.0.0.1:{port}",
        SPOTFED_API_KEY="k", SPOTFED_SIGNING_KEY=str(processes.directory / "jobs.key"), **signed,
    )  # fmt: skip
    processes.table(1)  # made of the Monte-Carlo worker's samples

    with (
        socket.socket() as nobody,
        shared.client("reader") as reader,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": "Bearer k"}, timeout=60
        ) as http,
    ):
        listening = reader.pubsub()
        listening.psubscribe(shared.keys.channel("*"))
        wait_until(lambda: _reaches(http), "the API")
        assert http.post("/v1/members", json={"name": "acme", "clouds": ["B"]}).status_code == 201
        assert http.post("/v1/keys", json={"principal": "acme", "role": "member"}).status_code == 201
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        hook = http.post("/v1/webhooks", json={"url": f"http://127.0.0.1:{nobody.getsockname()[1]}/"})
        assert hook.status_code == 201, hook.text
        wish = {"cores": 1, "lifetime_s": 600, "sla": 0.5, "origin": "B"}
        assert http.post("/v1/quotes", json=wish).json()["quotes"]
        answer = http.post("/v1/requests", json=wish, headers={"Idempotency-Key": "one"})
        assert answer.status_code == 201, answer.text
        lease = answer.json()["lease"]["id"]
        wait_until(lambda: http.get(f"/v1/leases/{lease}").json()["state"] == "running", "a running lease")
        assert http.delete(f"/v1/leases/{lease}").status_code == 200
        for path in ("clouds", "leases", "ledger", "clouds/A/table", "members", "keys", "audit"):
            assert http.get(f"/v1/{path}").status_code == 200, path
        _run_jobs(http)
        wait_until(lambda: _measured(http), "figures of Redis, the owner and the Monte-Carlo worker")
        tries = f"{hook.headers['location']}/deliveries"
        wait_until(lambda: http.get(tries).json()["deliveries"], "a delivery that failed")
        _control_remotely(shared)
        heard = wait_until(lambda: _message(listening), "an event by pub/sub")
        assert lease.encode() in heard or b'"A"' in heard
        assert reader.xlen(shared.keys.all_events) > 0
    # They tell the name of their library and ask how the server keeps its data, and go on without an answer.
    refused = {(one["username"], one["object"]) for one in shared.denied()}
    assert {what for _, what in refused} <= {"client|setinfo", "config|get"}, refused


def test_the_owners_of_two_clouds_live_in_one_process(shared: Shared) -> None:
    processes = shared.processes
    owner = (
        "workers.owner",
        "--all",
        "--federation",
        str(processes.file),
        "--speed",
        "60",
        "--history",
        "30h",
    )
    running = processes.start(*owner, SPOTFED_REDIS_URL=shared.url("owner-A"))
    processes.start("workers.montecarlo", "--name", "m", SPOTFED_REDIS_URL=shared.url("montecarlo"))
    processes.table(1)
    wait_until(lambda: processes.client.exists(shared.keys.table("B")), "a table of the other cloud")
    running.terminate()
    assert running.wait(60) == 0
    refused = {(one["username"], one["object"]) for one in shared.denied()}
    assert {what for _, what in refused} <= {"client|setinfo", "config|get"}, refused


def _control_remotely(shared: Shared) -> None:
    """The operator asks all workers and hears their events."""
    operator = _app(shared, "operator")
    ping = operator.control.inspect(timeout=10.0, limit=3).ping  # ends with the third answer

    def answers() -> bool:
        return {name.partition("-")[0] for name in ping() or {}} == {"cloud.A", "m", "jobs.own"}

    wait_until(answers, "answers of all workers")
    heard: set[str] = set()
    with operator.connection() as connection:
        receiver = operator.events.Receiver(
            connection, handlers={"worker-heartbeat": lambda event: heard.add(event["hostname"])}
        )
        for _ in receiver.itercapture(timeout=60, limit=6):
            pass
    assert heard


def _app(shared: Shared, user: str) -> Celery:
    return make_app(Settings(redis_url=shared.url(user), key_prefix=shared.keys.prefix))


def test_a_cloud_reaches_nothing_of_another(shared: Shared) -> None:
    keys, admin = shared.keys, shared.processes.client
    with shared.client("cloud-A") as owner:
        journal = Journal(owner, keys, "A")
        assert journal.acquire("token-of-A", 60) == 1
        for name in (keys.advert("A"), keys.table("A")):
            owner.set(name, "mine")
        owner.hset(keys.history("A", 1) + "x", "f", "v")
        owner.xadd(keys.journal("A"), {"e": "mine"}, id="1-1")
    admin.set(keys.lease("A", "r.1"), "A's")
    admin.hset(keys.request("r"), mapping={"attempt": 1, "cloud": "A"})
    overwrite = admin.script_load("return redis.call('SET', KEYS[1], 'mine')")
    shown = Lease(
        id="r.1", request="r", cloud="A", origin="B", kind=Kind.SPOT, cores=1, node=0, starts_at_s=0,
        ends_at_s=9, promised_sla=None, eviction_probability=None, table_version=None, fence=1, number=1,
        state=LeaseState.CANCELLED,
    )  # fmt: skip
    admin.xadd(keys.replies("api"), {"r": "[]"})
    ring(make_app(Settings(redis_url=shared.url("broker"), key_prefix=keys.prefix)), "A")
    before = admin.lrange(f"{keys.prefix}{cloud_queue('A')}", 0, -1)
    assert len(before) == 1

    with shared.client("cloud-B") as thief:
        own = Journal(thief, keys, "B")
        assert own.acquire("token-of-B", 60) == 1  # its own is no trouble
        event = Event(cloud="B", kind=EventKind.OPENED, at_s=0, at="2026-01-01T00:00:00Z", lease=shown)
        assert own.commit(Commit(1, "token-of-B", 60, 1, [event], leases=[shown]))
        assert admin.get(keys.lease("B", "r.1")), "what it commits of another's lease is under its own name"
        attempts: dict[str, Callable[[], object]] = {
            "read its inbox": lambda: thief.xrange(keys.inbox("A")),
            "send to its inbox": lambda: thief.xadd(keys.inbox("A"), {"c": "[]"}),
            "empty its inbox": lambda: thief.xtrim(keys.inbox("A"), maxlen=0),
            "read its journal": lambda: thief.xrange(keys.journal("A")),
            "write its journal": lambda: thief.xadd(keys.journal("A"), {"e": "{}"}),
            "read its public events past the API": lambda: thief.xrange(keys.events("A")),
            "read its epoch": lambda: thief.get(keys.epoch("A")),
            "raise its epoch": lambda: thief.set(keys.epoch("A"), 99),
            "take its advert's place": lambda: thief.set(keys.advert("A"), "{}"),
            "read its advert": lambda: thief.get(keys.advert("A")),
            "take its table's place": lambda: thief.set(keys.table("A"), "{}"),
            "read its history": lambda: thief.lrange(keys.history("A", 1), 0, -1),
            "read its lease": lambda: thief.get(keys.lease("A", "r.1")),
            "delete its lease": lambda: thief.delete(keys.lease("A", "r.1")),
            "show its lease as it likes": lambda: thief.set(keys.lease("A", "r.1"), "{}"),
            "show it so by a script": lambda: thief.evalsha(overwrite, 1, keys.lease("A", "r.1")),
            "run a script of its own": lambda: thief.eval("return 1", 0),
            "load a script of its own": lambda: thief.script_load("return 1"),
            "call a function": lambda: thief.fcall("f", 0),
            "load a function": lambda: thief.function_load("#!lua name=f"),
            "end how long it is shown": lambda: thief.expire(keys.lease("A", "r.1"), 1),
            "say where it runs": lambda: thief.hset(keys.request("r"), "cloud", "B"),
            "let it be forgotten where it runs": lambda: thief.expire(keys.request("r"), 1),
            "call it one of those that run": lambda: thief.sadd(keys.running("A"), "x.1"),
            "end its ownership": lambda: thief.delete(keys.owner("A")),
            "become its owner": lambda: Journal(thief, keys, "A").acquire("token-of-B", 60),
            "publish in its name": lambda: thief.publish(keys.channel("A"), "{}"),
            "listen to it": lambda: _subscribe(thief, keys.channel("A")),
            "take its doorbell": lambda: thief.brpop([f"{keys.prefix}{cloud_queue('A')}"], 1),
            "ring its doorbell": lambda: ring(
                make_app(Settings(redis_url=shared.url("cloud-B"), key_prefix=keys.prefix), cloud_queue("B")),
                "A",
            ),
            "take batches": lambda: thief.rpop(f"{keys.prefix}montecarlo"),
            "read answers to others": lambda: thief.xrange(keys.replies("api")),
            "delete answers to others": lambda: thief.delete(keys.replies("api")),
            "delete the merged events": lambda: thief.delete(keys.all_events),
            "read the merged events": lambda: thief.xrange(keys.all_events),
            "read API keys": lambda: thief.hgetall(keys.api_keys),
            "read requests": lambda: thief.hgetall(keys.request("r")),
            "list all keys": lambda: thief.keys("*"),
            "scan all keys": thief.scan,
            "empty the server": thief.flushall,
            "change its configuration": lambda: thief.config_set("maxmemory", 1),
            "read its configuration": lambda: thief.config_get("*"),
            "make a user": lambda: thief.acl_setuser("x", enabled=True),
            "watch everybody": lambda: thief.execute_command("MONITOR"),
        }
        got_through = {name for name, attempt in attempts.items() if not _is_denied(attempt)}
        assert got_through == set()
        # In a script too, which may be called on what it may only add to.
        for command in ("XRANGE', KEYS[1], '-', '+'", "DEL', KEYS[1]", "XTRIM', KEYS[1], 'MAXLEN', '0'"):
            script = admin.script_load(f"return redis.call('{command})")
            with pytest.raises(redis.ResponseError, match=r"(?i)acl|permission|can't access"):
                thief.evalsha(script, 1, keys.replies("api"))
        script = admin.script_load("return redis.call('GET', ARGV[1])")
        with pytest.raises(redis.ResponseError, match=r"(?i)acl|permission|can't access"):
            thief.evalsha(script, 0, keys.epoch("A"))

    assert admin.lrange(f"{keys.prefix}{cloud_queue('A')}", 0, -1) == before
    assert admin.get(keys.lease("A", "r.1")) == b"A's"
    assert admin.get(keys.epoch("A")) == b"1"
    assert admin.get(keys.owner("A")) == b"token-of-A"
    assert admin.get(keys.advert("A")) == admin.get(keys.table("A")) == b"mine"
    assert admin.xlen(keys.journal("A")) == admin.xlen(keys.replies("api")) == 1


def test_each_party_has_only_what_it_is_for(shared: Shared) -> None:
    keys = shared.keys
    for user in ("cloud-A", "montecarlo", "broker"):  # whoever is the first
        shared.processes.client.delete(keys.contract)
        with shared.client(user) as first:
            assert FederationVersion(first, keys).refresh() == VERSION
    with shared.client("reader") as reader, shared.client("montecarlo") as worker:
        for attempt in (
            lambda: reader.xadd(keys.all_events, {"e": "{}"}),
            lambda: reader.publish(keys.channel("A"), "{}"),
            lambda: reader.get(keys.advert("A")),
            lambda: worker.xadd(keys.inbox("A"), {"c": "[]"}),
            lambda: worker.rpush(keys.history("A", 1), "x"),
            lambda: worker.hgetall(keys.api_keys),
        ):
            assert _is_denied(attempt)
    with shared.client("broker") as broker, shared.client("operator") as operator:
        assert _is_denied(lambda: broker.xadd(keys.journal("A"), {"e": "{}"}))
        assert _is_denied(lambda: broker.set(keys.epoch("A"), 9))
        assert operator.config_get("appendfsync")
        assert _is_denied(lambda: operator.config_set("appendfsync", "no"))
        assert _is_denied(lambda: operator.set(keys.epoch("A"), 9))
        # `spotfed dlq`: what an owner put aside is dropped, or sent again.
        assert operator.xdel(keys.dead_letters("A"), "1-1") == 0
        assert operator.xadd(keys.inbox("A"), {"c": "[]"})
    with pytest.raises(redis.AuthenticationError), connect(shared.url("reader").partition("&")[0]) as nobody:
        nobody.ping()


def test_remote_control_is_the_operators_alone(shared: Shared) -> None:
    prefix = shared.keys.prefix
    answers = f"{prefix}{uuid4()}.{CONTROL_REPLIES}"
    for user in ("cloud-A", "montecarlo", "jobs", "agent-A", "instances-A", "broker", "reader"):
        with shared.client(user) as other:
            attempts: tuple[Callable[[], object], ...] = (
                partial(_app(shared, user).control.broadcast, "shutdown"),
                partial(other.publish, prefix + CONTROL_CHANNEL, "{}"),
                partial(_psubscribe, other, prefix + EVENT_CHANNELS),
                partial(other.rpop, answers),
                partial(other.delete, answers),
            )
            assert all(map(_is_denied, attempts)), user
    with shared.client("operator") as operator:
        assert operator.delete(answers) == 0
        assert _is_denied(lambda: operator.lpush(answers, "{}"))
    assert _app(shared, "operator").control.inspect(timeout=0.1).ping() is None


def test_a_worker_works_under_an_acl_file_of_the_version_before(shared: Shared) -> None:
    admin, keys = shared.processes.client, shared.keys
    user = f"{keys.prefix.strip(':')}-montecarlo"
    admin.execute_command("ACL", "SETUSER", user, "clearselectors")  # it knew no remote control
    shared.processes.start("workers.montecarlo", SPOTFED_REDIS_URL=shared.url("montecarlo"))
    wait_until(lambda: admin.zcard(keys.samplers), "the worker")
    app = make_app(shared.processes.settings)
    batch = Batch(
        cloud="A",
        epoch=1,
        refresh="A:1:1",
        chunks=1,
        cores=1,
        share=0,
        shares=1,
        node_cores=(4,),
        seed=0,
        births=9,
    )
    send_batch(app, MONTECARLO, batch.model_dump(mode="json"))
    tried = keys.batch(batch.result, 1, 0)
    admin.rpush(keys.history("A", 1), b"no chunk")
    wait_until(lambda: admin.hget(tried, "tries"), "a batch that was begun")
    (worker,) = shared.processes.running
    assert worker.poll() is None
    assert (user, "psubscribe") in {(one["username"], one["object"]) for one in shared.denied()}


def test_an_owner_waits_for_the_scripts_that_redis_forgot(shared: Shared) -> None:
    admin = shared.processes.client
    admin.script_flush()
    with shared.client("cloud-A") as owner, shared.client("broker") as broker:
        journal = Journal(owner, shared.keys, "A")
        assert _is_denied(lambda: journal.acquire("token-of-A", 60))
        threading.Timer(0.2, load_scripts, (broker,)).start()
        assert until_answered(lambda: journal.acquire("token-of-A", 60)) == 1


def test_the_operator_stops_a_script_that_does_not_end(shared: Shared) -> None:
    admin = shared.processes.client
    admin.config_set("busy-reply-threshold", 50)
    by_itself = {"health_check_interval": 0}  # a busy server answers no PING first
    with (
        connect(shared.url("cloud-A"), **by_itself) as owner,
        connect(shared.processes.settings.redis_url or "") as other,
        connect(shared.url("operator"), **by_itself) as operator,
    ):
        endless = threading.Thread(target=_ignore, args=(partial(other.eval, "while true do end", 0),))
        endless.start()
        wait_until(lambda: _says(owner.ping, "BUSY"), "a busy server")
        assert _is_denied(owner.script_kill)
        assert operator.script_kill()
        assert _says(partial(operator.execute_command, "FUNCTION KILL"), "BUSY")  # or not busy any more
        endless.join(60)
        assert owner.ping()


def _ignore(call: Callable[[], object]) -> None:
    with suppress(redis.RedisError):
        call()


def _says(call: Callable[[], object], text: str) -> bool:
    try:
        call()
    except redis.ResponseError as error:
        return text in str(error)
    return False


def test_an_instance_agent_commands_its_own_owner_alone(shared: Shared) -> None:
    keys, admin, processes = shared.keys, shared.processes.client, shared.processes
    admin.acl_log_reset()
    processes.owner("--history", "1h", SPOTFED_REDIS_URL=shared.url("cloud-A"))
    processes.opened(1)
    told = Settings(redis_url=shared.url("instances-A"), key_prefix=keys.prefix)
    with shared.client("instances-A") as agent:
        line = OwnerClient(agent, keys, "A", "p", UNSIGNED, partial(ring, make_app(told)))
        command = StartOnDemand(
            id="A/direct-i-1:start", reply_to=line.reply_to, instance="A/direct-i-1", cores=1, lifetime_s=None
        )
        assert isinstance(line.ask([command], 30)[command.id], LeaseGranted)
        leases = CloudLeases(agent, keys, "A")
        assert leases.read_leases(["nobody.1"]) == {"nobody.1": None}
        assert leases.wall_time(0.0) > 0
        record = InstanceRecord(lease=None, since=1.0)
        leases.write_record("x", record)
        assert CloudLeases(agent, keys, "A").read_records() == {"x": record}
        leases.drop_record("x")
        tenure = AgentLock(agent, keys, "A", 5.0, processes.directory / "a.lock")
        assert tenure.begin(threading.Event())
        tenure.end()
        _subscribe(agent, keys.channel("A"))
        refused = {one["object"] for one in shared.denied()}
        assert refused <= {"client|setinfo", "config|get"}, refused  # as above
        attempts: dict[str, Callable[[], object]] = {
            "command another's owner": lambda: agent.xadd(keys.inbox("B"), {"c": "[]"}),
            "read commands": lambda: agent.execute_command("XREAD", "STREAMS", keys.inbox("A"), "0"),
            "read another's instances": lambda: agent.hgetall(keys.instances("B")),
            "read another's leases": lambda: agent.get(keys.lease("B", "r.1")),
            "show a lease of its own": lambda: agent.set(keys.lease("A", "r.1"), "{}"),
            "read another agent's answers": lambda: agent.xread({keys.instance_replies("B", "p"): "0"}),
            "read the broker's answers": lambda: agent.xread({keys.replies("p"): "0"}),
            "write the journal": lambda: agent.xadd(keys.journal("A"), {"e": "{}"}),
            "give work": lambda: agent.hset(keys.work("A"), "x.1.0", "{}"),
            "read requests": lambda: agent.hgetall(keys.request("r")),
            "read API keys": lambda: agent.hgetall(keys.api_keys),
            "run a script": lambda: agent.eval("return 1", 0),
        }
        assert {name for name, attempt in attempts.items() if not _is_denied(attempt)} == set()


def test_an_agent_reaches_nothing_of_another_cloud(shared: Shared) -> None:
    keys, admin = shared.keys, shared.processes.client
    for cloud in ("A", "B"):
        admin.hset(keys.work(cloud), "j.1.0", "{}")
        admin.hset(keys.work_signatures(cloud), "j.1.0", "s")
        admin.hset(keys.work_reports(cloud), "j.1.0", "{}")
        admin.set(keys.work_log(cloud, "j.1.0"), "0\nlog")
        admin.set(keys.agent(cloud), "token")
    admin.xadd(keys.job("j"), {"j": "{}"}, id="0-1")
    with shared.client("agent-B") as agent:
        # What it is for is no trouble.
        assert agent.hgetall(keys.work("B"))
        agent.hset(keys.work_reports("B"), "j.1.0", "{}")
        agent.set(keys.work_log("B", "j.1.0"), "0\n", ex=60)
        assert agent.get(keys.agent("B")) == b"token"
        agent.set(keys.isolation("B"), "locks")
        _subscribe(agent, keys.work_channel("B"))
        _subscribe(agent, keys.channel("B"))
        app = make_app(Settings(redis_url=shared.url("agent-B"), key_prefix=keys.prefix))
        ring_for_job(app, "j")
        assert admin.llen(f"{keys.prefix}{JOBS}") == 1
        attempts: dict[str, Callable[[], object]] = {
            "read its work": lambda: agent.hgetall(keys.work("A")),
            "read its signatures": lambda: agent.hgetall(keys.work_signatures("A")),
            "give it work": lambda: agent.hset(keys.work("A"), "x.1.0", "{}"),
            "give itself work": lambda: agent.hset(keys.work("B"), "x.1.0", "{}"),
            "sign its own work": lambda: agent.hset(keys.work_signatures("B"), "x.1.0", "s"),
            "report in its name": lambda: agent.hset(keys.work_reports("A"), "j.1.0", "{}"),
            "read its reports": lambda: agent.hgetall(keys.work_reports("A")),
            "read its logs": lambda: agent.get(keys.work_log("A", "j.1.0")),
            "write its logs": lambda: agent.set(keys.work_log("A", "j.1.0"), "0\n"),
            "tell what it lacks": lambda: agent.set(keys.isolation("A"), "locks"),
            "take its agent's place": lambda: agent.set(keys.agent("A"), "mine"),
            "listen to its work": lambda: _subscribe(agent, keys.work_channel("A")),
            "listen to its events": lambda: _subscribe(agent, keys.channel("A")),
            "publish work": lambda: agent.publish(keys.work_channel("B"), "x.1.0"),
            "read its leases": lambda: agent.get(keys.lease("A", "r.1")),
            "show a lease of its own": lambda: agent.set(keys.lease("B", "r.1"), "{}"),
            "read jobs": lambda: agent.execute_command("XRANGE", keys.job("j"), "-", "+"),
            "write jobs": lambda: agent.xadd(keys.job("j"), {"j": "{}"}),
            "read what jobs need": lambda: agent.hgetall(keys.profiles),
            "take doorbells of job managers": lambda: agent.brpop([f"{keys.prefix}{JOBS}"], 1),
            "send to its own cloud's inbox": lambda: agent.xadd(keys.inbox("B"), {"c": "[]"}),
            "read API keys": lambda: agent.hgetall(keys.api_keys),
            "run a script": lambda: agent.eval("return 1", 0),
        }
        assert {name for name, attempt in attempts.items() if not _is_denied(attempt)} == set()
    with shared.client("jobs") as manager:
        attempts = {
            "show a log": lambda: manager.set(keys.work_log("A", "j.1.0"), "0\n"),
            "be an agent": lambda: manager.set(keys.agent("A"), "mine"),
            "read requests": lambda: manager.hgetall(keys.request("r")),
            "read API keys": lambda: manager.hgetall(keys.api_keys),
            "command an owner": lambda: manager.xadd(keys.inbox("A"), {"c": "[]"}),
            "take batches": lambda: manager.rpop(f"{keys.prefix}montecarlo"),
            "publish events": lambda: manager.publish(keys.channel("A"), "{}"),
            "put messages into others' queues": lambda: manager.hset(f"{keys.prefix}unacked", "t", "m"),
        }
        assert {name for name, attempt in attempts.items() if not _is_denied(attempt)} == set()
    for user in ("cloud-A", "montecarlo", "reader"):
        with shared.client(user) as other:
            reads = (
                lambda: other.hgetall(keys.work("A")),
                lambda: other.get(keys.work_log("A", "j.1.0")),
                lambda: other.xrange(keys.job("j")),
            )
            assert all(map(_is_denied, reads)), user


def _run_jobs(http: httpx.Client) -> None:
    """One that is measured on-demand and writes a line, one that is cancelled."""
    wish = {"id": "hello", "command": ["sh", "-c", "echo hello"], "home": "A"}
    assert http.post("/v1/jobs", json=wish).status_code == 201
    endless = http.post("/v1/jobs", json={"id": "endless", "command": ["sleep", "600"], "home": "A"})
    assert endless.status_code == 201

    def state(job: str) -> str:
        return str(http.get(f"/v1/jobs/{job}").json()["state"])

    wait_until(lambda: state("hello") == "finished", "a job that has finished")
    assert http.get("/v1/jobs/hello/logs").json()["text"] == "hello\n"
    wait_until(lambda: state("endless") == "running", "a job that runs")
    assert http.delete("/v1/jobs/endless").status_code == 200
    wait_until(lambda: state("endless") == "cancelled", "a job that was cancelled")


def _reaches(http: httpx.Client) -> bool:
    try:
        return http.get("/readyz").is_success
    except httpx.TransportError:
        return False


def _measured(http: httpx.Client) -> bool:
    told = http.get("/metrics").text.splitlines()
    wanted = {"spotfed_redis_up 1.0", "spotfed_montecarlo_workers 1.0", 'spotfed_dead_letters{cloud="A"} 0.0'}
    return wanted <= set(told)


def _message(listening: Any) -> bytes | None:
    found = listening.get_message(timeout=1.0)
    return found["data"] if found and found["type"] == "pmessage" else None


def _subscribe(client: redis.Redis, channel: str) -> None:
    with client.pubsub() as listening:
        listening.subscribe(channel)
        listening.get_message(timeout=60.0)


def _psubscribe(client: redis.Redis, pattern: str) -> None:
    with client.pubsub() as listening:
        listening.psubscribe(pattern)
        listening.get_message(timeout=60.0)


def _is_denied(attempt: Callable[[], object]) -> bool:
    """Whether the server answered NOPERM, to the command itself or to the library that sent it."""
    try:
        attempt()
    except Exception as error:  # kombu wraps what Redis said
        seen: BaseException | None = error
        while seen is not None:
            if isinstance(seen, NoPermissionError):
                return True
            seen = seen.__cause__ or seen.__context__
        raise
    return False
