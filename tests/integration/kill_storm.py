"""Kills processes of a live federation at random (kill -9) while users submit, release and listen; then
judges.

    python -m tests.integration.kill_storm [--kills 200] [--seed 1] [--pause 0.1,1] [--json]

The federation is the product's own: `broker.local` supervises three simulated clouds with load of their own,
two Monte-Carlo workers and an API. Victims are drawn among owners, Monte-Carlo workers and the API. Judged
afterwards: the journals (``checker``); every answer that a user got, against the journals; the same answer
when asked again; the event stream, against the journals; the inventory, against the fold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.client import (
    Client,
    ClientError,
    GrantedRequest,
    InputRefusedError,
    NotFoundError,
    RefusedRequest,
)
from broker.contract import Advert, ExtensionRequest, SpotRequest
from broker.journal import Journal
from broker.keys import Keys
from broker.local.federation import LocalFederation
from broker.local.layout import QUEUE, Layout
from broker.redis_server import EmbeddedRedis, connect
from cloudsim.cloud_spec import CloudSpec
from cloudsim.federation_file import load
from tests.integration.checker import Findings, check
from workers.owner import Owner
from workers.state import OwnerSpec

CLOUDS = ("a", "b", "c")
FEDERATION = "".join(
    f'[[cloud]]\nid = "{cloud}"\nnodes = "20x4"\n'
    f'trace = {{ synthetic = "table-1", hours = 2000, seed = {seed} }}\n\n'
    for seed, cloud in enumerate(CLOUDS)
)
PREFIX = "storm:"
PATIENCE_S = 120.0  # an answer may have to wait for several restarts in a row
SETTLE_S = 60.0
LISTENER_GIVES_UP_S = 10.0
USERS = 6
ANSWERS_BETWEEN_KILLS = 10
LONGEST_LULL_S = 15.0


@dataclass
class Storm:
    """What is asked, what is answered, what is heard, and what was killed."""

    answers: dict[str, GrantedRequest | RefusedRequest] = field(default_factory=dict)
    requests: dict[str, SpotRequest] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    heard: list[tuple[str, int]] = field(default_factory=list)  # cloud and sequence, in order of arrival
    killed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


def submit(storm: Storm, client: Client, user: int, rng: random.Random) -> None:
    """A user: one request after the other, singly and in lists, and now and then a release."""
    number = 0
    while not storm.over.is_set():
        batch = []
        for _ in range(rng.choice([1, 1, 1, 8])):
            number += 1
            sla = rng.choice([None, None, 0.5, 0.1])
            endless = sla is not None and rng.random() < 0.3
            batch.append(
                SpotRequest(
                    id=f"u{user}-{number}",
                    origin="user",
                    cores=rng.choice([1, 1, 2]),
                    lifetime_s=None if endless else rng.uniform(300, 7200),
                    sla=sla,
                )
            )
        try:
            results = [client.submit(batch[0])] if len(batch) == 1 else client.submit_many(batch)
            for request, result in zip(batch, results, strict=True):
                assert request.id is not None
                if isinstance(result, GrantedRequest | RefusedRequest):
                    with storm.lock:
                        storm.requests[request.id], storm.answers[request.id] = request, result
                else:
                    storm.failures.append(f"{request.id}: {result}")
            if rng.random() < 0.3:
                _release_one(storm, client, rng)
            if rng.random() < 0.3:
                _extend_one(storm, client, rng)
        except ClientError as error:
            storm.failures.append(f"user {user}, request {number}: {error!r}")
        time.sleep(rng.uniform(0.0, 0.3))


def _extend_one(storm: Storm, client: Client, rng: random.Random) -> None:
    with storm.lock:
        granted = [answer.lease for answer in storm.answers.values() if isinstance(answer, GrantedRequest)]
    if granted:
        lease = rng.choice(granted[-50:])
        with suppress(InputRefusedError):  # another user has extended it further
            client.extend(lease.id, ExtensionRequest(lifetime_s=rng.uniform(7200, 20_000)))


def _release_one(storm: Storm, client: Client, rng: random.Random) -> None:
    with storm.lock:
        granted = [answer.lease.id for answer in storm.answers.values() if isinstance(answer, GrantedRequest)]
    if granted:
        lease = rng.choice(granted[-50:])
        client.cancel(lease)
        storm.released.append(lease)


def listen(storm: Storm, client: Client) -> None:
    """A subscriber that only hears through the API, which is killed under it."""
    last = "0-0"
    while not storm.over.is_set():
        with suppress(ClientError):
            for sent in client.events(last_event_id=last):
                last = sent.id
                assert sent.event.sequence is not None
                storm.heard.append((sent.event.cloud, sent.event.sequence))


def kill(
    storm: Storm, local: LocalFederation, kills: int, pause_s: tuple[float, float], rng: random.Random
) -> None:
    """Kills one running process after the other, never the queue: its death is another test's.

    Between two kills users get some answers, so that it is a live run that is hit and not a dead one.
    """
    while sum(storm.killed.values()) < kills:
        _await_traffic(storm)
        time.sleep(rng.uniform(*pause_s))
        running = sorted((name, pid) for name, pid in local.pids.items() if name != QUEUE)
        if not running:
            continue
        name, pid = rng.choice(running)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            storm.killed[name] += 1
            done = sum(storm.killed.values())
            if done % 10 == 0:
                _say(f"{done} kills, {len(storm.answers)} requests answered, {len(storm.heard)} events heard")


def _await_traffic(storm: Storm) -> None:
    wanted, deadline_s = len(storm.answers) + ANSWERS_BETWEEN_KILLS, time.monotonic() + LONGEST_LULL_S
    while len(storm.answers) < wanted and time.monotonic() < deadline_s:
        time.sleep(0.05)


def judge(storm: Storm, findings: Findings) -> list[str]:
    """Every breach, in words."""
    breaches = [*findings.breaches, *storm.failures]
    leases = Counter(
        answer.lease.id for answer in storm.answers.values() if isinstance(answer, GrantedRequest)
    )
    for request, answer in storm.answers.items():
        if isinstance(answer, GrantedRequest):
            lease = answer.lease.id
            if lease not in findings.admitted and lease not in findings.ended:
                breaches.append(f"{request}: lease {lease} is lost, no journal has it")
            if leases[lease] > 1:
                breaches.append(f"{request}: lease {lease} was given to two requests")
        elif any(lease.rsplit(".", 1)[0] == request for lease in findings.admitted):
            breaches.append(f"{request} was refused, and a cloud runs it")
    answered = {a.lease.id for a in storm.answers.values() if isinstance(a, GrantedRequest)}
    breaches += [f"{lease} runs, nobody was told" for lease in findings.admitted if lease not in answered]
    for lease in storm.released:
        if lease not in findings.ended:
            breaches.append(f"{lease} was released and has not ended")
    for cloud in CLOUDS:
        heard = [sequence for source, sequence in storm.heard if source == cloud]
        if heard != list(range(1, len(heard) + 1)):
            breaches.append(f"the events heard of {cloud} are not each one once and in order")
    return breaches


def ask_again(storm: Storm, client: Client) -> list[str]:
    """The same id, the same answer."""
    breaches = []
    for request_id, request in storm.requests.items():
        before, now = storm.answers[request_id], client.submit(request)
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
    federation = load(federation_file, None)
    for member in federation.clouds:
        cloud = member.spec.id
        journal = Journal(redis_client, Keys(PREFIX), cloud)
        spec = OwnerSpec(CloudSpec(cloud, member.spec.node_cores), own_load=member.own_load)
        owner = Owner.recover(spec, findings.epochs[cloud], (event for _, event in journal.read()))
        owner.validate()
        used = sum(instance.cores for instance in owner.cloud.inventory)
        advert = Advert.model_validate_json(redis_client.get(Keys(PREFIX).advert(cloud)))
        if used != findings.held_cores[cloud]:
            breaches.append(
                f"{cloud}: the owner's fold holds {used} cores, ours {findings.held_cores[cloud]}"
            )
        if advert.at_s >= owner.cloud.now_s and used != advert.on_demand_cores + advert.spot_cores:
            breaches.append(f"{cloud}: the fold holds {used} cores, its advert says {advert}")
    return breaches


def storm(kills: int, seed: int, pause_s: tuple[float, float] = (0.1, 1.0)) -> dict[str, Any]:
    """Runs it; returns what happened, with the list of breaches."""
    rng = random.Random(seed)
    state = Storm()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storm-")))
        server = stack.enter_context(EmbeddedRedis(directory / "redis"))
        redis_client = stack.enter_context(connect(server.url))
        file = directory / "federation.toml"
        file.write_text(FEDERATION)
        options = f"--time wall --speed 60 --history 30h --samples 500 --seed {seed}".split()
        layout = Layout(file, CLOUDS, tuple(options), monte_carlo=2, port=_free_port())
        with LocalFederation(layout, directory / "state", redis_url=server.url, key_prefix=PREFIX) as local:
            judging, *clients = (
                stack.enter_context(local.client(deadline_s=PATIENCE_S)) for _ in range(1 + USERS)
            )
            listening = stack.enter_context(local.client(deadline_s=LISTENER_GIVES_UP_S))
            users = [
                threading.Thread(target=submit, args=(state, client, user, random.Random(rng.random())))
                for user, client in enumerate(clients)
            ]
            listener = threading.Thread(target=listen, args=(state, listening))
            for thread in [*users, listener]:
                thread.start()
            started_s = time.monotonic()
            kill(state, local, kills, pause_s, rng)
            seconds = time.monotonic() - started_s
            state.over.set()
            for thread in users:
                thread.join(PATIENCE_S + 10)
                assert not thread.is_alive(), "a user still waits for an answer"
            breaches = _settle(redis_client, judging, state)
            breaches += ask_again(state, judging)
        listener.join()  # it hears that the API is gone
        findings = check(redis_client, PREFIX)
        breaches += judge(state, findings)
        breaches += fold_equals_inventory(redis_client, file, findings)
    return {
        "kills": sum(state.killed.values()),
        "killed": dict(sorted(state.killed.items())),
        "seconds": round(seconds, 1),
        "seed": seed,
        "requests": len(state.answers),
        "granted": sum(isinstance(answer, GrantedRequest) for answer in state.answers.values()),
        "released": len(state.released),
        "journal": dict(sorted(findings.kinds.items())),
        "epochs": findings.epochs,
        "events_heard": len(state.heard),
        "breaches": breaches,
    }


def _settle(redis_client: Any, client: Client, state: Storm) -> list[str]:
    """After the faults everything comes to rest: no request is open, no released lease runs."""
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        open_requests = redis_client.zcard(Keys(PREFIX).open_requests)
        running = []
        for lease in state.released:
            with suppress(NotFoundError):
                running += [lease] if client.lease(lease).ended_at_s is None else []
        if not open_requests and not running:
            return []
        if time.monotonic() > deadline_s:
            return [f"after {SETTLE_S:.0f} s {open_requests} requests are open and {running} still run"]
        time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _say(text: str) -> None:
    sys.stderr.write(f"kill storm: {text}\n")


def main() -> int:
    """Exit code 1 when anything was breached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", default="0.1,1", help="seconds between kills: least,most")
    arguments = parser.parse_args()
    least, most = map(float, arguments.pause.split(","))
    result = storm(arguments.kills, arguments.seed, (least, most))
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if result["breaches"] else 0


if __name__ == "__main__":
    sys.exit(main())
