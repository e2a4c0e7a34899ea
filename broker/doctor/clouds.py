"""Checks the clouds of the federation: their owners, their quantile tables and the Monte-Carlo workers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast

from pydantic import ValidationError

from broker.contract import Advert, CloudInfo, Lease, LeaseState, read_message
from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.doctor.redis import CLOCK_TOLERANCE_S
from broker.leases.store import RECORD_FIELDS, is_misplaced, parse_lease
from broker.observability.owner_stats import OwnerStats
from broker.observability.standbys import list_standbys
from broker.settings import variable

#: Clouds make their tables anew every six hours of their time, unless their file says otherwise.
TABLE_REFRESH_S = 6 * 3600.0


@check("clouds")
def check_clouds(installation: Installation) -> Iterator[CheckResult]:
    """Check that a cloud has joined the federation."""
    client, keys = installation.redis_client, installation.keys
    records = cast("dict[bytes, bytes]", client.hgetall(keys.clouds))
    if not records:
        yield warning(
            f"no cloud has joined the federation under {keys.prefix!r}",
            f"start an owner (python -m workers.owner), or correct {variable('key_prefix')}",
        )
        return
    installation.clouds = {cloud.decode(): _read_cloud(records[cloud]) for cloud in sorted(records)}


@check("owner")
def check_owners(installation: Installation) -> Iterator[CheckResult]:
    """Check that every cloud has an owner that shows signs of life."""
    for cloud in installation.clouds:
        yield _judge_owner(installation, cloud)


def _judge_owner(installation: Installation, cloud: str) -> CheckResult:
    keys, name = installation.keys, f"owner {cloud}"
    pipe = installation.redis_client.pipeline(transaction=False)
    pipe.pttl(keys.owner(cloud))
    pipe.get(keys.epoch(cloud))
    lease_ms, written_epoch = cast("tuple[int, bytes | None]", tuple(pipe.execute()))
    epoch = None if written_epoch is None else int(written_epoch)
    if lease_ms < 0:
        return failure(
            f"nobody owns {cloud}; its last epoch is {epoch or 'unknown'}",
            f"start its owner: python -m workers.owner --cloud {cloud} --federation FILE",
            name=name,
        )
    owned = f"owned in epoch {epoch}, its lease runs for another {lease_ms / 1000:.1f} s"
    if hosts := dict.fromkeys(view.host for view in list_standbys(installation.redis_client, keys, cloud)):
        owned += f", with a standby on {' and '.join(hosts)}"
    advert = read_advert(installation, cloud)
    age_s = None if advert is None else _age_s(advert, installation.redis_time_s())
    if advert is None or age_s is None or advert.epoch != epoch:
        fault = "cannot be read" if advert is None or age_s is None else f"is of epoch {advert.epoch}"
        advice = "it opens, or another version wrote it: ask again in a minute"
        return warning(f"{owned}; its advert {fault}", advice, name=name)
    if age_s < -CLOCK_TOLERANCE_S:
        return warning(
            f"{owned}; its advert is {-age_s:.1f} s in the future of the Redis server",
            "set the clock of its machine by NTP (chrony or systemd-timesyncd)",
            name=name,
        )
    found = f"{owned}, its advert is {max(age_s, 0.0):.1f} s old"
    info = installation.clouds[cloud]
    # In trace time nothing happens between two commands, and a silent owner is waited for.
    trace_time = info is not None and info.time == "trace"
    if age_s > installation.settings.advert_max_age_s and not trace_time:
        advice = "look into its log, and at the clock of its machine"
        return failure(f"{found}: the broker takes it for unreachable", advice, name=name)
    return ok(found, name=name)


@check("table")
def check_tables(installation: Installation) -> Iterator[CheckResult]:
    """Check that every cloud has a quantile table that is fresh in the cloud's time."""
    for cloud in installation.clouds:
        advert, name = read_advert(installation, cloud), f"table {cloud}"
        if advert is None:
            continue
        if advert.table_version is None or advert.table_made_at_s is None:
            yield warning(
                f"{cloud} has no quantile table yet, so it promises nothing",
                "wait for the first one; if none comes, look at the Monte-Carlo workers",
                name=name,
            )
            continue
        age_s = advert.at_s - advert.table_made_at_s
        found = f"table {advert.table_version} is {age_s / 3600:.1f} h old in the cloud's time"
        if age_s > 2 * TABLE_REFRESH_S:
            advice = "look at the Monte-Carlo workers: they are too few, or do not run"
            yield warning(f"{found}, where six hours are usual", advice, name=name)
        else:
            yield ok(found, name=name)


@check("archives")
def check_archives(installation: Installation) -> Iterator[CheckResult]:
    """Check that no owner has told of an archive that lacks entries."""
    for cloud in installation.clouds:
        key = installation.keys.owner_stats(cloud)
        stats = OwnerStats.parse(cast("dict[bytes, bytes]", installation.redis_client.hgetall(key)))
        if stats is not None and stats.archive_gaps:
            yield failure(
                f"the archive of {cloud}'s journal lacks entries, or cannot be written: were Redis lost too, "
                "leases would be",
                "look into its owner's log, and bring the files back from a backup",
                name=f"archive {cloud}",
            )


@check("leases")
def check_leases(installation: Installation) -> Iterator[CheckResult]:
    """Check that every lease runs once, and where its request's record says."""
    client, keys = installation.redis_client, installation.keys
    unrecorded: dict[str, list[str]] = {}  # by lease, the clouds where it runs
    for cloud in installation.clouds:
        leases = _read_leases(installation, cloud)
        pipe = client.pipeline(transaction=False)
        for lease in leases:
            pipe.hmget(keys.request(lease.request), RECORD_FIELDS)
        for lease, record in zip(leases, cast("list[list[bytes | None]]", pipe.execute()), strict=True):
            if record[0] is None:
                unrecorded.setdefault(lease.id, []).append(cloud)
            if is_misplaced(lease, *record):
                yield warning(
                    f"{lease.id} runs on {cloud}, but its request was placed anew after Redis was restored "
                    "from an older copy: no call reaches it",
                    "start the API, which ends it within seconds; `spotfed ledger` counts what it ended",
                    name=f"lease {lease.id}",
                )
    for lease_id, clouds in unrecorded.items():
        if len(clouds) > 1:
            yield failure(
                f"{lease_id} is claimed by {' and '.join(clouds)}, and its record is lost: none is believed",
                "ask these clouds which of them made it up",
                name=f"lease {lease_id}",
            )


def _read_leases(installation: Installation, cloud: str) -> list[Lease]:
    client, keys = installation.redis_client, installation.keys
    ids = sorted(name.decode() for name in cast("set[bytes]", client.smembers(keys.running(cloud))))
    if not ids:
        return []
    texts = cast("list[bytes | None]", client.mget([keys.lease(cloud, lease_id) for lease_id in ids]))
    leases = (
        parse_lease(text, cloud, lease_id)
        for lease_id, text in zip(ids, texts, strict=True)
        if text is not None
    )
    return [lease for lease in leases if lease is not None and lease.state is LeaseState.RUNNING]


@check("dead letters")
def check_dead_letters(installation: Installation) -> Iterator[CheckResult]:
    """Check that every owner could read the messages that it got."""
    for cloud in installation.clouds:
        count = installation.redis_client.xlen(installation.keys.dead_letters(cloud))
        if count:
            yield warning(
                f"{count} dead letter{'s' if count > 1 else ''} at cloud {cloud}: messages that its "
                "owner could not read, or broke over",
                f"look with `spotfed dlq list --cloud {cloud}`",
                name=f"dead letters {cloud}",
            )


@check("monte-carlo workers")
def check_monte_carlo(installation: Installation) -> Iterator[CheckResult]:
    """Check that a Monte-Carlo worker runs if there are clouds that need one."""
    if not installation.clouds:
        return
    count = installation.montecarlo_workers
    if count:
        yield ok(f"{count} run")
    else:
        yield warning(
            "none runs, so no quantile tables are made",
            "start at least one: python -m workers.montecarlo",
        )


def read_advert(installation: Installation, cloud: str) -> Advert | None:
    """Return the last advert of a cloud, or None if there is none that this version can read."""
    text = cast("bytes | None", installation.redis_client.get(installation.keys.advert(cloud)))
    try:
        return None if text is None else read_message(Advert, text)
    except ValidationError:
        return None


def _read_cloud(record: bytes) -> CloudInfo | None:
    try:
        return read_message(CloudInfo, record)
    except ValidationError:
        return None


def _age_s(advert: Advert, now_s: float) -> float | None:
    """Return the age of an advert in seconds, or None if its time cannot be read."""
    try:
        return (datetime.fromtimestamp(now_s, UTC) - datetime.fromisoformat(advert.at)).total_seconds()
    except (ValueError, TypeError):
        return None
