"""HTTP servers of tests on loopback, and what they do instead of answering."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from tests.unit.workers.cloud_agent.exam import Fault

Application = Callable[[Any, Any], Iterable[bytes]]
_PAGE = "<html><head><title>Oh</title></head><body><p>Something went wrong.</p></body></html>"


class Broken:
    """An application in front of another one, which it hides while there is a fault."""

    def __init__(self, application: Application):
        self.application = application
        self.fault: Fault | None = None
        self.over = threading.Event()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if self.fault is None:
            return self.application(environ, start_response)
        Request(environ).get_data()
        return self._instead(self.fault)(environ, start_response)

    def _instead(self, fault: Fault) -> Response:
        match fault:
            case Fault.FAILS:
                return Response(_PAGE, 500, mimetype="text/html")
            case Fault.FAILS_WITHOUT_A_WORD:
                return Response(b"", 503)
            case Fault.ANOTHER_PAGE:
                return Response(_PAGE, 200, mimetype="text/html")
            case Fault.GARBAGE:
                return Response(b"\xff\x00\xfe{<" * 1000, 200, mimetype="application/json")
            case Fault.CUT:
                return Response([b'{"servers": [{"id": "'], 200, headers={"Content-Length": "1000"})
            case Fault.CLOSES:
                raise ConnectionAbortedError
            case Fault.HANGS:
                self.over.wait()
                raise ConnectionAbortedError
            case Fault.TRICKLES:
                return Response(self._bytes(), 200, headers={"Content-Length": "1000000"})
            case Fault.ELSEWHERE:
                return Response(b"", 307, headers={"Location": "http://127.0.0.1:9/"})

    def _bytes(self) -> Iterator[bytes]:
        while not self.over.wait(0.05):
            yield b"<"


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002
        pass

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        self.close_connection = True


@contextmanager
def served(
    application: Broken, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Its address, and what makes it go away."""
    server = make_server("127.0.0.1", 0, application, True, request_handler=_Quiet, ssl_context=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    gone = threading.Event()

    def go_away() -> None:
        gone.set()
        application.over.set()
        server.shutdown()
        server.server_close()
        thread.join()

    try:
        yield f"{'http' if tls is None else 'https'}://localhost:{server.server_port}", go_away
    finally:
        if not gone.is_set():
            go_away()
