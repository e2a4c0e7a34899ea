"""Scripts end whatever they are called with, and a server that forgot them gets them again."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
import redis

from broker.doctor.installation import Installation
from broker.doctor.redis import check_redis
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.scripts import list_scripts, load_scripts
from tests.support.wait import wait_until


@pytest.mark.parametrize("keys", [0, 1, 30])
@pytest.mark.parametrize("argument", ["1000000000000000", "1e15", "-1", "x", ""])
def test_no_arguments_keep_a_script_running(redis_url: str, keys: int, argument: str) -> None:
    """Owners may run all of them, and Redis serves nobody else meanwhile."""
    with connect(redis_url, socket_timeout=20.0) as client:
        for text in list_scripts():
            client.flushall()
            try:
                client.eval(text, keys, *(f"key-{number}" for number in range(keys)), *[argument] * 40)
            except redis.TimeoutError:
                with suppress(redis.RedisError), connect(redis_url, health_check_interval=0) as other:
                    other.script_kill()
                raise AssertionError(text) from None
            except redis.ResponseError:
                pass  # it was told nonsense


def test_scripts_that_a_server_forgot_are_loaded_again(redis_client: redis.Redis) -> None:
    redis_client.script_flush()
    assert load_scripts(redis_client) == len(list_scripts()) > 20
    assert load_scripts(redis_client) == 0


def test_doctor_says_how_to_stop_a_script_that_does_not_end(redis_url: str) -> None:
    def run() -> None:
        with suppress(redis.RedisError), connect(redis_url, socket_timeout=60) as client:
            client.eval("while true do end", 0)

    endless = threading.Thread(target=run)
    endless.start()
    try:
        with Installation(Settings(), redis_url=redis_url) as installation:
            (result,) = wait_until(lambda: check_redis(installation), "a busy server")
        assert "a script does not end" in result.advice
        assert "SCRIPT KILL" in result.advice
    finally:
        with connect(redis_url, health_check_interval=0) as client:
            client.script_kill()
        endless.join(60)
