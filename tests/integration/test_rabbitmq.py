"""Doorbells and batches go through RabbitMQ where one URL says so; Redis stays the store."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from amqp.exceptions import AccessRefused
from kombu import Queue
from kombu.exceptions import OperationalError

from broker.contract import Finish
from broker.identity.store import let_in_operator
from broker.queue import (
    MONTECARLO,
    batch_queue,
    bell_queue,
    cloud_queue,
    make_app,
    montecarlo_queue,
    ring,
    send_batch,
)
from broker.settings import Settings
from tests.integration.rabbitmq_server import RabbitMQ, free_port, rabbitmq
from tests.integration.worker_processes import ROOT, Processes, wait_for

pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.xdist_group("worker-processes")]


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as found:
        yield found


def test_one_url_moves_doorbells_and_batches(rabbit: RabbitMQ, redis_url: str, tmp_path: Path) -> None:
    told = {"SPOTFED_CELERY_BROKER_URL": rabbit.address}
    with Processes(redis_url, tmp_path) as processes:
        let_in_operator(processes.client, processes.keys, "k")
        # Hardly a poll, and answers are awaited for less: what is answered was rung for.
        processes.owner("--history", "30h", SPOTFED_INBOX_POLL_S="900", **told)
        processes.start("workers.montecarlo", "--name", "m", **told)
        port = free_port()
        processes.start(
            "broker.api", "--port", str(port), SPOTFED_ADVERT_MAX_AGE_S="3600",
            SPOTFED_REPLY_DEADLINE_S="20", **told,
        )  # fmt: skip
        processes.opened(1)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": "Bearer k"}, timeout=60
        ) as http:
            wait_for(lambda: _answers(http), "the API")
            for _ in range(2):  # the second comes to an owner whose connection has waited
                answer = http.post("/v1/requests", json={"cores": 1, "lifetime_s": 600, "origin": "B"})
                assert answer.status_code == 201, answer.text
                lease = f"/v1/leases/{answer.json()['lease']['id']}"
                wait_for(partial(_runs, http, lease), "a lease that runs")
        processes.table(1)  # made of batches: the owner hears of them by a bell of the worker
        found = cast("list[bytes]", processes.client.keys(f"{processes.keys.prefix}*"))
        names = {key.decode().removeprefix(processes.keys.prefix) for key in found}
        queues = {cloud_queue("A"), MONTECARLO, montecarlo_queue("m")}
        assert not {name for name in names if name in queues or name.startswith(("_kombu", "unacked"))}


def test_bells_do_not_pile_up(rabbit: RabbitMQ, redis_url: str) -> None:
    app = make_app(Settings(redis_url=redis_url, celery_broker_url=rabbit.address))
    for _ in range(5):
        ring(app, "away")
    with app.connection_for_read() as connection, connection.channel() as channel:
        count = channel.queue_declare(cloud_queue("away"), passive=True).message_count
    assert count == 1
    app.close()


def test_the_users_of_the_operators_page_reach_what_they_need_and_no_other_cloud(
    rabbit: RabbitMQ, redis_url: str
) -> None:
    for line in re.findall(r"^    rabbitmqctl (.*)$", (ROOT / "deploy/README.md").read_text(), re.MULTILINE):
        rabbit.control(*shlex.split(line))
    owner, broker, montecarlo = (
        make_app(Settings(redis_url=redis_url, celery_broker_url=rabbit.of(user, "PASSWORD", "spotfed")))
        for user in ("cloud-meadow", "broker", "montecarlo")
    )
    send_batch(owner, montecarlo_queue("m"), {})
    _take(montecarlo, batch_queue(montecarlo, montecarlo_queue("m")))
    ring(broker, "meadow")
    _take(owner, bell_queue(owner, "meadow"))
    ring(montecarlo, "meadow")
    ring(broker, "harbour")
    with pytest.raises(AccessRefused):
        _take(owner, bell_queue(owner, "harbour"))
    for refused in (partial(ring, owner, "harbour"), partial(send_batch, broker, MONTECARLO, {})):
        with pytest.raises(OperationalError, match="ACCESS_REFUSED"):
            refused()
    for app in (owner, broker, montecarlo):
        app.close()


def _take(app: Any, queue: Queue) -> None:
    """The message that lies there, as a worker gets it."""
    with app.connection_for_read() as connection, connection.channel() as channel:
        bound = queue(channel)
        bound.declare()
        wait_for(bound.get, "a message")


def test_an_owner_that_starts_without_rabbitmq_looks_by_itself(redis_url: str, tmp_path: Path) -> None:
    with Processes(redis_url, tmp_path) as processes:
        processes.owner(
            "--history", "1h", SPOTFED_CELERY_BROKER_URL=f"amqp://guest:guest@127.0.0.1:{free_port()}//"
        )
        processes.opened(1)
        processes.send(Finish(id="f", reply_to="me"), bell=False)
        assert processes.answer("f") is not None


def _runs(http: httpx.Client, lease: str) -> bool:
    return bool(http.get(lease).json()["state"] == "running")


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/v1/clouds").status_code == 200
    except httpx.HTTPError:
        return False
