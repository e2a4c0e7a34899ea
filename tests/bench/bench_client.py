"""The client and the commands that talk to the API: CPU and time beside importing what they are made of.

    python -m tests.bench.bench_client

Each line is a process of its own, and all take turns. The commands get their answers from a federation in
memory behind a real socket, so that nothing but the command itself is measured. Ratios are of the CPU time,
user and system, to that of ``python -c "import typer, httpx, pydantic"`` in the same run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from broker.testing import InMemoryFederation
from tests.bench.targets import line

ROUNDS = 15
_RATIO, _IMPORT_S = 1.8, 0.2
_LIBRARIES = ("-c", "import typer, httpx, pydantic")
_CLIENT = ("-c", "import broker.client")
_COMMAND = ("-c", "from broker.cli import main; main()")
#: What is measured, by its name; the first is what the others are compared with.
PROCESSES = {
    "import typer, httpx, pydantic": _LIBRARIES,
    "import broker.client": _CLIENT,
    "spotfed clouds": (*_COMMAND, "clouds"),
    "spotfed quote": (*_COMMAND, "quote", "--cores", "2", "--lifetime", "1h", "--sla", "0.05"),
    "spotfed submit": (*_COMMAND, "submit", "--cores", "1", "--lifetime", "1h", "--sla", "0.05"),
    "spotfed leases": (*_COMMAND, "leases"),
}


@contextmanager
def serving() -> Iterator[str]:
    """A federation in memory behind a socket; yields its address."""
    federation = InMemoryFederation()
    for cloud in ("harbour", "meadow"):
        federation.add_cloud(cloud, (64,) * 400)
    inner = federation.client()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = inner._http.request(self.command, self.path, content=body)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["content-type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with inner, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def spend_s(arguments: Sequence[str], environment: dict[str, str]) -> float:
    """CPU time of a Python process, user and system."""
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    complaint = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{arguments}: {complaint}"
    return usage.ru_utime + usage.ru_stime


def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """CPU seconds of each process of ``PROCESSES``, one a round; a round before the first fills caches."""
    seconds: dict[str, list[float]] = {name: [] for name in PROCESSES}
    with serving() as url, tempfile.TemporaryDirectory() as state:
        environment = {
            **os.environ,
            "SPOTFED_URL": url,
            "SPOTFED_API_KEY": "bench",
            "SPOTFED_STATE_DIR": state,
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for name, arguments in PROCESSES.items():
                spent_s = spend_s(arguments, environment)
                if number:
                    seconds[name].append(spent_s)
    return seconds


def table(rounds: int = ROUNDS) -> list[str]:
    """Lines of the table; each ratio is the median of those of its rounds."""
    (first, base), *others = measure(rounds).items()
    lines = [f"CPU seconds of {first}: {statistics.median(base):.3f}"]
    for name, seconds in others:
        if name == "import broker.client":
            lines.append(line(f"{name}: CPU seconds", statistics.median(seconds), "s", _IMPORT_S))
        ratio = statistics.median(own / beside for own, beside in zip(seconds, base, strict=True))
        lines.append(line(f"{name}: CPU beside {first}", ratio, "x", _RATIO))
    return lines


def main() -> None:
    """Measures and prints."""
    print("\n".join(table()))


if __name__ == "__main__":
    main()
