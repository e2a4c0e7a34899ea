"""Runs HAProxy as deploy/haproxy says, before two APIs of a test."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.wait import wait_until

_CONFIG = Path(__file__).resolve().parents[2] / "deploy/haproxy/haproxy.cfg"


class Balancer:
    """HAProxy, without TLS, at an address with a port, before APIs at two others."""

    def __init__(self, directory: Path, listens: str, alpha: str, beta: str):
        program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
        assert program, "install the Debian package haproxy"
        config = _CONFIG.read_text()
        for told, ours in (
            (r"bind :8443 ssl crt \S+", f"bind {listens}"),
            (r"alpha\.example:8000", alpha),
            (r"beta\.example:8000", beta),
        ):
            config, count = re.subn(told, ours, config)
            assert count == 1, told
        file = directory / "haproxy.cfg"
        file.write_text(config)
        self._command, self._log = [program, "-db", "-f", str(file)], directory / "haproxy.log"
        self._started: list[subprocess.Popen[bytes]] = []
        self._start()

    def _start(self, *options: str) -> None:
        with self._log.open("ab") as log:
            self._started.append(subprocess.Popen([*self._command, *options], stdout=log, stderr=log))

    def restart(self, is_ready: Callable[[], object]) -> None:
        """Start another one, which listens beside the first until that has been told to finish."""
        before = self._started[-1]
        self._start("-sf", str(before.pid))
        wait_until(is_ready, "the balancer")

    def stop(self) -> None:
        """Kill all of them."""
        for process in self._started:
            process.kill()
            process.wait()


@contextmanager
def balancer(directory: Path, listens: str, alpha: str, beta: str) -> Iterator[Balancer]:
    """Run one until the end."""
    running = Balancer(directory, listens, alpha, beta)
    try:
        yield running
    finally:
        running.stop()
