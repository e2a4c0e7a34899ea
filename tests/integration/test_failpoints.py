"""Processes die at named places (``broker.failpoints``), Redis under them while they are held there; started
again, all that was promised holds: the judges are those of the kill storm.

One small federation for the whole file: an owner, an API and a Monte-Carlo worker on a Redis of their own. In
each case one process is told of one place and something is asked that leads there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from broker.client import Client, GrantedRequest, RefusedRequest
from broker.contract import Advert, ExtensionRequest, SpotRequest
from broker.identity.store import let_in_operator
from broker.journal.hash_chain import parse_entry_id
from broker.journal.journal import Journal
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.webhooks.models import WebhookWish
from cloudsim.model.refusals import RefusalReason
from tests.contract.webhooks.receiver import Receiver, receiving
from tests.integration import storm_play
from tests.integration.checker import check
from tests.integration.storm_play import KEYS, MEMBER, PREFIX, SPOT_CORES
from tests.integration.storm_users import Storm, listen_with_consumer
from tests.integration.worker_processes import ROOT
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("failpoints")

CLOUD, OPERATOR = "a", "the-operators-key"
FEDERATION = """
[[cloud]]
id = "a"
nodes = "20x4"
trace = { synthetic = "table-1", hours = 200, seed = 1 }
"""
LONG_S = 1e6  # nothing ends by itself
PATIENCE_S = 60.0


class Site:
    """The federation. ``storm``: what was asked and answered."""

    def __init__(self, server: EmbeddedRedis, directory: Path):
        self.server, self.directory, self.storm = server, directory, Storm()
        self.storm.heard = {"consumer": []}
        self.file = directory / "federation.toml"
        self.file.write_text(FEDERATION)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.client = connect(server.url)
        self.key = ""
        self.asked = 0

    def start(self, role: str, failpoint: str = "") -> subprocess.Popen[bytes]:
        """Starts a process in place of the one that had this role."""
        self.kill(role)
        arguments = {
            "owner": (
                f"workers.owner --cloud {CLOUD} --federation {self.file} --speed 60 --history 30h "
                "--samples 200 --seed 1"
            ),
            "api": f"broker.api --port {self.port}",
            "sampler": "workers.montecarlo --name m",
        }[role].split()
        environment = {
            **os.environ,
            "SPOTFED_REDIS_URL": self.server.url,
            "SPOTFED_STATE_DIR": str(self.directory),
            "SPOTFED_KEY_PREFIX": PREFIX,
            "SPOTFED_SNAPSHOT_EVERY": "100",
            "SPOTFED_WEBHOOK_ALLOW": "127.0.0.0/8",
            "SPOTFED_REPLY_DEADLINE_S": "2.5",
            "SPOTFED_RESERVATION_TTL_S": "12",
            "SPOTFED_FAILPOINT": failpoint,
        }
        with self.log(role).open("ab") as log:
            self.processes[role] = subprocess.Popen(
                [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        return self.processes[role]

    def log(self, role: str) -> Path:
        return self.directory / f"{role}.log"

    def kill(self, role: str) -> None:
        process = self.processes.pop(role, None)
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def close(self) -> None:
        for role in list(self.processes):
            self.kill(role)

    def advert(self) -> Advert:
        return Advert.model_validate_json(cast("bytes", self.client.get(KEYS.advert(CLOUD))))

    def table(self) -> str | None:
        """Of the owner that runs now."""
        advert = self.advert()
        epoch: Any = self.client.get(KEYS.epoch(CLOUD))
        return advert.table_version if advert.epoch == int(epoch) else None

    @contextmanager
    def calls(self) -> Iterator[Client]:
        """A member's client, which asks again while nobody answers."""
        with Client(self.url, self.key, deadline_s=PATIENCE_S) as client:
            yield client

    def wish(self, **changes: Any) -> SpotRequest:
        self.asked += 1
        told: dict[str, Any] = {"origin": MEMBER, "cores": 1, "lifetime_s": LONG_S}
        return SpotRequest(id=f"q{self.asked}", **(told | changes))

    def note(self, wish: SpotRequest, answer: GrantedRequest | RefusedRequest) -> None:
        assert wish.id is not None
        self.storm.requests[wish.id], self.storm.answers[wish.id] = wish, answer

    def _await_inbox(self) -> None:
        """Until the owner has read all that it was told so far."""
        stream: Any = self.client.xinfo_stream(KEYS.inbox(CLOUD))
        last = parse_entry_id(stream["last-generated-id"].decode())
        journal = Journal(self.client, KEYS, CLOUD)
        wait_until(lambda: parse_entry_id(journal.cursor()) >= last, "the owner reads its inbox")

    def judge(self) -> list[str]:
        """Every breach so far, once all has settled. The owner is held meanwhile: what is read must not
        change."""
        with self.calls() as client:
            breaches = storm_play.settle(self.client, client, self.storm)
            breaches += storm_play.ask_again(self.storm, client, self.storm.requests)
        breaches += storm_play.await_quotas(self.client)
        self._await_inbox()
        owner = self.processes["owner"]
        owner.send_signal(signal.SIGSTOP)
        try:
            findings = check(self.client, PREFIX)
            breaches += storm_play.judge(self.storm, findings)
            breaches += storm_play.fold_equals_inventory(self.client, self.file, findings)
            published = self.client.xlen(KEYS.events(CLOUD))
            breaches += storm_play.await_heard(self.storm.heard["consumer"], published, "consumer")
            breaches += storm_play.judge_heard(self.storm, {CLOUD: published})
        finally:
            owner.send_signal(signal.SIGCONT)
        return breaches


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("failpoints")
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedRedis(directory / "redis", appendfsync="always"))
        site = Site(server, directory)
        stack.callback(site.close)
        let_in_operator(site.client, KEYS, OPERATOR)
        site.start("owner")
        site.start("api")
        with Client(site.url, OPERATOR, deadline_s=PATIENCE_S) as client:
            client.members.add(MemberWish(name=MEMBER, spot_cores=SPOT_CORES))
            site.key = client.api_keys.create(KeyWish(principal=MEMBER)).key
        listener = threading.Thread(
            target=listen_with_consumer,
            args=(site.storm, server.url, KEYS, site.storm.heard["consumer"]),
            daemon=True,
        )
        listener.start()
        stack.callback(site.storm.over.set)
        yield site


# -- what is asked -------------------------------------------------------------------------------------------


def submit(site: Site) -> str | None:
    """The lease; None: it was refused, as the owner was away for too long, which is an answer, too."""
    wish = site.wish()
    with site.calls() as client:
        answer = client.requests.submit(wish)
    site.note(wish, answer)
    if isinstance(answer, GrantedRequest):
        return answer.lease.id
    assert [one.reason for one in answer.refusals] == [RefusalReason.UNREACHABLE]
    return None


def be_refused(site: Site) -> None:
    """No history speaks for so long a life."""
    wish = site.wish(sla=0.0, lifetime_s=1e9)
    with site.calls() as client:
        answer = client.requests.submit(wish)
    site.note(wish, answer)
    assert isinstance(answer, RefusedRequest)


def granted(site: Site) -> str:
    while True:
        lease = submit(site)
        if lease is not None:
            return lease


def end(site: Site) -> None:
    lease = granted(site)
    with site.calls() as client:
        client.leases.cancel(lease)
    site.storm.released.append(lease)


def extend(site: Site) -> None:
    lease = granted(site)
    with site.calls() as client:
        client.leases.extend(lease, ExtensionRequest(lifetime_s=2 * LONG_S))


def fill(site: Site) -> None:
    """So many entries that a snapshot is due; then all ends."""
    wishes = [site.wish() for _ in range(40)]
    with site.calls() as client:
        for wish, answer in zip(wishes, client.requests.submit_many(wishes), strict=True):
            assert isinstance(answer, GrantedRequest | RefusedRequest), answer
            site.note(wish, answer)
            if isinstance(answer, GrantedRequest):
                client.leases.cancel(answer.lease.id)
                site.storm.released.append(answer.lease.id)


class Asking(threading.Thread):
    """Asks beside the test. ``check`` waits for the end, and fails with it."""

    def __init__(self, act: Callable[[Site], object], site: Site):
        super().__init__(daemon=True)
        self._act, self._site, self._done = act, site, False
        self.start()

    def run(self) -> None:
        self._act(self._site)
        self._done = True

    def check(self) -> None:
        self.join(2 * PATIENCE_S)
        assert not self.is_alive(), "nobody answers"
        assert self._done, "it failed: see the error of its thread"


def died(process: subprocess.Popen[bytes]) -> None:
    assert process.wait(2 * PATIENCE_S) == -signal.SIGKILL


# -- deaths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "told"), [("sampler", "sampler-made"), ("owner", "owner-merged")])
def test_a_table_comes_though_it_was_lost_on_the_way(site: Site, role: str, told: str) -> None:
    """The worker's child dies with the samples in its hands, and so do its successors, until there is another
    worker; the owner dies with the table in its hands, and the next one makes one anew."""
    process = {one: site.start(one, told if one == role else "") for one in ("sampler", "owner")}[role]
    if role == "owner":
        died(process)
    else:
        wait_until(lambda: b"failpoint sampler-made" in site.log("sampler").read_bytes(), "a child dies")
        assert site.table() is None
    site.start(role)
    wait_until(site.table, "a table", 2 * PATIENCE_S)
    site.kill("sampler")
    assert site.judge() == []


@pytest.mark.parametrize(
    ("role", "told", "act"),
    [
        ("owner", "owner-acquired", submit),
        ("owner", "owner-committing/reserved", submit),
        ("owner", "owner-committed/reserved", submit),
        ("owner", "owner-committing/extended", extend),
        ("owner", "owner-committing/cancelled", end),
        ("owner", "owner-secured", fill),
        ("api", "broker-accepting", submit),
        ("api", "broker-accepted", submit),
        ("api", "broker-deciding", submit),
        ("api", "broker-decided", submit),
        ("api", "broker-closing", be_refused),
        ("api", "broker-closed", be_refused),
        ("api", "broker-sending", end),
        ("api", "broker-sent", end),
    ],
)
def test_nothing_is_lost_or_done_twice(
    site: Site, role: str, told: str, act: Callable[[Site], object]
) -> None:
    process = site.start(role, told)
    asking = Asking(act, site)
    died(process)
    site.start(role)
    asking.check()
    assert site.judge() == []


@pytest.mark.parametrize(
    ("role", "told", "act"),
    [
        ("owner", "stop@owner-committing/reserved", submit),
        ("api", "stop@broker-deciding", submit),
    ],
)
def test_redis_dies_while_somebody_is_there(
    site: Site, role: str, told: str, act: Callable[[Site], object]
) -> None:
    process = site.start(role, told)
    asking = Asking(act, site)
    wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it stops there")
    os.kill(site.server.pid, signal.SIGKILL)
    site.server.start()
    process.send_signal(signal.SIGCONT)
    asking.check()
    assert site.judge() == []


def test_a_webhook_whose_delivery_was_not_noted_is_repeated_under_its_id(site: Site) -> None:
    with receiving() as receiver:
        with site.calls() as client:
            made = client.webhooks.add(WebhookWish(url=receiver.url))
        process = site.start("api", "webhook-sent")
        asking = Asking(submit, site)
        died(process)
        assert len(receiver.arrived) == 1
        site.client.pexpire(KEYS.webhook_claim(made.webhook.id), 50)  # what the dead one had claimed
        site.start("api")
        asking.check()
        submit(site)
        wait_until(lambda: len(receiver.arrived) >= 3, "the events")
        _judge_deliveries(receiver, made.secret)
        with site.calls() as client:
            client.webhooks.remove(made.webhook.id)
    assert site.judge() == []


def _judge_deliveries(receiver: Receiver, secret: str) -> None:
    first, again, *others = receiver.arrived
    assert first.id == again.id
    assert first.body == again.body
    assert again.is_signed(secret)
    ids = [one.id for one in others]
    assert len({first.id, *ids}) == 1 + len(ids), "nothing else came twice"
