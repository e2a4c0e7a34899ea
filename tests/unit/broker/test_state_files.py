"""Where clients on a machine look for its API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.local.state_files import find_api_url, record_file
from broker.settings import Settings


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "http://127.0.0.1:7000"),
        ({"port": 0}, "http://127.0.0.1:7000"),
        ({"port": 9000}, "http://127.0.0.1:9000"),
        ({"port": 9000, "host": "0.0.0.0"}, "http://127.0.0.1:9000"),
        ({"port": 9000, "host": "::1"}, "http://[::1]:9000"),
        ({"port": 9000, "host": "alpha.example", "tls_cert": Path("api.pem")}, "https://alpha.example:9000"),
        ({"port": 9000, "url": "https://spot.example"}, "https://spot.example"),
    ],
)
def test_the_api_is_where_the_settings_say_else_where_up_serves(
    tmp_path: Path, given: dict[str, Any], url: str
) -> None:
    record_file(tmp_path).write_text(json.dumps({"url": "http://127.0.0.1:7000"}))
    assert find_api_url(Settings(state_dir=tmp_path, **given)) == url


def test_where_nothing_runs_it_is_the_default(tmp_path: Path) -> None:
    assert find_api_url(Settings(state_dir=tmp_path)) == "http://127.0.0.1:8000"
