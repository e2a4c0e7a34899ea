"""The rules of ``broker.doctor.size_rules`` hold: real processes on a real Redis take what they say.

Memory and disk are counted in bytes and must come within a quarter. CPU is measured against work of the same
kind on the same machine (``yardstick_s``); beside other work it still varies, so that it must come within a
factor of ``CPU_FACTOR``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
import redis

from broker.contract import SpotRequest
from broker.doctor import size_rules
from broker.doctor.size_rules import FederationLoad, SizeRule, size_federation
from broker.local import federation as federation_module
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, ProcessSpec, wall_time
from broker.settings import Settings
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from tests.support.ports import free_port
from tests.support.wait import wait_until
from workers.montecarlo.sampling import MOST_SAMPLERS
from workers.owner.answer_log import KEPT_CLOSED

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("federation")]

QUARTER = 0.25
CPU_FACTOR = 3.0
#: Seconds of CPU of ``yardstick_s`` on the machine of the rules.
YARDSTICK_S = 0.076
REST_S = 15.0
LONE, LISTS, LIST = 200, 17, 200
REQUESTS = LONE + LISTS * LIST

CLOUD = """
[[cloud]]
id = "{id}"
nodes = "50x4"
trace = {{ synthetic = "table-1", hours = 240, seed = {seed} }}
"""
SPOT = """
[[cloud]]
id = "spot"
nodes = "50x64"
trace = "few.txt"
"""
#: Clouds by the process of their owners, with the days that they replay before they open.
GROUPS = {("one",): 1, tuple(f"c{number}" for number in range(25)): 1, ("long",): 9, ("spot",): 1}
CLOUDS = tuple(cloud for group in GROUPS for cloud in group)


class Grouped(ProcessList):
    """The processes of a federation, with owners grouped as ``GROUPS`` says."""

    def specs(self) -> tuple[ProcessSpec, ...]:
        others = tuple(spec for spec in super().specs() if not spec.clouds)
        owners = [
            replace(
                self,
                clouds=group,
                cloud_options=wall_time(speed=1.0, history=f"{24 * days}h", samples=10_000, seed=0),
            )._owner(group)
            for group, days in GROUPS.items()
        ]
        return (*others, *owners)


def yardstick_s() -> float:
    """Seconds of CPU for a fixed piece of work in Python."""
    began_s = time.process_time()
    for number in range(20_000):
        text = json.dumps({"number": number, "words": ["reserved", "admitted", "completed"]}).encode()
        hashlib.sha256(text).hexdigest()
        json.loads(text)
    return time.process_time() - began_s


@dataclass
class Use:
    """What a process uses: bytes of memory of its own, seconds of CPU."""

    memory: float
    cpu_s: float


@dataclass
class Measured:
    """What the federation took, before the requests and after them."""

    rules: dict[SizeRule, float]
    redis: tuple[float, float]
    load: tuple[FederationLoad, FederationLoad]
    archives: float
    own: dict[str, float]  # instances of own users by cloud
    owners: dict[tuple[str, ...], float]
    slow: float


def use(federation: LocalFederation, name: str) -> Use:
    process = psutil.Process(federation.pids[name])
    memory = spent_s = 0.0
    children = process.children(recursive=True)
    # The server is a child of what starts it here.
    for each in children if name == "queue" else (process, *children):
        memory, spent_s = memory + each.memory_full_info().uss, spent_s + cpu_s(each.pid)
    return Use(memory, spent_s)


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def uses(federation: LocalFederation) -> dict[str, Use]:
    return {name: use(federation, name) for name in federation.pids}


def name_of(group: tuple[str, ...]) -> str:
    return f"cloud-{group[0]}" + (f"-and-{len(group) - 1}" if len(group) > 1 else "")


def usage(client: redis.Redis, *keys: str) -> float:
    return float(sum(client.memory_usage(key, samples=0) or 0 for key in keys))


def ask(number: int) -> SpotRequest:
    return SpotRequest(id=f"r{number}", origin="user", cores=1, lifetime_s=5.0, targets=("spot",))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(federation_module, "START_LIMIT_S", 400.0)
        yield from _measure(tmp_path_factory)


def _measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    directory = tmp_path_factory.mktemp("sizing")
    file = directory / "federation.toml"
    small = [cloud for cloud in CLOUDS if cloud != "spot"]
    file.write_text("".join(CLOUD.format(id=cloud, seed=seed) for seed, cloud in enumerate(small)) + SPOT)
    (directory / "few.txt").write_text("START 0 i-1 NODE0 2\nSTOP 7200 i-1\n")
    processes = Grouped(file, CLOUDS, port=free_port())
    with EmbeddedRedis(directory / "idle") as server:
        before_s = cpu_s(server.pid)
        time.sleep(REST_S / 3)
        idle = (cpu_s(server.pid) - before_s) / (REST_S / 3)
    with (
        LocalFederation(processes, directory / "state") as federation,
        connect(str(federation.redis_url)) as client,
    ):
        client.config_set("auto-aof-rewrite-percentage", 0)
        yield Taker(federation, client, directory / "state", idle).take(small)


class Taker:
    """Takes the measurements, one after the other."""

    def __init__(self, federation: LocalFederation, client: redis.Redis, directory: Path, idle: float):
        self.federation, self.client, self.directory, self.idle = federation, client, directory, idle
        self.keys: RedisKeys = federation.keys
        self.rules: dict[SizeRule, float] = {}

    def take(self, small: list[str]) -> Measured:
        client, keys, rules = self.client, self.keys, self.rules
        journals = {cloud: keys.journal(cloud) for cloud in CLOUDS}
        histories = [keys.history(cloud, 1) for cloud in small]
        wait_until(lambda: client.exists(*histories) == len(small), "histories", limit_s=240.0)
        wait_until(lambda: client.exists(keys.snapshot("long")), "a snapshot", limit_s=120.0)
        wait_until(lambda: client.zcard(keys.table_turns) == 0, "all tables", limit_s=240.0)
        entries = {cloud: client.xlen(journals[cloud]) for cloud in CLOUDS}
        own = sum(entries[cloud] for cloud in small) / 2
        rules[size_rules.JOURNAL_ENTRY] = usage(client, *journals.values()) / sum(entries.values())
        rules[size_rules.HISTORY_EVENT] = usage(client, *histories) / (2 * own)
        self._processes(entries)
        self._rest()
        before = float(client.info("memory")["used_memory"])
        streams = keys.events("spot"), keys.all_events
        lengths, sizes = (
            [client.xlen(stream) for stream in streams],
            [usage(client, each) for each in streams],
        )
        self._requests()
        after = float(client.info("memory")["used_memory"])
        rules[size_rules.EVENT] = sum(
            usage(client, stream) - size for stream, size in zip(streams, sizes, strict=True)
        ) / sum(client.xlen(stream) - length for stream, length in zip(streams, lengths, strict=True))
        lease = next(iter(client.scan_iter(keys.lease("spot", "r9*"), count=10_000)))
        rules[size_rules.RECORD] = usage(client, keys.request("r100"), lease.decode())
        archives = self._archives()
        client.bgrewriteaof()
        wait_until(
            lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0, "the file", limit_s=60.0
        )
        rules[size_rules.REDIS_FILE] = client.info("persistence")["aof_base_size"] / after
        at_first = FederationLoad(len(CLOUDS), 0.0, own, 1.0)
        return Measured(
            rules,
            (before, after),
            (at_first, replace(at_first, requests_per_day=REQUESTS)),
            archives,
            {cloud: entries[cloud] / 2 for cloud in CLOUDS},
            {group: use(self.federation, name_of(group)).memory for group in GROUPS},
            yardstick_s() / YARDSTICK_S,
        )

    def _processes(self, entries: dict[str, int]) -> None:
        rules, now = self.rules, uses(self.federation)
        one, many, long, _ = (now[name_of(group)].memory for group in GROUPS)
        answer = (long - one) / ((entries["long"] - entries["one"]) / 2)
        rules[size_rules.ANSWER] = answer
        each = (many - one) / 24
        rules[size_rules.OWNER_CLOUD] = each - answer * entries["one"] / 2
        rules[size_rules.OWNER] = one - each
        rules[size_rules.API] = now["api"].memory
        clouds = len(CLOUDS)
        rules[size_rules.WORKER_CLOUD] = (
            now["montecarlo-1"].memory - size_rules.WORKER.amount * size_rules.MB
        ) / clouds

    def _rest(self) -> None:
        file, before = self.client.info("persistence")["aof_current_size"], uses(self.federation)
        time.sleep(REST_S)
        written = self.client.info("persistence")["aof_current_size"] - file
        after, clouds = uses(self.federation), len(CLOUDS)
        self.spent = {name: (after[name].cpu_s - before[name].cpu_s) / REST_S for name in after}
        self.rules[size_rules.REDIS_WRITES] = written / REST_S / clouds
        self.rules[size_rules.REDIS_REST] = (self.spent["queue"] - self.idle) / clouds
        self.rules[size_rules.OWNER_REST] = sum(self.spent[name_of(group)] for group in GROUPS) / clouds

    def _requests(self) -> None:
        with self.federation.client() as client:
            before, began_s = uses(self.federation), time.monotonic()
            for number in range(LONE):
                client.requests.submit(ask(number))
            took_s, after = time.monotonic() - began_s, uses(self.federation)
            names = {
                "queue": size_rules.REDIS_REQUEST,
                "api": size_rules.API_REQUEST,
                "cloud-spot": size_rules.OWNER_REQUEST,
            }
            for name, rule in names.items():
                spent_s = after[name].cpu_s - before[name].cpu_s - self.spent[name] * took_s
                self.rules[rule] = spent_s / LONE
            for first in range(LONE, REQUESTS, LIST):
                client.requests.submit_many([ask(first + number) for number in range(LIST)])
        running = self.keys.running("spot")
        wait_until(lambda: self.client.scard(running) == 0, "the end of all leases", limit_s=120.0)

    def _archives(self) -> float:
        """Bytes of all archives; an entry takes fewer in a segment that is full."""
        archive = self.directory / "archive"
        wait_until(lambda: len([*archive.rglob("*.jsonl")]) <= len(CLOUDS), "segments that are compressed")
        files = [path for path in archive.rglob("*") if path.is_file()]
        packed = [path.read_bytes() for path in files if path.name.endswith(".gz")]
        entries = [gzip.decompress(each).count(b"\n") for each in packed]
        self.rules[size_rules.ARCHIVE_ENTRY] = sum(map(len, packed)) / sum(entries)
        open_files = [path.read_bytes() for path in files if path.name.endswith(".jsonl")]
        self.rules[size_rules.OPEN_ENTRY] = sum(map(len, open_files)) / sum(
            each.count(b"\n") for each in open_files
        )
        return float(sum(path.stat().st_size for path in files))


BYTES = [rule for rule in size_rules.RULES if rule.unit in {"bytes", "kB", "MB"}]
CPU = [rule for rule in size_rules.RULES if rule not in BYTES]
#: Small ones, which the totals check together with others.
TOGETHER = {size_rules.REDIS_BASE, size_rules.REDIS_CLOUD, size_rules.WORKER}


def unit(rule: SizeRule) -> float:
    return size_rules._of(rule)


@pytest.mark.parametrize("rule", [rule for rule in BYTES if rule not in TOGETHER], ids=lambda rule: rule.what)
def test_bytes_are_what_the_rules_say(measured: Measured, rule: SizeRule) -> None:
    assert measured.rules[rule] == pytest.approx(unit(rule), rel=QUARTER)


@pytest.mark.parametrize("rule", CPU, ids=lambda rule: rule.what)
def test_cpu_is_about_what_the_rules_say(measured: Measured, rule: SizeRule) -> None:
    ratio = measured.rules[rule] / measured.slow / unit(rule)
    assert 1 / CPU_FACTOR <= ratio <= CPU_FACTOR


def test_totals_are_what_the_rules_say(measured: Measured) -> None:
    for load, redis_bytes in zip(measured.load, measured.redis, strict=True):
        assert size_federation(load, Settings()).redis == pytest.approx(redis_bytes, rel=QUARTER)
    size = size_federation(measured.load[1], Settings(), len(CLOUDS) / len(GROUPS))
    each = [FederationLoad(1, REQUESTS * (cloud == "spot"), own, 1.0) for cloud, own in measured.own.items()]
    archives = sum(size_federation(load, Settings()).archives for load in each)
    assert archives == pytest.approx(measured.archives, rel=QUARTER)
    assert size.owners == pytest.approx(sum(measured.owners.values()), rel=QUARTER)


def test_limits_are_those_of_the_code() -> None:
    assert size_rules.CLOUDS_A_WORKER == MOST_SAMPLERS // 4
    assert size_rules._MOST_ANSWERS == KEPT_CLOSED
