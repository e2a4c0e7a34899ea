"""A receiver of webhooks on a port of its own, which verifies every signature with the standard's library."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

#: Status and headers for what arrived; it may take its time.
Answer = Callable[["Arrived"], tuple[int, dict[str, str]]]


@dataclass(frozen=True)
class Arrived:
    """One request, as it came."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def event(self) -> dict[str, Any]:
        envelope: dict[str, Any] = json.loads(self.body)
        return envelope

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed(self, secret: str) -> bool:
        try:
            Webhook(secret).verify(self.body, self.headers)
        except WebhookVerificationError:
            return False
        return True


def fine(_: Arrived) -> tuple[int, dict[str, str]]:
    return 204, {}


@dataclass
class Receiver:
    """What arrived, and how it is answered."""

    port: int = 0
    answer: Answer = fine
    arrived: list[Arrived] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def ids(self) -> list[str]:
        return [one.id for one in self.arrived]

    def answer_in_turn(self, *statuses: int) -> None:
        """With each of them once, the last one for ever."""
        left = list(statuses)
        self.answer = lambda _: (left.pop(0) if len(left) > 1 else left[0], {})


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """It listens until the block ends, on ``127.0.0.1``."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            arrived = Arrived(self.path, {name.lower(): text for name, text in self.headers.items()}, body)
            receiver.arrived.append(arrived)
            status, headers = receiver.answer(arrived)
            try:
                self.send_response(status)
                for name, text in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, text)
                self.end_headers()
            except OSError:
                pass  # the sender had no more patience

        def do_GET(self) -> None:
            receiver.arrived.append(Arrived(f"GET {self.path}", {}, ""))
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
