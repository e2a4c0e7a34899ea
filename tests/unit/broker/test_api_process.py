"""The process of the API is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_api_that_is_told_to_stop_ends_with_0(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.api", "--port", "0"],
        env={**os.environ, "SPOTFED_REDIS_URL": "redis://127.0.0.1:1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "running on" in line:
                break
        process.send_signal(number)
        assert "Traceback" not in process.stderr.read()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.stderr.close()
        process.wait()
