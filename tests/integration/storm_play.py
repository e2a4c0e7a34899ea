"""Plays the users and listeners of a federation while its processes are killed, and judges what they saw.

Judged are the journals (``checker``); every answer that a user got, against the journals; the same answer
when asked again; what three kinds of subscriber heard, against the streams; the inventory, against the fold.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.client import Client, GrantedRequest, NotFoundError, RefusedRequest
from broker.contract import Advert, SpotRequest
from broker.journal.journal import Journal
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.file import load_federation
from tests.integration.checker import Findings, check
from tests.integration.storm_kills import Budget
from tests.integration.storm_users import (
    PROBER,
    Storm,
    listen_plainly,
    listen_to_api,
    listen_with_consumer,
    probe,
    submit,
)
from tests.support.wait import wait_until
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

CLOUDS = ("a", "b", "c")
#: Further arguments of the owners.
OWNER_OPTIONS = ("--time", "wall", "--speed", "60", "--history", "30h", "--samples", "500")
PREFIX = "storm:"
KEYS = RedisKeys(PREFIX)
#: Shorter than by default, so that the dead are not waited for longer than they need to come back.
ENVIRONMENT = {"SPOTFED_REPLY_DEADLINE_S": "2", "SPOTFED_RESERVATION_TTL_S": "12", "SPOTFED_CALLS_PER_S": "0"}
PATIENCE_S = 180.0  # an answer may have to wait for several restarts in a row
SETTLE_S = 90.0
LISTENER_GIVES_UP_S = 10.0
HEARD_LIMIT_S = 120.0
USERS = 6
MEMBER, SPOT_CORES = "user", 100


def federation_file(directory: Path, nodes: str = "20x4") -> Path:
    """Write a federation file of clouds that have these nodes and loads of their own."""
    file = directory / "federation.toml"
    file.write_text(
        "".join(
            f'[[cloud]]\nid = "{cloud}"\nnodes = "{nodes}"\n'
            f'trace = {{ synthetic = "table-1", hours = 2000, seed = {seed} }}\n\n'
            for seed, cloud in enumerate(CLOUDS)
        )
    )
    return file


@dataclass(frozen=True)
class Scene:
    """A federation that runs: addresses, an operator's key, its file, and how all but Redis is stopped."""

    redis_url: str
    api_url: str
    operator_key: str
    file: Path
    stop: Callable[[], object]

    def client(self, deadline_s: float = PATIENCE_S) -> Client:
        """A client of an operator."""
        return Client(self.api_url, self.operator_key, deadline_s=deadline_s)


def play(
    scene: Scene,
    state: Storm,
    budget: Budget,
    seed: int,
    longest_s: float,
    kill: Callable[[], None],
    probers: int = 0,
) -> dict[str, Any]:
    """Let users and listeners do what they do until ``kill`` returns, and judge; the result has all breaches.

    ``kill`` gets no kill of the budget later than after ``longest_s``, or when the user interrupts.
    ``probers``: so many threads ask for what they get whenever somebody answers.
    """
    rng, breaches = random.Random(seed), list[str]()
    with ExitStack() as stack:
        key = _member_key(scene, MEMBER, SPOT_CORES)
        judging, *clients = (
            stack.enter_context(Client(scene.api_url, key, deadline_s=PATIENCE_S)) for _ in range(1 + USERS)
        )
        users = [
            threading.Thread(target=submit, args=(state, client, user, random.Random(rng.random())))
            for user, client in enumerate(clients)
        ]
        probing = stack.enter_context(
            Client(scene.api_url, _member_key(scene, PROBER, None), deadline_s=PATIENCE_S)
        )
        users += [threading.Thread(target=probe, args=(state, probing, number)) for number in range(probers)]
        hearing = stack.enter_context(scene.client(LISTENER_GIVES_UP_S))
        state.heard = {"api": [], "consumer": [], "plain pub/sub": []}
        through_api, with_consumer, plainly = state.heard.values()
        url = scene.redis_url
        by_api = threading.Thread(target=listen_to_api, args=(state, hearing, through_api))
        listeners = [
            threading.Thread(target=listen_with_consumer, args=(state, url, KEYS, with_consumer)),
            threading.Thread(target=listen_plainly, args=(state, url, KEYS, CLOUDS, plainly)),
        ]
        for thread in [*users, by_api, *listeners]:
            thread.daemon = True
            thread.start()
        started_s = time.monotonic()
        timer = threading.Timer(min(longest_s, threading.TIMEOUT_MAX), budget.over.set)
        timer.daemon = True
        timer.start()
        try:
            kill()
        except KeyboardInterrupt:
            budget.over.set()
            _say("interrupted: what was done so far is judged")
        timer.cancel()
        seconds = time.monotonic() - started_s
        state.quiet.set()
        for thread in users:
            thread.join(PATIENCE_S + 10)
            if thread.is_alive():
                breaches.append("a user still waits for an answer")
        redis_client = stack.enter_context(connect(url))
        breaches += settle(redis_client, judging, state)
        breaches += ask_again(state, judging, state.requests) + ask_again(state, probing, state.probes)
        breaches += await_quotas(redis_client)
        breaches += await_heard(through_api, redis_client.xlen(KEYS.all_events), "api")
        scene.stop()
        published = {cloud: redis_client.xlen(KEYS.events(cloud)) for cloud in CLOUDS}
        for name in ("consumer", "plain pub/sub"):
            await_heard(state.heard[name], sum(published.values()), name)
        state.over.set()
        for thread in [by_api, *listeners]:
            thread.join()
        findings = check(redis_client, PREFIX)
        breaches += judge(state, findings) + judge_heard(state, published)
        breaches += fold_equals_inventory(redis_client, scene.file, findings)
    return {
        "kills": budget.done,
        "killed": dict(sorted(budget.killed.items())),
        "seconds": round(seconds, 1),
        "seed": seed,
        "requests": len(state.answers),
        "granted": len(state.granted()),
        "released": len(state.released),
        "journal": dict(sorted(findings.kinds.items())),
        "epochs": findings.epochs,
        "heard": {name: len(heard) for name, heard in state.heard.items()},
        "breaches": breaches,
    }


def _member_key(scene: Scene, name: str, spot_cores: int | None) -> str:
    """The users are one member, whose spot has a cap; the probers another one, without."""
    with scene.client() as operator:
        operator.members.add(MemberWish(name=name, spot_cores=spot_cores))
        return operator.api_keys.create(KeyWish(principal=name)).key


def budget_of(kills: int, state: Storm) -> Budget:
    """Return the budget of a storm, which tells people how far it is."""

    def tell(done: int) -> None:
        if done % 10 == 0:
            _say(f"{done} kills, {len(state.answers)} requests answered")

    return Budget(kills, told=tell)


def _say(text: str) -> None:
    sys.stderr.write(f"kill storm: {text}\n")


# -- judges --------------------------------------------------------------------------------------------------


def judge(storm: Storm, findings: Findings) -> list[str]:
    """Every breach, in words."""
    breaches = [*findings.breaches, *storm.failures]
    leases = Counter(storm.granted())
    admitted = {lease.rsplit(".", 1)[0] for lease in findings.admitted}
    breaches += [f"lease {lease} was given to {n} requests" for lease, n in leases.items() if n > 1]
    for request, answer in storm.answers.items():
        if isinstance(answer, GrantedRequest):
            lease = answer.lease.id
            if lease not in findings.admitted and lease not in findings.ended:
                breaches.append(f"{request}: lease {lease} is lost, no journal has it")
        elif f"{PROBER if request in storm.probes else MEMBER}:{request}" in admitted:
            breaches.append(f"{request} was refused, and a cloud runs it")
    breaches += [f"{lease} runs, nobody was told" for lease in findings.admitted if lease not in leases]
    for lease in storm.released:
        if lease not in findings.ended:
            breaches.append(f"{lease} was released and has not ended")
    return breaches


def judge_heard(storm: Storm, published: dict[str, int]) -> list[str]:
    """Every subscriber has heard each event once and in order: of the API's, those until it was stopped."""
    breaches = []
    for name, heard in storm.heard.items():
        for cloud, count in published.items():
            sequences = [sequence for source, sequence in heard if source == cloud]
            if sequences != list(range(1, len(sequences) + 1)):
                breaches.append(f"{name}: the events of {cloud} are not each one once and in order")
            elif name != "api" and len(sequences) != count:
                breaches.append(f"{name}: heard {len(sequences)} of {count} events of {cloud}")
    return breaches


def ask_again(storm: Storm, client: Client, requests: Mapping[str, SpotRequest]) -> list[str]:
    """The same id, the same answer."""
    breaches = []
    for request_id, request in requests.items():
        before, now = storm.answers[request_id], client.requests.submit(request)
        same = (
            before.lease.id == now.lease.id
            if isinstance(before, GrantedRequest) and isinstance(now, GrantedRequest)
            else isinstance(before, RefusedRequest) and isinstance(now, RefusedRequest)
        )
        if not same:
            breaches.append(f"{request_id} was answered {before}, and when asked again {now}")
    return breaches


def fold_equals_inventory(redis_client: Any, federation_file: Path, findings: Findings) -> list[str]:
    """Recovers each owner from its journal and compares it with the advert that its last commit wrote."""
    breaches = []
    for member in load_federation(federation_file, None).clouds:
        cloud = member.spec.id
        journal = Journal(redis_client, KEYS, cloud)
        spec = OwnerSpec(CloudSpec(cloud, member.spec.node_cores), own_load=member.own_load)
        owner = Owner.recover(spec, findings.epochs[cloud], (event for _, event in journal.read()))
        owner.validate()
        used = sum(instance.cores for instance in owner.cloud.inventory)
        advert = Advert.model_validate_json(redis_client.get(KEYS.advert(cloud)))
        if used != findings.held_cores[cloud]:
            breaches.append(
                f"{cloud}: the owner's fold holds {used} cores, ours {findings.held_cores[cloud]}"
            )
        if advert.at_s >= owner.cloud.now_s and used != advert.on_demand_cores + advert.spot_cores:
            breaches.append(f"{cloud}: the fold holds {used} cores, its advert says {advert}")
    return breaches


def await_quotas(client: Any) -> list[str]:
    """What the member's requests hold of its cap is what runs: asked until it is, as leases end meanwhile."""
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        held = {name.decode(): int(cores) for name, cores in client.hgetall(KEYS.quota_holds(MEMBER)).items()}
        total = held.pop("=cores", 0)
        running = {one["request"]: one["cores"] for one in _shown(client)}
        if total == sum(held.values()) and held == running:
            return []
        if time.monotonic() > deadline_s:
            return [f"{MEMBER} holds {total} cores: {held}, and runs {running}"]
        time.sleep(0.5)


def _shown(client: Any) -> list[dict[str, Any]]:
    """Leases that have not ended, as their clouds show them."""
    return [
        json.loads(client.get(KEYS.lease(cloud, one.decode())))
        for cloud in CLOUDS
        for one in client.smembers(KEYS.running(cloud))
    ]


def await_heard(heard: list[Any], count: int, name: str) -> list[str]:
    """What was published before is heard within a stated time."""
    try:
        wait_until(lambda: len(heard) >= count, limit_s=HEARD_LIMIT_S)
    except AssertionError:
        return [f"{name}: {HEARD_LIMIT_S:.0f} s later it has heard {len(heard)} of {count} events"]
    return []


def settle(redis_client: Any, client: Client, state: Storm) -> list[str]:
    """After the faults everything comes to rest: no request is open, no promise waits for an owner that is on
    its way back, and no released lease runs."""
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        open_requests = redis_client.zcard(KEYS.open_requests)
        running = []
        for lease in state.released:
            with suppress(NotFoundError):
                running += [lease] if client.leases.get(lease).ended_at_s is None else []
        reserved = [one["id"] for one in _shown(redis_client) if one["state"] == "reserved"]
        if not open_requests and not running and not reserved:
            return []
        if time.monotonic() > deadline_s:
            found = f"{open_requests} requests are open, {reserved} are not confirmed and {running} still run"
            return [f"after {SETTLE_S:.0f} s {found}"]
        time.sleep(0.5)


def run_command(
    description: str | None, storm: Callable[[int, int, float, Path | None], Any], kills: int
) -> int:
    """Runs a storm as its command line says, ``kills`` by default; exit code 1 when anything was breached."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no kill after so long")
    parser.add_argument("--directory", type=Path, help="an empty one, to keep data and logs in")
    arguments = parser.parse_args()
    result = storm(arguments.kills, arguments.seed, arguments.minutes * 60, arguments.directory)
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if result["breaches"] else 0
