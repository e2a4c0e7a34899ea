"""One delivery, to a real server: where it connects, what it says there, and how long it waits."""

import asyncio
import datetime as dt
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from broker.webhooks.envelope import build_test_message
from broker.webhooks.secrets import new_secret
from broker.webhooks.sender import DeliveryOutcome, Sender
from tests.contract.webhooks.receiver import receiving

HERE = (ip_network("127.0.0.0/8"),)
NAME = "hooks.example"
SECRET = new_secret()
NOW = dt.datetime.now(dt.UTC)


class Names:
    """Always the same answer, and how often it was asked."""

    def __init__(self, *addresses: str):
        self.addresses, self.asked = addresses, 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.addresses


def post(url: str, names: Any, **options: Any) -> DeliveryOutcome:
    async def once() -> DeliveryOutcome:
        sender = Sender(names, HERE, **options)
        try:
            return await sender.send(url, build_test_message("1", "w"), [SECRET])
        finally:
            await sender.aclose()

    return asyncio.run(once())


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for ``name``, and a client's that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - dt.timedelta(days=1))
        .not_valid_after(NOW + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / f"{name}.pem"
    file.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    client = ssl.create_default_context(cafile=str(file))
    return server, client


def test_it_connects_to_the_checked_address_under_the_right_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, trust = certificate(tmp_path, NAME)
    told: list[Any] = []
    server.sni_callback = lambda _, name, __: told.append(name)
    looked_up: list[Any] = []
    real = socket.getaddrinfo

    def watched(host: Any, *rest: Any, **more: Any) -> Any:
        looked_up.append(host)
        return real(host, *rest, **more)

    monkeypatch.setattr("socket.getaddrinfo", watched)
    names = Names("127.0.0.1")
    with receiving(server) as receiver:
        outcome = post(f"https://{NAME}:{receiver.port}/x?y=1", names, trust=trust)
        assert outcome.delivered, outcome
        (one,) = receiver.arrived
        assert one.headers["host"] == f"{NAME}:{receiver.port}"
        assert one.path == "/x?y=1"
        assert one.is_signed(SECRET)
    assert told == [NAME]
    assert names.asked == 1
    assert {str(host) for host in looked_up} <= {"127.0.0.1"}  # nobody asks for the name a second time


def test_a_certificate_for_another_name_is_not_believed(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "other.example")
    with receiving(server) as receiver:
        outcome = post(f"https://{NAME}:{receiver.port}/", Names("127.0.0.1"), trust=trust)
        assert outcome.error == "no connection: its certificate cannot be verified"
        assert receiver.arrived == []


def test_who_answers_with_another_address_later_gains_nothing() -> None:
    class Rebinding(Names):
        async def __call__(self, host: str, port: int) -> Sequence[str]:
            self.asked += 1
            return ["127.0.0.1"] if self.asked == 1 else ["10.0.0.1"]

    names = Rebinding()
    with receiving() as receiver:
        assert post(f"http://{NAME}:{receiver.port}/", names).delivered
        again = post(f"http://{NAME}:{receiver.port}/", names)
        assert again.status is None
        assert "private" in str(again.error)
        assert len(receiver.arrived) == 1


def test_the_next_address_is_tried_when_there_is_no_connection() -> None:
    with receiving() as receiver:
        url = f"http://{NAME}:{receiver.port}/"
        assert post(url, Names("127.0.0.9", "127.0.0.1")).delivered  # nobody listens at the first
        assert post(url, Names("127.0.0.9")).error == "no connection"
        assert len(receiver.arrived) == 1


def test_a_proxy_in_the_environment_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert post(receiver.url, Names("127.0.0.1")).delivered
        assert (len(proxy.arrived), len(receiver.arrived)) == (0, 1)


def test_cookies_are_not_kept() -> None:
    async def twice() -> None:
        sender = Sender(Names("127.0.0.1"), HERE)
        for _ in range(2):
            await sender.send(receiver.url, build_test_message("1", "w"), [SECRET])
        await sender.aclose()

    with receiving() as receiver:
        receiver.answer = lambda _: (200, {"Set-Cookie": "a=1; Path=/"})
        asyncio.run(twice())
        assert all("cookie" not in one.headers for one in receiver.arrived)


class Raw:
    """A server that says something to whoever connects, and then waits."""

    def __init__(self, *parts: bytes):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.parts, self.sent = parts, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Raw":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.listening.close()
        self.thread.join(60)

    def _serve(self) -> None:
        with suppress(OSError):  # also of a test that ends before anybody connected
            connection, _ = self.listening.accept()
            with connection:
                connection.recv(65536)
                for part in self.parts:
                    connection.sendall(part)
                    self.sent += len(part)
                self.ended.wait(60)


def raw(*parts: bytes, **options: Any) -> tuple[DeliveryOutcome, Raw]:
    with Raw(*parts) as server:
        return post(f"http://{NAME}:{server.port}/", Names("127.0.0.1"), **options), server


def test_an_endless_answer_is_not_read() -> None:
    megabyte = b"x" * 2**20
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n"
    outcome, server = raw(head, *[megabyte] * 64)
    assert (outcome.delivered, outcome.status) == (True, 200)
    assert server.sent < 32 * 2**20  # what the buffers of the kernel take


def test_an_answer_that_never_ends_counts_by_its_status() -> None:
    outcome, _ = raw(b"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\nRetry-After: 7\r\n\r\n1", timeout_s=1.0)
    assert (outcome.error, outcome.retry_after_s) == ("answered 503", 7.0)


@pytest.mark.parametrize("parts", [(), (b"HTTP/1.1 200 OK\r\n",), (b"HTTP/1.1 100 Continue\r\n\r\n" * 3,)])
def test_who_says_nothing_in_time_is_given_up(parts: tuple[bytes, ...]) -> None:
    assert raw(*parts, timeout_s=0.1)[0] == DeliveryOutcome(None, "no answer within 0.1 s", ANY)


@pytest.mark.parametrize(
    "part", [b"220 mail.example ESMTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000]
)
def test_what_is_no_answer(part: bytes) -> None:
    assert raw(part)[0] == DeliveryOutcome(None, "no HTTP answer", ANY)


@pytest.mark.parametrize(
    ("text", "at_least", "at_most"),
    [
        ("120", 120, 120),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0, 0),
        ("Fri, 31 Dec 2999 23:59:59 GMT", 1e9, 1e11),
    ],
)
def test_the_receiver_may_ask_for_time(text: str, at_least: float, at_most: float) -> None:
    with receiving() as receiver:
        receiver.answer = lambda _: (429, {"Retry-After": text})
        asked_s = post(receiver.url, Names("127.0.0.1")).retry_after_s
        assert asked_s is not None
        assert at_least <= asked_s <= at_most
        receiver.answer = lambda _: (429, {"Retry-After": "soon"})
        assert post(receiver.url, Names("127.0.0.1")).retry_after_s is None
