"""Runs HAProxy as deploy/haproxy says, before two APIs of a test."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CONFIG = Path(__file__).resolve().parents[2] / "deploy/haproxy/haproxy.cfg"


@contextmanager
def balancer(directory: Path, listens: str, alpha: str, beta: str) -> Iterator[None]:
    """Run it, without TLS, at an address with a port, before APIs at two others."""
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
    with (directory / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([program, "-db", "-f", file], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
