"""Says how much memory, disk and CPU a federation wants, and checks whether it is there.

The rules are measured, and ``tests/deep/test_sizing.py`` measures them again. deploy/README.md ("How much it
wants") shows them to people.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import psutil

from broker.doctor.check import CheckResult, check, ok, warning
from broker.doctor.clouds import read_advert
from broker.doctor.installation import Installation
from broker.journal.archive import SEGMENT_ENTRIES, archives_directory
from broker.observability.owner_stats import OwnerStats
from broker.settings import Settings

DAY_S = 86_400.0
MB = 1e6


class SizeRule(NamedTuple):
    """A measured amount; ``what`` says of what it is, and for how much."""

    amount: float
    unit: str
    what: str


REDIS_BASE = SizeRule(4, "MB", "memory of Redis without a cloud")
REDIS_CLOUD = SizeRule(20, "kB", "memory of Redis, for each cloud")
JOURNAL_ENTRY = SizeRule(890, "bytes", "memory of Redis, for each entry of a journal")
EVENT = SizeRule(800, "bytes", "memory of Redis, for each public event in each of two streams")
RECORD = SizeRule(1650, "bytes", "memory of Redis, for each admitted request and its lease, a week long")
HISTORY_EVENT = SizeRule(33, "bytes", "memory of Redis, for each start and end of an instance, for good")
REDIS_FILE = SizeRule(0.33, "bytes", "file of Redis after a rewrite, for each byte of its memory")
REDIS_WRITES = SizeRule(2, "kB", "file of Redis, each second, for each cloud at rest")
ARCHIVE_ENTRY = SizeRule(100, "bytes", "archives of owners, for each entry of a full segment")
OPEN_ENTRY = SizeRule(890, "bytes", "archives of owners, for each of a cloud's latest 5,000 entries")
API = SizeRule(85, "MB", "memory of each API process")
OWNER = SizeRule(75, "MB", "memory of each owner process")
OWNER_CLOUD = SizeRule(7.3, "MB", "memory of owner processes, for each cloud")
ANSWER = SizeRule(1250, "bytes", "memory of owner processes, for each of a cloud's latest 100,000 instances")
WORKER = SizeRule(50, "MB", "memory of each Monte-Carlo worker")
WORKER_CLOUD = SizeRule(2.1, "MB", "memory of Monte-Carlo workers, for each cloud")
REDIS_REST = SizeRule(0.05, "% of a core", "CPU of Redis, for each cloud at rest")
OWNER_REST = SizeRule(0.24, "% of a core", "CPU of owner processes, for each cloud at rest")
REDIS_REQUEST = SizeRule(1, "ms", "CPU of Redis, for each request that comes alone")
API_REQUEST = SizeRule(3, "ms", "CPU of API processes, for each request that comes alone")
OWNER_REQUEST = SizeRule(2.5, "ms", "CPU of owner processes, for each request that comes alone")

RULES = tuple(value for value in dict(globals()).values() if isinstance(value, SizeRule))
_FACTORS = {"bytes": 1.0, "kB": 1e3, "MB": MB, "% of a core": 0.01, "ms": 1e-3}

#: Clouds whose samplers a Monte-Carlo worker keeps, if their tables have four sizes; with more it begins each
#: table from the start of the history.
CLOUDS_A_WORKER = 64
#: Requests in the busiest seconds, for each in the mean.
PEAK = 10.0
#: The part of the CPU at rest that does not shrink with the polls of owners.
UNPOLLED = 0.3
_ENTRIES_A_REQUEST, _ENTRIES_AN_INSTANCE, _EVENTS_A_REQUEST = 3, 2, 2
_RECORD_DAYS, _MOST_ANSWERS = 7.0, 100_000
#: Redis rewrites its file when it has doubled, and keeps the old one until the new one is written.
_FILES, _LEAST_FILE = 3.0, 64 * MB
#: How far ahead ``check_size`` looks, and the part of one core that Redis may take in the busiest seconds.
_AHEAD_DAYS, _REDIS_CORE = 30.0, 0.7


@dataclass(frozen=True)
class FederationLoad:
    """Holds what a federation has to do, all clouds together.

    requests_per_day: requests that are admitted. own_per_day: instances that clouds' own users start. days:
    for how long.
    """

    clouds: int
    requests_per_day: float
    own_per_day: float
    days: float


@dataclass(frozen=True)
class FederationSize:
    """Holds what a federation wants: bytes of memory and disk, processes, and cores in its busiest seconds.

    owners: memory of all owner processes, if 25 clouds share one. workers: number of Monte-Carlo workers.
    """

    redis: float
    redis_disk: float
    archives: float
    api: float
    owners: float
    workers: int
    workers_memory: float
    redis_cores: float
    api_cores: float
    owner_cores: float

    @property
    def memory(self) -> float:
        """Bytes of memory of all processes together."""
        return self.redis + self.api + self.owners + self.workers_memory


def size_federation(load: FederationLoad, settings: Settings, clouds_a_process: float = 25) -> FederationSize:
    """Return what a federation wants after ``load.days`` with these settings."""
    clouds, days = load.clouds, load.days
    written = (_ENTRIES_A_REQUEST * load.requests_per_day + _ENTRIES_AN_INSTANCE * load.own_per_day) * days
    events = _EVENTS_A_REQUEST * load.requests_per_day * days
    instances = (load.requests_per_day + load.own_per_day) * days
    is_open = min(written, clouds * SEGMENT_ENTRIES / 2)
    answers = min(instances, clouds * _MOST_ANSWERS)
    redis = (
        _of(REDIS_BASE)
        + _of(REDIS_CLOUD, clouds)
        + _of(JOURNAL_ENTRY, min(written, clouds * (settings.journal_kept + settings.snapshot_every)))
        + _of(EVENT, min(events, clouds * settings.events_kept) + min(events, settings.events_kept))
        + _of(RECORD, load.requests_per_day * min(days, _RECORD_DAYS))
        + _of(HISTORY_EVENT, 2 * instances)
    )
    workers = math.ceil(clouds / CLOUDS_A_WORKER)
    peak = PEAK * load.requests_per_day / DAY_S
    resting = clouds * (UNPOLLED + (1 - UNPOLLED) / settings.inbox_poll_s)
    return FederationSize(
        redis=redis,
        redis_disk=_FILES * max(_of(REDIS_FILE, redis), _LEAST_FILE),
        archives=_of(OPEN_ENTRY, is_open) + _of(ARCHIVE_ENTRY, written - is_open),
        api=_of(API),
        owners=_of(OWNER, math.ceil(clouds / clouds_a_process))
        + _of(OWNER_CLOUD, clouds)
        + _of(ANSWER, answers),
        workers=workers,
        workers_memory=_of(WORKER, workers) + _of(WORKER_CLOUD, clouds),
        redis_cores=_of(REDIS_REST, resting) + _of(REDIS_REQUEST, peak),
        api_cores=_of(API_REQUEST, peak),
        owner_cores=_of(OWNER_REST, resting) + _of(OWNER_REQUEST, peak),
    )


def _of(rule: SizeRule, count: float = 1.0) -> float:
    return rule.amount * _FACTORS[rule.unit] * count


@check("size")
def check_size(installation: Installation) -> Iterator[CheckResult]:
    """Check that there is what the rules want within thirty days, at the present rate."""
    load = _read_load(installation)
    if load.clouds == 0:
        return
    size = size_federation(load, installation.settings)
    when = f"{load.clouds} clouds with {load.requests_per_day:,.0f} requests and "
    when += f"{load.own_per_day:,.0f} instances of their own users a day want"
    info = installation.redis_server.info()
    limit = cast("float", info.get("maxmemory") or info.get("total_system_memory") or 0.0)
    if limit:
        found = f"{when} {_mb(size.redis)} of memory in Redis within {load.days:.0f} days, of {_mb(limit)}"
        advice = "raise maxmemory or give it a larger machine, or lower SPOTFED_JOURNAL_KEPT"
        yield _judge(found, advice, is_enough=size.redis <= limit, name="size of redis")
    found = f"{when} {size.redis_cores:.0%} of a core in Redis, which uses one"
    advice = "raise SPOTFED_INBOX_POLL_S and SPOTFED_ADVERT_MAX_AGE_S, or make two federations of it"
    yield _judge(found, advice, is_enough=size.redis_cores <= _REDIS_CORE, name="size of redis' core")
    workers = installation.montecarlo_workers
    if workers:  # that there is none is told by another check
        found = f"{load.clouds} clouds want {size.workers} Monte-Carlo workers; {workers} run"
        advice = "start more: one that makes the tables of too many clouds begins each from the start"
        yield _judge(found, advice, is_enough=workers >= size.workers, name="size of workers")
    settings = installation.settings
    archives = archives_directory(settings.state_dir, settings.key_prefix)
    if archives.is_dir():
        free = shutil.disk_usage(archives).free
        found = f"archives want {_mb(size.archives)} within {load.days:.0f} days; {_mb(free)} are free here"
        advice = "give the state directory a larger disk: without its archive an owner's journal is not cut"
        yield _judge(found, advice, is_enough=size.archives <= free, name="size of archives")
    if installation.supervised is not None:
        total = psutil.virtual_memory().total
        found = f"all processes want {_mb(size.memory)} of this machine's memory, of {_mb(total)}"
        advice = "move owners or Redis to another machine"
        yield _judge(found, advice, is_enough=size.memory <= total, name="size of this machine")


def _judge(found: str, advice: str, *, is_enough: bool, name: str) -> CheckResult:
    return ok(found, name=name) if is_enough else warning(found, advice, name=name)


def _mb(count: float) -> str:
    return f"{count / MB:,.0f} MB"


def _read_load(installation: Installation) -> FederationLoad:
    """Return the load of clouds in wall time, by the events and journals that are kept."""
    client, keys = installation.redis_client, installation.keys
    clouds = [info.id for info in installation.readable_clouds if info.time == "wall"]
    requests_per_day = entries_per_day = 0.0
    oldest, latest = (
        cast("Any", read(keys.all_events, count=1)) for read in (client.xrange, client.xrevrange)
    )
    if oldest and latest:
        first_ms, last_ms = (int(found[0][0].partition(b"-")[0]) for found in (oldest, latest))
        days = max((last_ms - first_ms) / 1e3 / DAY_S, 1.0)
        requests_per_day = client.xlen(keys.all_events) / _EVENTS_A_REQUEST / days
    for cloud in clouds:
        stats = OwnerStats.parse(cast("dict[bytes, bytes]", client.hgetall(keys.owner_stats(cloud))))
        advert, info = read_advert(installation, cloud), installation.clouds[cloud]
        if stats is not None and advert is not None and info is not None:
            days = max(advert.at_s / info.speed / DAY_S, 1.0)
            entries_per_day += stats.journal_entries / days
    own = max(entries_per_day - _ENTRIES_A_REQUEST * requests_per_day, 0.0) / _ENTRIES_AN_INSTANCE
    return FederationLoad(len(clouds), requests_per_day, own, _AHEAD_DAYS)
