"""TLS from end to end: a real owner and a real API over rediss://, a real client over https://."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
import redis

from broker import cli
from broker.client import Client, GrantedRequest, UnavailableError, UntrustedError
from broker.contract import SpotRequest
from broker.identity.store import api_key_digest, let_in_operator
from broker.settings import settings
from broker.storage.connections import connect
from tests.integration.certificates import Authority, Pair, terminating
from tests.integration.worker_processes import Processes
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("worker-processes")


@dataclass(frozen=True)
class Secured:
    """A running federation: where its Redis and its API are, and who signed what."""

    processes: Processes
    ours: Authority
    others: Authority
    pair: Pair
    redis_port: int
    api_port: int

    @property
    def environment(self) -> dict[str, str]:
        """Of a party that may take part."""
        return {
            "SPOTFED_REDIS_URL": f"rediss://localhost:{self.redis_port}/0",
            "SPOTFED_REDIS_CA": str(self.ours.file),
            "SPOTFED_REDIS_CERT": str(self.pair.cert),
            "SPOTFED_REDIS_KEY": str(self.pair.key),
            "SPOTFED_URL": f"https://localhost:{self.api_port}",
            "SPOTFED_CA": str(self.ours.file),
            "SPOTFED_CLIENT_CERT": str(self.pair.cert),
            "SPOTFED_CLIENT_KEY": str(self.pair.key),
            "SPOTFED_API_KEY": "k",
        }


@pytest.fixture(scope="module")
def secured(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    ours, others = Authority(directory, "ours"), Authority(directory, "others")
    pair = ours.pair("localhost")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        api_port = probe.getsockname()[1]
    with (
        terminating(urlsplit(redis_url).path, pair, client_ca=ours.file) as redis_port,
        Processes(redis_url, directory) as processes,
    ):
        made = Secured(processes, ours, others, pair, redis_port, api_port)
        let_in_operator(processes.client, processes.keys, "k")
        # Without polls: the doorbell, which is Celery's, must come over TLS too.
        processes.owner("--history", "1h", SPOTFED_INBOX_POLL_S="900", **made.environment)
        processes.start(
            "broker.api", "--port", str(api_port), SPOTFED_TLS_CERT=str(pair.cert),
            SPOTFED_TLS_KEY=str(pair.key), SPOTFED_TLS_CLIENT_CA=str(ours.file),
            SPOTFED_ADVERT_MAX_AGE_S="3600", SPOTFED_REPLY_DEADLINE_S="20", **made.environment,
        )  # fmt: skip
        processes.opened(1)
        wait_until(lambda: _listens(api_port), "the API")
        yield made


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def told(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Sets what this process is told, beside or instead of what a party is."""

    def tell(**environ: str | None) -> None:
        for name in [name for name in os.environ if name.startswith("SPOTFED_")]:
            monkeypatch.delenv(name)
        here = {
            "SPOTFED_STATE_DIR": str(secured.processes.directory),
            "SPOTFED_KEY_PREFIX": secured.processes.settings.key_prefix,
        }
        for name, value in (secured.environment | here | environ).items():
            if value is not None:
                monkeypatch.setenv(name, value)
        settings.cache_clear()

    tell()
    yield tell
    settings.cache_clear()


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def spotfed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["spotfed", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


def test_a_request_is_served_over_tls_all_the_way(secured: Secured, told: Callable[..., None]) -> None:
    with Client(deadline_s=60) as client:
        wait_until(
            lambda: [view for view in client.clouds.list() if view.reachable], "a cloud that can be asked"
        )
        answer = client.requests.submit(SpotRequest(cores=1, lifetime_s=600, sla=None, origin="B"))
        assert isinstance(answer, GrantedRequest)
        assert answer.lease.cloud == "A"
        lease = answer.lease.id

        def told_of() -> bool:
            events = client.events.stream(follow=False)
            return any(one.event.lease and one.event.lease.id == lease for one in events)

        wait_until(told_of, "its event")
    with connect(f"rediss://localhost:{secured.redis_port}/0") as client:
        assert client.hexists(secured.processes.keys.api_keys, api_key_digest("k"))


def test_a_client_refuses_whom_it_cannot_trust(
    secured: Secured, told: Callable[..., None], spotfed: Run
) -> None:
    wait_until(lambda: spotfed("clouds", "--json")[0] == 0, "the API")
    wrong: dict[str, dict[str, str | None]] = {
        "set SPOTFED_CA to the file of the authority": {"SPOTFED_CA": str(secured.others.file)},
        "its certificate is for another host": {"SPOTFED_URL": f"https://127.0.0.1:{secured.api_port}"},
    }
    for words, environ in wrong.items():
        told(**environ)
        code, said = spotfed("clouds")
        assert code == 4, said
        assert words in said
        assert "spotfed up" not in said
        assert "SPOTFED_API_KEY" not in said
        with Client(deadline_s=60) as client, pytest.raises(UntrustedError, match=words):
            client.clouds.list()  # at once, not after a minute
        with Client(deadline_s=60) as client, pytest.raises(UntrustedError, match=words):
            next(client.events.stream())
    told(SPOTFED_CLIENT_CERT=None, SPOTFED_CLIENT_KEY=None)
    with Client(deadline_s=0.1) as client, pytest.raises(UnavailableError, match="SPOTFED_CLIENT_CERT"):
        client.clouds.list()


def test_nothing_starts_on_a_redis_that_does_not_prove_itself(secured: Secured) -> None:
    untrusted = secured.environment | {"SPOTFED_REDIS_CA": str(secured.others.file)}
    elsewhere = secured.environment | {
        "SPOTFED_REDIS_URL": f"rediss://u:s3cret@127.0.0.1:{secured.redis_port}/0"
    }
    owner = ("workers.owner", "--cloud", "A", "--federation", str(secured.processes.file))
    authority = "set SPOTFED_REDIS_CA to the file of the authority"
    wrong: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        (owner, untrusted, authority),
        (("workers.montecarlo",), untrusted, authority),
        (("broker.api", "--port", "0"), elsewhere, "is for another host"),
    ]
    started = []
    for command, environ, words in wrong:
        log = secured.processes.directory / f"{len(secured.processes.running)}.log"
        started.append((secured.processes.start(*command, **environ), log, words))
    for process, log, words in started:
        assert process.wait(60) == os.EX_CONFIG
        assert words in log.read_text()
        assert "s3cret" not in log.read_text()
        assert "Traceback" not in log.read_text()


def test_old_versions_of_tls_are_refused(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=secured.ours.file)
    context.load_cert_chain(secured.pair.cert, secured.pair.key)
    context.set_ciphers("ALL:@SECLEVEL=0")  # else the client itself would refuse
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", secured.api_port), timeout=60) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


def test_doctor_tells_how_long_the_certificates_last(
    secured: Secured, told: Callable[..., None], spotfed: Run, redis_url: str
) -> None:
    wait_until(lambda: spotfed("clouds", "--json")[0] == 0, "the API")
    checks = _checks(spotfed("doctor", "--json")[1])
    assert checks["redis certificate"]["state"] == checks["api certificate"]["state"] == "ok"
    assert "TLSv1.3" in checks["api certificate"]["found"]
    assert checks["redis policy"]["state"] == "ok"

    told(SPOTFED_REDIS_CA=str(secured.others.file))
    code, said = spotfed("doctor", "--json")
    assert code == 1
    assert "set SPOTFED_REDIS_CA" in _checks(said)["redis certificate"]["found"]

    soon = secured.ours.pair("localhost", days=10)
    with terminating(urlsplit(redis_url).path, soon) as port:
        told(SPOTFED_REDIS_URL=f"rediss://localhost:{port}/0")
        found = _checks(spotfed("doctor", "--json")[1])["redis certificate"]
    assert found["state"] == "warning"
    assert "in 9 days" in found["found"]


def test_an_expired_certificate_is_called_expired(
    secured: Secured, told: Callable[..., None], redis_url: str
) -> None:
    over = secured.ours.pair("localhost", days=-1)
    with terminating(urlsplit(redis_url).path, over) as port:
        told(SPOTFED_REDIS_URL=f"rediss://localhost:{port}/0")
        with (
            connect(f"rediss://localhost:{port}/0") as client,
            pytest.raises(redis.ConnectionError, match="expired"),
        ):
            client.ping()


def _checks(said: str) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(said)["checks"]}
