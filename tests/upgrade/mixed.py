"""A rolling upgrade of a live federation: the version before, process by process, to this one.

    python -m tests.upgrade.mixed [--old f80b512]        (needs that commit in the history)

Owners, API and Monte-Carlo workers of the version before run on one Redis; then one after the other is
stopped and started anew with this code, while users submit, ask again and release. Judged at the end: the
journals (``tests.integration.checker``), every answer when it is asked for again, the ledger against the
journals, and that nothing was put aside as unreadable.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import redis

from broker.contract import VERSION
from broker.identity.store import api_key_digest
from broker.keys import Keys
from broker.redis_server import EmbeddedRedis, connect
from broker.upgrading import holding_back, spoken
from broker.versions import OLDEST_VERSION
from tests.integration.checker import Findings, check

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "upgrade:"
KEY = "a-key-of-the-version-before"
CLOUDS = ("a", "b")
FEDERATION = "".join(
    f'[[cloud]]\nid = "{cloud}"\nnodes = "10x4"\noverflow = true\n'
    f'trace = {{ synthetic = "table-1", hours = 2000, seed = {seed} }}\n\n'
    for seed, cloud in enumerate(CLOUDS)
)
OWNER_OPTIONS = ["--time", "wall", "--speed", "60", "--history", "30h", "--samples", "300", "--seed", "1"]
PATIENCE_S = 240.0
REQUESTS = 25  # a phase


class Process:
    """One process of a version, with a log."""

    def __init__(self, tree: Path, name: str, directory: Path, redis_url: str, *arguments: str):
        told = {
            "SPOTFED_REDIS_URL": redis_url,
            "SPOTFED_STATE_DIR": str(directory / "state"),
            "SPOTFED_KEY_PREFIX": PREFIX,
        }
        kept = {key: one for key, one in os.environ.items() if key != "PYTHONPATH" and "SPOTFED" not in key}
        self.log = directory / f"{name}-{tree.name}.log"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments], cwd=tree, env=kept | told, stdout=output, stderr=output
            )

    def stop(self) -> None:
        """As a service manager does."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Upgrade:
    """The federation, its users, and what they were answered."""

    def __init__(self, directory: Path, redis_url: str, client: redis.Redis):
        self.directory, self.redis_url, self.redis = directory, redis_url, client
        self.keys = Keys(PREFIX)
        # What is new is used beside processes that do not know it.
        files = {"old": FEDERATION, "new": FEDERATION.replace("\n\n", '\ndisclosure = "p90"\n\n', 1)}
        for name, text in files.items():
            (directory / f"{name}.toml").write_text(text, encoding="utf-8")
        self.running: dict[str, Process] = {}
        self.ports: dict[str, int] = {}
        self.sent: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, tuple[int, str | None]] = {}
        self.breaches: list[str] = []
        self.phases: list[dict[str, Any]] = []
        self._random = random.Random(1)

    def start(self, name: str, tree: Path) -> None:
        """Starts a process, in the place of the one of that name."""
        if name in self.running:
            self.running.pop(name).stop()
        kind, _, which = name.partition("-")
        if kind == "owner":
            file = self.directory / ("new.toml" if tree == ROOT else "old.toml")
            module = "workers.owner" if tree == ROOT else "workers.cloud"
            told = [module, "--cloud", which, "--federation", str(file), *OWNER_OPTIONS]
        elif kind == "montecarlo":
            told = ["workers.montecarlo", "--name", name]
        else:
            self.ports[name] = _free_port()
            told = ["broker.api", "--port", str(self.ports[name])]
        self.running[name] = Process(tree, name, self.directory, self.redis_url, *told)
        if kind == "api":
            self.until(lambda: self._ready(name), f"{name} answers")
        if kind == "montecarlo":  # it compiles first, and batches that wait for it are late
            self.until(lambda: self.redis.exists(self.keys.sampler(name)), f"{name} is ready")

    def stop(self, *names: str) -> None:
        for name in names:
            self.running.pop(name).stop()

    def opened(self, cloud: str, epoch: int) -> None:
        """Waits until the owner of that epoch shows signs of life."""
        self.until(lambda: self._advert(cloud).get("epoch") == epoch, f"epoch {epoch} of {cloud}")

    def _advert(self, cloud: str) -> dict[str, Any]:
        stored: Any = self.redis.get(self.keys.advert(cloud))
        return dict(json.loads(stored or "{}"))

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Waits until it is so."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            if condition():
                return
            time.sleep(0.1)
        raise AssertionError(f"not within {PATIENCE_S:g} s: {what}")

    def _ready(self, name: str) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.ports[name]}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def call(self, api: str, method: str, path: str, **options: Any) -> httpx.Response:
        """One call with the users' key."""
        url = f"http://127.0.0.1:{self.ports[api]}{path}"
        return httpx.request(method, url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60, **options)

    # -- users -----------------------------------------------------------------------------------------------

    def phase(self, name: str, *apis: str) -> None:
        """Users of all the APIs named: new requests, an old one again, a release, an own instance."""
        statuses: Counter[int] = Counter()
        for number in range(REQUESTS):
            api = apis[number % len(apis)]
            wish = {
                "id": f"{name}-{number}",
                "origin": "user",
                "cores": self._random.choice([1, 1, 2]),
                "lifetime_s": self._random.uniform(120, 900),
                "sla": self._random.choice([None, 0.5, 0.2]),
            }
            self.sent[str(wish["id"])] = wish
            answer = self.call(api, "POST", "/v1/requests", json=wish)
            self.answers[str(wish["id"])] = _said(answer)
            statuses[answer.status_code] += 1
            if number % 5 == 0:
                self.ask_again(self._random.choice(sorted(self.sent)), self._random.choice(apis))
            if number % 7 == 0 and answer.status_code == 201:
                self.call(api, "DELETE", f"/v1/leases/{answer.json()['lease']['id']}")
        for cloud in CLOUDS:
            own = {"id": f"own-{name}", "cores": 4, "lifetime_s": 600}
            statuses[self.call(apis[0], "POST", f"/v1/clouds/{cloud}/on-demand", json=own).status_code] += 1
        if set(statuses) - {201, 409}:
            self.breaches.append(f"{name}: answers {dict(statuses)}")
        if any(self.redis.xlen(self.keys.dead(cloud)) for cloud in CLOUDS):
            self.breaches.append(f"{name}: something was put aside as unreadable")
        self.phases.append(
            {"phase": name, "speaks": spoken(self.redis, self.keys), "answers": dict(statuses)}
        )

    def ask_again(self, request: str, api: str) -> None:
        """The same id, the same answer, whichever version is asked."""
        now = _said(self.call(api, "POST", "/v1/requests", json=self.sent[request]))
        if now != self.answers[request]:
            self.breaches.append(f"{request}: {self.answers[request]}, and when {api} is asked again {now}")

    # -- the upgrade -----------------------------------------------------------------------------------------

    def run(self, old: Path, new: Path) -> None:
        """From all old to all new."""
        for name in ("montecarlo-1", "owner-a", "owner-b", "api-old"):
            self.start(name, old)
        for cloud in CLOUDS:
            self.opened(cloud, 1)
            self.until(partial(self._has_table, cloud), f"a table of {cloud}")
        self.phase("before", "api-old")
        self.start("owner-a", new)
        self.opened("a", 2)
        self.until(lambda: "p90" in self._shown("a"), "a table of a that is as coarse as it discloses")
        self.phase("new-owner", "api-old")
        self._look_for_leaks("api-old")
        self.start("api-new", new)
        self.phase("both-apis", "api-old", "api-new")
        self.stop("api-old")
        self.start("montecarlo-1", new)
        self.phase("old-owner", "api-new")
        held = holding_back(self.redis, self.keys)
        if "owner of b" not in held or spoken(self.redis, self.keys) != OLDEST_VERSION:
            self.breaches.append(
                f"the federation speaks {spoken(self.redis, self.keys)}, held back by {held}"
            )
        self.start("owner-b", new)
        self.opened("b", 2)
        self.until(lambda: spoken(self.redis, self.keys) == VERSION, "the federation speaks the new version")
        self.phase("after", "api-new")
        for request in sorted(self.sent):
            self.ask_again(request, "api-new")
        answered = self.call("api-new", "GET", "/v1/ledger")
        if answered.status_code != 200:
            raise AssertionError(f"the ledger is answered by {answered.status_code} {answered.text}")
        ledger = answered.json()
        self.stop(*self.running)
        findings = check(self.redis, PREFIX)
        self.breaches += [*findings.breaches, *self._ledger_breaches(ledger), *self._lost(findings)]
        self.phases.append({"journal": dict(sorted(findings.kinds.items())), "epochs": findings.epochs})

    def _shown(self, cloud: str) -> str:
        stored: Any = self.redis.get(self.keys.table(cloud))
        return (stored or b"").decode()

    def _look_for_leaks(self, api: str) -> None:
        """What a reader of the version before is told of the cloud that discloses two figures."""
        wish = {"cores": 1, "lifetime_s": 600, "sla": 0.2}
        quoted = self.call(api, "POST", "/v1/quotes", json=wish).json()
        refusals = [one for one in quoted["refusals"] if one["cloud"] == "a"]
        offers = [(one["counter_offers"]["sla"], one["free_slots"]) for one in refusals]
        told = {
            f"quote {offers}": offers in ([(0.5, None)], [(0.9, None)], [(1.0, None)], [(None, 0)]),
            "table": "samples" not in self.call(api, "GET", "/v1/clouds/a/table").text,
            "advert": self.call(api, "GET", "/v1/clouds/a").json()["advert"]["on_demand_cores"] == 0,
        }
        self.breaches += [f"the {what} of a tells more than p90" for what, kept in told.items() if not kept]

    def _has_table(self, cloud: str) -> bool:
        return self._advert(cloud).get("table_version") is not None

    def _ledger_breaches(self, ledger: dict[str, Any]) -> list[str]:
        """Promises by cloud and SLA up to where the ledger had read, counted in the streams of events.

        What its holder cancelled is in no account.
        """
        counted: Counter[tuple[str, float]] = Counter()
        for reach in ledger["clouds"]:
            stream = self.keys.events(reach["cloud"])
            found: Any = self.redis.xrange(stream, "-", f"0-{reach['sequence']}")
            for _, fields in found:
                event = json.loads(fields[b"e"])
                promised = event["cloud"], event["lease"]["promised_sla"]
                if promised[1] is not None:
                    counted[promised] += {"admitted": 1, "cancelled": -1}.get(event["kind"], 0)
        told = {(one["cloud"], one["sla"]): one["admitted"] for one in ledger["entries"]}
        return [] if told == +counted else [f"the ledger has {told}, the events {dict(counted)}"]

    def _lost(self, findings: Findings) -> list[str]:
        """Leases that were answered and that no journal has. Owners of the version before tell no admission
        of what was evicted before they heard that it was confirmed, but its end."""
        leases = [lease for _, lease in self.answers.values() if lease is not None]
        known = findings.admitted.keys() | findings.ended.keys()
        return [f"lease {lease} is lost" for lease in leases if lease not in known]


def _said(answer: httpx.Response) -> tuple[int, str | None]:
    told = answer.json()
    return answer.status_code, told["lease"]["id"] if "lease" in told else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def extract(commit: str, directory: Path) -> Path:
    """The tree of a commit of this repository."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    return directory


def main() -> int:
    """Exit code 1 when anything was breached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", default="f80b512", help="commit of the version before")
    commit = parser.parse_args().old
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="upgrade-")))
        old = extract(commit, directory / "old")
        server = stack.enter_context(EmbeddedRedis(directory / "redis"))
        client = stack.enter_context(connect(server.url))
        client.hset(Keys(PREFIX).api_keys, api_key_digest(KEY), "tester")
        upgrade = Upgrade(directory, server.url, client)
        try:
            upgrade.run(old, ROOT)
        finally:
            upgrade.stop(*upgrade.running)
            if upgrade.breaches or sys.exc_info()[0]:
                for log in sorted(directory.glob("*.log")):
                    sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}\n")
    result = {
        "old": commit,
        "phases": upgrade.phases,
        "requests": len(upgrade.sent),
        "breaches": upgrade.breaches,
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if upgrade.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
