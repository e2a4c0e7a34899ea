"""A live federation is upgraded process by process to a made-up next version of the contract."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.contract import VERSION
from broker.identity.store import let_in_operator
from broker.storage.negotiation import list_older_processes, read_federation_version
from tests.integration.worker_processes import ROOT, Processes
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.xdist_group("worker-processes")]

NEXT = VERSION + 1
KEY = "k"


@pytest.fixture(scope="module")
def next_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code with one field more in every event, and so with a higher version."""
    tree = tmp_path_factory.mktemp("next")
    for package in ("broker", "workers", "cloudsim"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    _replace(
        tree / "broker/contract/version.py",
        "\nOLDEST_VERSION = ",
        f"\nOLDEST_VERSION = {VERSION}  # ",
    )
    event = "    cloud: CloudId\n    kind: EventKind\n"
    mark = f'    mark: str = Field(default="new", json_schema_extra={{"x-since": {NEXT}}})\n'
    events = tree / "broker/contract/events.py"
    _replace(events, event, event + mark)
    _replace(
        events, "from typing import Literal\n", "from typing import Literal\n\nfrom pydantic import Field\n"
    )
    return tree


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file.name}: {old!r}"
    file.write_text(text.replace(old, new))


class Users:
    """They ask one API after the other, and for old requests again."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[int, str]] = {}

    def ask(self, port: int, request: str) -> None:
        body = {"id": request, "origin": "user", "cores": 1, "lifetime_s": 3600}
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = httpx.post(f"http://127.0.0.1:{port}/v1/requests", json=body, headers=headers, timeout=60)
        assert answer.status_code == 201, answer.text
        lease = answer.status_code, answer.json()["lease"]["id"]
        assert self._answers.setdefault(request, lease) == lease, "the same id, the same answer"

    def ask_for_all_again(self, port: int) -> None:
        for request in list(self._answers):
            self.ask(port, request)


def start_api(processes: Processes) -> tuple[subprocess.Popen[bytes], int]:
    port = free_port()
    process = processes.start("broker.api", "--port", str(port))

    def alive() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    wait_until(alive, "the API")
    return process, port


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    assert process.wait(60) in (0, -signal.SIGTERM)  # uvicorn ends by the signal that it was sent


def test_a_federation_is_upgraded_process_by_process(
    redis_url: str, tmp_path: Path, next_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.storage.negotiation.VERSION", NEXT)
    users = Users()
    with Processes(redis_url, tmp_path) as processes:
        client, keys = processes.client, processes.keys
        let_in_operator(client, keys, KEY)
        owner = processes.owner("--history", "1h")
        processes.opened(1)
        api, port = start_api(processes)
        users.ask(port, "before")

        stop(owner)
        processes.tree = next_tree
        owner = processes.owner("--history", "1h")
        processes.opened(2)
        users.ask(port, "new-owner-old-api")
        users.ask_for_all_again(port)
        (old_api,) = list_older_processes(client, keys)
        assert old_api.startswith("API process ")
        assert read_federation_version(client, keys) == VERSION

        new_api, new_port = start_api(processes)
        users.ask(new_port, "both-apis")
        users.ask(port, "both-apis")
        assert read_federation_version(client, keys) == VERSION
        stop(api)
        client.delete(keys.process_version(old_api.removeprefix("API process ")))  # or it runs out
        wait_until(lambda: read_federation_version(client, keys) == NEXT, "the next version")
        events: list[dict[str, Any]] = []

        def marked() -> bool:
            users.ask(new_port, f"after-{len(events)}")
            events[:] = [json.loads(entry.body) for entry in processes.journal.entries.after()]
            return events[-1]["version"] == NEXT

        wait_until(marked, "an event of the next version")
        users.ask_for_all_again(new_port)
        assert {(event["version"], event.get("mark")) for event in events} == {(VERSION, None), (NEXT, "new")}
        assert processes.journal.dead_letters.count() == 0

        stop(owner)
        stop(new_api)
        processes.tree = ROOT
        assert processes.owner("--history", "1h").wait(60) == os.EX_CONFIG, "there is no way back"
