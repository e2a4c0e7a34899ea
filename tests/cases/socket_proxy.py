"""A relay in front of a server's Unix socket, whose connections a test can cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Proxy:
    """``url`` is that of the server, through this relay."""

    def __init__(self, redis_url: str, path: Path):
        self._server = unquote(urlsplit(redis_url).path)
        self._path = path
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(64)
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._cut = threading.Event()
        self._hushed = threading.Event()
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"unix://{self._path}?db=0"

    def reset(self) -> None:
        """All connections end at once; new ones are taken."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(pair)

    def cut(self) -> None:
        """All connections end, and new ones do as soon as they are made."""
        self._cut.set()
        self.reset()

    def mend(self) -> None:
        self._cut.clear()

    def hush(self) -> None:
        """What clients say arrives; what the server answers does not."""
        self._hushed.set()

    def unhush(self) -> None:
        self._hushed.clear()

    def lead_to(self, redis_url: str) -> None:
        """New connections go to another server; those that exist stay where they are."""
        self._server = unquote(urlsplit(redis_url).path)

    def close(self) -> None:
        self.cut()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self.accepted += 1
            if self._cut.is_set():
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._server)
            with self._lock:
                self._pairs.append((near, far))
            for ends in ((near, far, None), (far, near, self._hushed)):
                threading.Thread(target=_relay, args=ends, daemon=True).start()


def _relay(source: socket.socket, target: socket.socket, hushed: threading.Event | None) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            if hushed is None or not hushed.is_set():
                target.sendall(data)
    _end((source, target))


def _end(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def proxy_to(redis_url: str, path: Path) -> Iterator[Proxy]:
    """Closed at the end."""
    proxy = Proxy(redis_url, path)
    try:
        yield proxy
    finally:
        proxy.close()
