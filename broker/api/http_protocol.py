"""The HTTP protocol of the API's server: uvicorn's own, which waits for slow callers for ever, with limits.

A caller must send the head of a call within ``header_timeout_s`` and 64 KiB, and its body within
``body_timeout_s``. Routes that read a body answer 408 in time themselves; here the connection is closed where
nobody reads the body, or its caller goes on sending after the answer.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from broker.settings import settings

_MOST_HEAD_BYTES = 65_536
_CLOSING_S = 5.0  # longer than the routes take to answer 408


class LimitedHttpProtocol(HttpToolsProtocol):
    """Serves one connection, with the time-outs of the settings of this process."""

    settings = staticmethod(settings)

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        chosen = self.settings()
        self.header_timeout_s, self.body_timeout_s = chosen.header_timeout_s, chosen.body_timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._awaits_head, self._awaits_body, self._begins = True, False, False
        self._head_bytes = self._calls = 0
        self._unanswered: list[RequestResponseCycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the head of the first call."""
        super().connection_made(transport)
        self._start_timer(self.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more, and end the calls under way."""
        self._stop_timer()
        self._end_calls()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once: what is still to be sent is dropped."""
        self._end_calls()
        self.transport.abort()

    def _end_calls(self) -> None:
        """Let calls write nothing more; uvicorn itself tells the newest call only."""
        for call in self._unanswered:
            call.disconnected = True
            call.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Parse what came; go on waiting if that was not all of a head or a body."""
        calls, self._begins = self._calls, False
        super().data_received(data)
        if self._awaits_head:
            if not self._begins:  # else the data may hold the end of what came before
                self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            elif self._timer is None or self._begins:
                self._start_timer(self.header_timeout_s)
        elif self._awaits_body:
            if self._calls != calls:
                self._start_timer(self.body_timeout_s + _CLOSING_S)
        else:
            self._stop_timer()

    def on_message_begin(self) -> None:
        """Note that a call begins, and let whoever answers it close the connection."""
        super().on_message_begin()
        self.scope["state"]["abort"] = self.abort
        self._awaits_head, self._begins, self._head_bytes = True, True, 1

    def on_headers_complete(self) -> None:
        """Note that the head is there."""
        self._awaits_head, self._awaits_body = False, True
        self._calls += 1
        super().on_headers_complete()
        if self.cycle is not None:
            self._unanswered = [call for call in self._unanswered if not call.response_complete]
            self._unanswered.append(self.cycle)

    def on_message_complete(self) -> None:
        """Note that the call is there."""
        self._awaits_body = False
        super().on_message_complete()

    def _start_timer(self, after_s: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(after_s, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        answers = self._calls and not self.cycle.response_complete
        if self._awaits_head and self._head_bytes and not answers:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus) -> None:
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()
