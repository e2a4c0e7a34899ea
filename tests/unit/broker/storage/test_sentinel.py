"""Addresses of Sentinels, and which of them is believed."""

from __future__ import annotations

from typing import Any, cast

import pytest
import redis
from redis.sentinel import MasterNotFoundError

from broker.queue.celery_config import make_app
from broker.settings import Settings, check_redis_url, public_address
from broker.storage.connections import celery_url, connect
from broker.storage.sentinel import SentinelAddress, Sentinels

URL = "redis+sentinel://u:p%40@h1:1,h2,[::1]:3/main/2?sentinel_username=s&sentinel_password=q%26"


def test_an_address_has_all_parts() -> None:
    address = SentinelAddress.parse(check_redis_url(URL))
    assert address.hosts == (("h1", 1), ("h2", 26379), ("::1", 3))
    assert (address.service, address.db, address.tls) == ("main", 2, {})
    assert address.login == {"username": "u", "password": "p@"}
    assert address.sentinel_login == {"username": "s", "password": "q&"}
    assert "p%40" not in public_address(URL)
    assert "q%26" not in public_address(URL)
    first, *_, last = celery_url(URL).split(";")
    assert (first, last) == ("sentinel://u:p%40@h1:1/2", "sentinel://u:p%40@[::1]:3/2")


def test_tls_is_for_servers_and_sentinels(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "rediss+sentinel://h1,h2,h3/main"
    pool = connect(url).connection_pool
    assert pool.connection_kwargs["ssl_check_hostname"]
    sentinel = cast("Any", pool).sentinel_manager.clients[0]
    assert sentinel.connection_pool.connection_class is redis.SSLConnection
    assert make_app(Settings(redis_url=url)).conf.broker_use_ssl["ssl_check_hostname"]


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://h1,h2",
        "redis+sentinel://h1,,h2/main",
        "redis+sentinel://h1:x,h2/main/0",
        "redis+sentinel://h1/main/x",
        "redis+sentinel://h1/main?password=secret",
        "redis+sentinel://u:p/@h1/main",
    ],
)
def test_a_malformed_address_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|has no option") as refused:
        check_redis_url(url)
    assert "secret" not in str(refused.value)


class FakeSentinel:
    """Names a primary; None: it does not answer."""

    def __init__(self, port: int | None, epoch: int = 0, *, is_sdown: bool = False):
        self.asked = 0
        self._state = {"ip": "h", "port": port, "config-epoch": epoch, "is_master": True}
        self._state |= {"is_sdown": is_sdown, "is_odown": False}

    def sentinel_masters(self) -> dict[str, Any]:
        self.asked += 1
        if self._state["port"] is None:
            raise redis.ConnectionError("away")
        return {"main": self._state}


def sentinels(*fakes: FakeSentinel) -> Sentinels:
    return Sentinels(cast("Any", fakes))


def test_the_one_that_knows_of_the_latest_failover_is_believed() -> None:
    """The server that was demoted is back, and the first Sentinel has not heard of the failover."""
    assert sentinels(FakeSentinel(1, 4), FakeSentinel(2, 5), FakeSentinel(1, 4)).discover_master("main") == (
        "h",
        2,
    )


def test_no_primary_is_named_while_it_is_down() -> None:
    with pytest.raises(MasterNotFoundError, match="it is down"):
        sentinels(FakeSentinel(1, 4), FakeSentinel(1, 5, is_sdown=True)).discover_master("main")
    with pytest.raises(MasterNotFoundError, match="none of them knows it"):
        sentinels(FakeSentinel(1)).discover_master("other")


def test_a_silent_one_is_left_alone_for_a_while() -> None:
    silent, others = FakeSentinel(None), (FakeSentinel(2), FakeSentinel(2))
    three = sentinels(silent, *others)
    for _ in range(3):
        assert three.discover_master("main") == ("h", 2)
    assert (silent.asked, *(other.asked for other in others)) == (1, 3, 3)
    two = sentinels(silent, others[0])
    for _ in range(2):
        two.discover_master("main")
    assert silent.asked == 3, "if fewer than most answer, it is asked all the same"
