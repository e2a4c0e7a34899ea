"""Whether a Redis may be trusted with leases and journals: what it says of itself, and what follows.

``require_safe`` is the check that owners, Monte-Carlo workers and the API make before they start;
``spotfed doctor`` shows the same findings and some more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import redis
from packaging.version import InvalidVersion, Version

from broker.finding import Finding, State, failure, ok, warning
from broker.tls import refusal

SAFE_POLICY = "noeviction"
OLDEST_VERSION = "6.2"
#: Parts of the memory that it may have: beyond the first a person should know, beyond the second act.
FILLING, NEARLY_FULL = 0.75, 0.9
#: An append-only file that is rewritten needs a copy of what changes meanwhile: half of a machine is plenty.
HALF_OF_MACHINE = 0.5
#: No safety rests on wall clocks, but logs and the ages of adverts are compared by them.
CLOCK_TOLERANCE_S = 1.0

_Result = TypeVar("_Result")


class UnsafeQueueError(RuntimeError):
    """This Redis may drop keys, or TLS refuses it; the message says why and what to change."""


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself. None: it does not say, or this user may not ask.

    address: without secrets. version: as Redis counts, also where ``product`` is Valkey. snapshots: the
    ``save`` lines, empty for none. clock_ahead_s: its clock minus this machine's. Memory is in bytes; a
    ``max_memory`` of 0 means no limit.
    """

    address: str
    client: str
    product: str = "Redis"
    version: str | None = None
    policy: str | None = None
    append_only: bool | None = None
    fsync: str | None = None
    write_error: bool = False
    snapshots: str | None = None
    cluster: bool | None = None
    replica: bool | None = None
    used_memory: int | None = None
    max_memory: int | None = None
    machine_memory: int | None = None
    clock_ahead_s: float | None = None


def public_address(url: str) -> str:
    """An address without the password, which may stand before the host or among the options."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    options = [(name, "***" if name == "password" else value) for name, value in parse_qsl(parts.query)]
    query = f"?{urlencode(options, safe='*')}" if options else ""
    # Not urlunsplit: it would leave out the slashes of unix://.
    return f"{parts.scheme}://{user}{colon and ':***'}{at}{place}{parts.path}{query}"


def look(client: redis.Redis, url: str, now: Callable[[], float] = time.time) -> ServerFacts:
    """Asks a server for all that the checks need. ``now``: this machine's Unix time in seconds.

    Raises redis.RedisError when it does not answer; what this user may not ask is None.
    """
    client.ping()
    info = _allowed(lambda: cast("Mapping[str, Any]", client.info())) or {}
    append_only = info.get("aof_enabled")
    told = _config(client, "appendonly")
    if append_only is None and told is not None:
        append_only = told == "yes"
    valkey = info.get("valkey_version")
    errors = {info.get("aof_last_write_status"), info.get("aof_last_bgrewrite_status")}
    return ServerFacts(
        address=public_address(url),
        client=_command(url),
        product="Redis" if valkey is None else f"Valkey {valkey}, which counts as Redis",
        version=_text(info.get("redis_version")),
        # Managed servers often forbid CONFIG; INFO tells the policy as well.
        policy=_config(client, "maxmemory-policy") or _text(info.get("maxmemory_policy")),
        append_only=None if append_only is None else bool(append_only),
        fsync=_config(client, "appendfsync"),
        write_error="err" in errors,
        snapshots=_config(client, "save"),
        cluster=None if "cluster_enabled" not in info else info["cluster_enabled"] == 1,
        replica=None if "role" not in info else info["role"] != "master",
        used_memory=info.get("used_memory"),
        max_memory=info.get("maxmemory"),
        machine_memory=info.get("total_system_memory"),
        clock_ahead_s=_allowed(lambda: _clock_ahead_s(client, now)),
    )


def require_safe(client: redis.Redis, url: str, warn: Callable[[str], None]) -> None:
    """Looks at a server before a process starts on it; tells ``warn`` what a crash of it would lose.

    Raises UnsafeQueueError when it may drop keys or TLS refuses it, redis.RedisError when it does not answer.
    """
    try:
        facts = look(client, url)
    except redis.ConnectionError as error:
        refused = refusal(error, public_address(url), "redis_ca")
        if refused is None:
            raise
        raise UnsafeQueueError(refused) from error
    policy = policy_finding(facts)
    if policy.state is State.FAILURE:
        raise UnsafeQueueError(f"{policy.found}; {policy.advice}")
    for finding in (policy, persistence_finding(facts)):
        if finding.state is not State.OK:
            warn(f"{finding.found}; {finding.advice}")


def findings(facts: ServerFacts) -> list[Finding]:
    """All that is to be said of a server that answers."""
    return [
        version_finding(facts),
        mode_finding(facts),
        policy_finding(facts),
        persistence_finding(facts),
        memory_finding(facts),
        clock_finding(facts),
    ]


def policy_finding(facts: ServerFacts) -> Finding:
    """Whether it keeps all keys when its memory is full."""
    name = "redis policy"
    if facts.policy is None:
        return warning(
            name,
            f"the maxmemory-policy of {facts.address} cannot be read: this user may use neither CONFIG GET "
            "nor INFO",
            f"allow it (ACL: +info +config|get), or make sure yourself that the policy is {SAFE_POLICY}",
        )
    if facts.policy == SAFE_POLICY:
        return ok(name, f"maxmemory-policy is {SAFE_POLICY}: when its memory is full, nothing is dropped")
    return failure(
        name,
        f"maxmemory-policy of {facts.address} is {facts.policy}: when its memory is full it drops keys, and "
        "with them leases and journals",
        f"set the key maxmemory-policy to {SAFE_POLICY} with `{facts.client} CONFIG SET maxmemory-policy "
        f"{SAFE_POLICY}` and in its configuration file (of a managed server: in its parameters)",
    )


def persistence_finding(facts: ServerFacts) -> Finding:
    """What is lost when the server or its machine stops without warning."""
    name = "redis persistence"
    advice = f"`{facts.client} CONFIG SET appendonly yes` and `CONFIG SET appendfsync always`, and the same \
in its configuration file"
    if facts.write_error:
        return failure(
            name,
            f"{facts.address} could not write its append-only file",
            "look into its log, and whether its disk is full",
        )
    if facts.append_only is None:
        return warning(
            name,
            f"whether {facts.address} keeps its data on disk cannot be read: this user may use neither INFO "
            "nor CONFIG GET",
            "make sure yourself that appendonly is yes and appendfsync is always",
        )
    if facts.append_only:
        return _fsync_finding(name, facts, advice)
    if facts.snapshots is None:
        lost = "everything, or everything since its last snapshot (whether it makes any cannot be read)"
    elif facts.snapshots:
        lost = f"everything since its last snapshot (save {facts.snapshots})"
    else:
        lost = "everything: it makes no snapshots either"
    return warning(name, f"appendonly of {facts.address} is no: when it stops it loses {lost}", advice)


def _fsync_finding(name: str, facts: ServerFacts, advice: str) -> Finding:
    lost = {
        "always": "",
        "everysec": "a crash loses up to the last second or two of answers that were given",
        "no": "a crash loses what the operating system had not written yet, often half a minute",
    }.get(facts.fsync or "", "what a crash loses depends on it")
    said = f"appendonly is yes, appendfsync {facts.fsync or 'cannot be read'}"
    if not lost:
        return ok(name, f"{said}: every answer is on disk before it is given")
    return warning(name, f"{said}: {lost}", advice)


def version_finding(facts: ServerFacts) -> Finding:
    """Whether it is new enough."""
    name = "redis version"
    try:
        old = Version(facts.version or "") < Version(OLDEST_VERSION)
    except InvalidVersion:
        said = "its version cannot be read" if facts.version is None else f"it says it is {facts.version}"
        return warning(
            name,
            f"{facts.address} answers; {said}",
            f"make sure that it does what Redis {OLDEST_VERSION} does",
        )
    found = f"{facts.address} answers: {facts.product} {facts.version}"
    if old:
        return failure(name, found, f"install Redis {OLDEST_VERSION} or newer, or any Valkey")
    return ok(name, found)


def mode_finding(facts: ServerFacts) -> Finding:
    """Whether one server holds all keys and takes writes: each commit is one script over several keys."""
    name = "redis mode"
    if facts.cluster:
        return failure(
            name,
            f"{facts.address} is part of a Redis Cluster, which refuses scripts over keys of several slots",
            "use a server without cluster mode (cluster-enabled no)",
        )
    if facts.replica:
        return failure(
            name,
            f"{facts.address} is a replica and takes no writes",
            "name its primary in SPOTFED_REDIS_URL",
        )
    if facts.cluster is None:
        return warning(
            name,
            "whether it is part of a Redis Cluster cannot be read: this user may not use INFO",
            "make sure yourself that cluster mode is off and that it is no replica",
        )
    return ok(name, "one server, not a cluster, takes writes")


def memory_finding(facts: ServerFacts) -> Finding:
    """How much room there is before it refuses writes."""
    name = "redis memory"
    limit = facts.max_memory or facts.machine_memory
    if facts.used_memory is None or not limit:
        return warning(
            name,
            "its memory cannot be read: this user may not use INFO, or it does not say",
            "watch its memory elsewhere: when it is full, nothing is admitted any more",
        )
    part = facts.used_memory / limit
    whose = "maxmemory" if facts.max_memory else "its machine's memory (maxmemory is 0)"
    found = f"{_mebibytes(facts.used_memory)} are used, {part:.0%} of {whose}, {_mebibytes(limit)}"
    advice = "raise maxmemory, or give it a larger machine; when it is full, nothing is admitted any more"
    if part > NEARLY_FULL:
        return failure(name, found, advice)
    if part > (FILLING if facts.max_memory else HALF_OF_MACHINE):
        return warning(name, found, advice)
    return ok(name, found)


def clock_finding(facts: ServerFacts) -> Finding:
    """How far its clock is from this machine's."""
    name = "redis clock"
    ahead_s = facts.clock_ahead_s
    if ahead_s is None:
        return warning(name, "its clock cannot be read", "allow this user the command TIME (ACL: +time)")
    how = "ahead of" if ahead_s > 0 else "behind"
    found = f"its clock is {abs(ahead_s):.3f} s {how} this machine's"
    if abs(ahead_s) > CLOCK_TOLERANCE_S:
        return warning(name, found, "let both machines set their clocks by NTP (chrony or systemd-timesyncd)")
    return ok(name, found)


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"


def _command(url: str) -> str:
    """How this server's own client is called, without secrets."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"redis-cli -s {unquote(parts.path)}"
    tls = " --tls" if parts.scheme == "rediss" else ""
    return f"redis-cli -h {parts.hostname or 'localhost'} -p {parts.port or 6379}{tls}"


def _allowed(ask: Callable[[], _Result]) -> _Result | None:
    """None where the server refuses the command: it is forbidden, renamed or unknown."""
    try:
        return ask()
    except redis.ResponseError:
        return None


def _config(client: redis.Redis, name: str) -> str | None:
    found = _allowed(lambda: cast("Mapping[str, Any]", client.config_get(name)))
    return None if found is None else _text(found.get(name))


def _text(value: object) -> str | None:
    """redis-py turns what looks like a number into one."""
    return None if value is None else str(value)


def _clock_ahead_s(client: redis.Redis, now: Callable[[], float]) -> float:
    before_s = now()
    seconds, microseconds = client.time()
    return seconds + microseconds / 1e6 - (before_s + now()) / 2
