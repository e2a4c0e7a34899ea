"""Several API processes on one port: calls go to all of them, and their metrics are one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import httpx
import psutil
import pytest
import redis

from broker.identity.store import let_in_operator
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from tests.contract.test_metrics import Scrape
from tests.support.wait import wait_until

KEY = "of-an-operator"


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
        assert isinstance(number, int)
        return number


@pytest.fixture
def parent(redis_client: redis.Redis, redis_url: str, port: int) -> Iterator[psutil.Process]:
    with connect(redis_url) as client:
        let_in_operator(client, RedisKeys(), KEY, "operator")
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.api", "--port", str(port)],
        env={**os.environ, "SPOTFED_REDIS_URL": redis_url, "SPOTFED_API_PROCESSES": "2"},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


def workers(parent: psutil.Process) -> list[psutil.Process]:
    """Processes that serve."""
    found = []
    for child in parent.children():
        with suppress(psutil.NoSuchProcess):  # a zombie is none, either
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def call(port: int, path: str) -> str | None:
    """An answer, on a connection of its own, which any of the processes takes."""
    try:
        answer = httpx.get(
            f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {KEY}"}, timeout=60
        )
    except httpx.TransportError:
        return None
    return answer.text if answer.status_code == 200 else None


def counted(port: int) -> float:
    scrape = Scrape(wait_until(lambda: call(port, "/metrics"), "metrics"))
    labels = {"method": "GET", "route": "/v1/clouds", "status": "200"}
    return scrape.value("spotfed_http_request_duration_seconds_count", **labels) or 0.0


def test_processes_share_a_port_and_their_metrics_and_end_together(parent: psutil.Process, port: int) -> None:
    wait_until(lambda: len(workers(parent)) == 2, "two processes")
    answered = 0
    wait_until(lambda: call(port, "/v1/clouds"), "the API")
    answered += 1
    for _ in range(20):
        assert call(port, "/v1/clouds") is not None
        answered += 1
    assert {counted(port) for _ in range(10)} == {answered}

    victim, other = workers(parent)
    victim.send_signal(signal.SIGKILL)
    wait_until(lambda: len({*workers(parent)} - {victim, other}) == 1, "another process in its place")
    wait_until(lambda: call(port, "/v1/clouds"), "the API")
    answered += 1
    assert {counted(port) for _ in range(10)} == {answered}

    def under_way() -> bool:
        """The scrape itself, and nothing of the process that was killed."""
        scrape = Scrape(call(port, "/metrics") or "")
        return scrape.value("spotfed_http_requests_in_progress") == 1

    wait_until(under_way, "the calls under way are those of living processes")
    children = workers(parent)
    parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(child.is_running() for child in children), "its processes end")
