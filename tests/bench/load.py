"""A load generator for HTTP: connections that are kept, each with one call under way.

It knows just enough of HTTP/1.1 to find the end of an answer that has a Content-Length, and costs some 30 µs
a call: little beside what it measures.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import uvloop


@dataclass
class Load:
    """What a run came to. ``statuses`` counts the answers; ``took_s`` holds their latencies."""

    seconds: float = 0.0
    took_s: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.took_s) / self.seconds


class _Connection(asyncio.Protocol):
    """Sends a call, waits for its answer, and sends the next until ``until_s``."""

    def __init__(self, call: bytes, until_s: float, load: Load):
        self._call, self._until_s, self._load = call, until_s, load
        self._buffer, self._end = b"", 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._end:
            head, found, _ = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            self._end = len(head) + 4 + int(length)
        if len(self._buffer) < self._end:
            return
        now_s, load = time.perf_counter(), self._load
        status = int(self._buffer[9:12])
        self._buffer, self._end = b"", 0
        load.took_s.append(now_s - self._sent_s)
        load.statuses[status] = load.statuses.get(status, 0) + 1
        if now_s < self._until_s:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        self._sent_s = time.perf_counter()
        self._transport.write(self._call)


def post(host: str, port: int, body: bytes, connections: int, seconds: float, key: str = "") -> Load:
    """POST ``body`` to ``/v1/requests`` over and over."""
    head = f"POST /v1/requests HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    call = head.encode() + body

    async def run() -> Load:
        load, began_s = Load(), time.perf_counter()
        loop = asyncio.get_running_loop()
        opened = [
            await loop.create_connection(lambda: _Connection(call, began_s + seconds, load), host, port)
            for _ in range(connections)
        ]
        await asyncio.gather(*(connection.done for _, connection in opened))
        load.seconds = time.perf_counter() - began_s
        return load

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())
