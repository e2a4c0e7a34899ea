"""Writes the ACL file of a shared Redis: which party may use which keys and commands.

There is one user for each cloud's owner, one for its node agent, one for its cloud agent, one for each
process that runs the owners of several clouds, and one for each other party. `RIGHTS` is the only table of
rights: a row for everything that `broker.storage.keys` names.
Redis 7 or newer and Valkey read the file. Only its owner uses a cloud's keys; to keys that all share an owner
may add, but it cannot read them. Redis checks a script twice: calling it needs a right to all keys that the
call declares, and each command in it needs the right to the key that it touches. Only the broker and the
operator may load scripts (``broker.storage.scripts``): a party's own might never end, and Redis serves nobody
else meanwhile. The operator may stop one that does not end.
"""

from __future__ import annotations

import hashlib
import inspect
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from broker.queue.celery_config import (
    CONTROL_CHANNEL,
    CONTROL_REPLIES,
    EVENT_CHANNELS,
    JOBS,
    MONTECARLO,
    cloud_queue,
    montecarlo_queue,
    unacked_options,
)
from broker.settings import split_address
from broker.storage.keys import RedisKeys
from broker.storage.sentinel import SentinelAddress

PASSWORD_BYTES = 32


@dataclass(frozen=True)
class Right:
    """Says what each party may do with one kind of key.

    ``r``, ``w`` or ``rw`` allow it by all commands of the party; names of commands, alone or after ``r``,
    allow writing by these commands only. The rights of an owner and of both agents are for keys of their own
    cloud, if the key names a cloud.
    """

    owner: str = ""
    agent: str = ""
    instances: str = ""
    broker: str = ""
    montecarlo: str = ""
    jobs: str = ""
    reader: str = ""
    operator: str = "r"


_BROKERS = Right(broker="rw")

#: Rights by the name of a method or property of RedisKeys.
RIGHTS: Mapping[str, Right] = {
    "inbox": Right(owner="rw", instances="xadd", broker="r xadd", operator="r xadd"),
    "handled_messages": Right(owner="rw"),
    "dead_letters": Right(owner="rw", operator="r xdel"),
    "cursor": Right(owner="rw"),
    "journal": Right(owner="rw"),
    "events": Right(owner="rw", broker="r", reader="r"),
    "owner": Right(owner="rw"),
    "epoch": Right(owner="rw", broker="r", montecarlo="r"),
    "snapshot": Right(owner="rw"),
    "advert": Right(owner="rw", agent="r", instances="r", broker="r"),
    "advert_signature": Right(owner="rw", broker="r"),
    "table": Right(owner="rw", broker="r"),
    "table_signature": Right(owner="rw", broker="r"),
    "owner_stats": Right(owner="rw", broker="r"),
    "running": Right(owner="rw", instances="r", broker="r"),
    "history": Right(owner="rw", montecarlo="r"),
    "clouds": Right(owner="hset", agent="r", instances="r", broker="r", reader="r"),
    "cloud_signatures": Right(owner="hset", broker="r"),
    "contract": Right(owner="r set", broker="rw", montecarlo="rw"),
    "owner_version": Right(owner="rw", broker="r", montecarlo="r"),
    "process_version": Right(broker="rw", montecarlo="rw"),
    "all_events": Right(owner="xadd", broker="rw", reader="r"),
    "lease": Right(owner="set", agent="r", instances="r", broker="r", jobs="r"),
    "restored": Right(owner="set", broker="r"),
    "request": _BROKERS,
    "open_requests": _BROKERS,
    "call": _BROKERS,
    "overflow": Right(owner="xadd", broker="rw"),
    "api_keys": Right(broker="rw", operator="rw"),
    "members": Right(broker="rw", operator="rw"),
    "audit": Right(broker="rw", operator="rw"),
    "quota_holds": _BROKERS,
    "replies": Right(owner="xadd expire", broker="rw"),
    "webhooks": _BROKERS,
    "webhook_urls": _BROKERS,
    "webhook": _BROKERS,
    "webhook_claim": _BROKERS,
    "webhook_deliveries": _BROKERS,
    "sampler": Right(owner="r", broker="r", montecarlo="rw"),
    "samplers": Right(owner="r", broker="r", montecarlo="rw"),
    "table_turns": Right(owner="rw"),
    "table_signs": Right(owner="rw"),
    "batch": Right(owner="rw", montecarlo="rw"),
    "job": Right(broker="r xadd", jobs="rw"),
    "open_jobs": Right(agent="r", broker="r zadd", jobs="rw"),
    "jobs": Right(broker="r zadd", jobs="rw"),
    "job_claim": Right(jobs="rw"),
    "profiles": Right(jobs="rw"),
    "cool_downs": Right(jobs="rw"),
    "backup_servers": Right(jobs="rw"),
    "work": Right(agent="r", broker="r", jobs="rw"),
    "work_signatures": Right(agent="r", broker="r", jobs="rw"),
    "work_reports": Right(agent="r hset", broker="r hset", jobs="rw"),
    "work_log": Right(agent="rw", broker="rw", jobs="r"),
    "instance_token": Right(broker="rw", operator=""),
    "agent": Right(agent="rw", instances="rw", jobs="r"),
    "isolation": Right(agent="set"),
    "instance_replies": Right(owner="xadd expire", instances="rw"),
    "instances": Right(instances="rw", broker="r"),
    "launch": Right(instances="r", broker="rw", operator=""),
    "overflow_launch": Right(instances="r set", operator=""),
    "catalogue": Right(owner="r", instances="rw", broker="r"),
    "silent_cloud": Right(instances="rw", broker="r"),
}
#: Parties that publish or listen, by the name of a channel in RedisKeys. The parties of a cloud reach only
#: the channels of that cloud; whether they publish or listen follows from their commands.
CHANNELS = {
    "channel": ("owner", "agent", "instances", "reader", "operator"),
    "work_channel": ("agent", "jobs"),
    "replication_channel": ("owner", "broker"),
}

# Without client|setinfo, which Redis 7.0 does not know; clients go on when they may not name their library.
_CONNECTION = "ping client|setname select"
_START = "info time"  # used by the check before a process starts (``broker.doctor.redis``)
_TRANSACTION = "multi exec discard watch unwatch"
_LOAD = "script|load script|exists"
_KILL = "script|kill function|kill"
_LISTEN = "subscribe unsubscribe psubscribe punsubscribe"
#: Commands by which the processes of a federation, and Celery's transport in them, use their own keys.
_WORKER = (
    f"{_CONNECTION} {_START} {_TRANSACTION} get mget set del exists expire pexpire ttl pttl incrby "
    "hget hmget hgetall hkeys hvals hlen hset hsetnx hdel hexists hincrby llen lrange lpush rpush rpop brpop "
    "sadd srem smembers scard zadd zrem zscore zcard zrank zrange zrangebyscore "
    "xadd xdel xlen xtrim xrange xrevrange xread"
)

#: Commands by party, for keys of the party only; a row of RIGHTS may add commands for its keys.
COMMANDS: Mapping[str, str] = {
    "owner": f"{_WORKER} publish wait",
    "agent": f"{_CONNECTION} {_START} {_TRANSACTION} subscribe unsubscribe get mget set del hget hmget "
    "hgetall hset llen lpush sadd zrange",
    "instances": f"{_CONNECTION} {_START} {_TRANSACTION} subscribe unsubscribe get mget set del hget hgetall "
    "hset hdel llen lpush sadd smembers xadd xread",
    "broker": f"{_WORKER} {_LOAD} publish wait scan zscan xreadgroup xack xautoclaim xgroup|create "
    "xinfo|consumers",
    "montecarlo": f"{_WORKER} scan xinfo|consumers",
    "jobs": f"{_WORKER} publish",
    "reader": f"{_CONNECTION} {_LISTEN} xrange xrevrange xread xlen hkeys hgetall",
    "operator": f"{_CONNECTION} {_START} {_TRANSACTION} {_LOAD} {_KILL} {_LISTEN} config|get acl|load "
    "acl|log acl|whoami scan type exists ttl pttl get mget strlen hget hmget hgetall hkeys hlen hexists hset "
    "hsetnx hdel lrange llen smembers scard zrange zcard zcount zscore xadd xlen xrange xrevrange "
    "xinfo|consumers",
}
#: Commands of replicas at their primary, and of Sentinels at the servers that they watch.
SERVER_COMMANDS: Mapping[str, str] = {
    "replica": "ping psync replconf",
    "sentinel": "ping info role multi exec slaveof config|rewrite client|setname client|kill script|kill "
    "publish subscribe",
}
_SENTINEL_CHANNEL = "__sentinel__:hello"
_CALLS_SCRIPTS = ("owner", "broker", "montecarlo", "jobs", "operator")
#: Parties whose processes are workers of Celery.
_WORKERS = ("owner", "montecarlo", "jobs")
#: Parties with one user per cloud, and the word for them in its name.
_OF_CLOUDS = {"owner": "cloud", "agent": "agent", "instances": "instances"}


@dataclass(frozen=True)
class User:
    """One user of Redis. ``clouds``: those of an owner's process, or that of an agent; others have none."""

    name: str
    party: str
    clouds: tuple[str, ...] = ()


def list_users(
    keys: RedisKeys,
    clouds: Iterable[str],
    *,
    together: Iterable[tuple[str, ...]] = (),
    sentinel: bool = False,
) -> list[User]:
    """Return the users that a federation of these clouds needs; their names begin with the key prefix.

    ``together``: the clouds of each process that runs several owners; its user is named after the first.
    ``sentinel``: with those of replicas and of Sentinels.
    """
    base = keys.prefix.strip(":") or "spotfed"
    ids = list(clouds)
    own = [
        User(f"{base}-{name}-{cloud}", party, (cloud,)) for party, name in _OF_CLOUDS.items() for cloud in ids
    ]
    own += [User(f"{base}-owner-{group[0]}", "owner", group) for group in together]
    parties = [party for party in COMMANDS if party not in _OF_CLOUDS]
    return [
        *own,
        *(User(f"{base}-{party}", party) for party in (*parties, *(SERVER_COMMANDS if sentinel else ()))),
    ]


def render_acl_file(keys: RedisKeys, hashes: Mapping[User, Collection[str]]) -> str:
    """Return the whole ACL file: the default user is off, and each user has the passwords of these hashes."""
    lines = ["user default off resetpass resetkeys resetchannels -@all"]
    lines += [render_user(keys, user, passwords) for user, passwords in hashes.items()]
    return "\n".join(lines) + "\n"


def render_user(keys: RedisKeys, user: User, hashes: Collection[str]) -> str:
    """Return a user's line in an ACL file. ``hashes``: SHA-256 of its passwords, in hexadecimal digits."""
    words = ["user", user.name, "on", *(f"#{digest}" for digest in hashes)]
    words += ["resetkeys", "resetchannels", "-@all"]
    if user.party in SERVER_COMMANDS:
        words += [f"+{command}" for command in SERVER_COMMANDS[user.party].split()]
        words += [f"&{_SENTINEL_CHANNEL}"] if user.party == "sentinel" else []
        return " ".join(words)
    reads, writes, alone = _patterns(keys, user)
    words += [f"+{command}" for command in COMMANDS[user.party].split()]
    words += [f"~{make_key_pattern}" for make_key_pattern in sorted(reads & writes)]
    words += [f"%R~{make_key_pattern}" for make_key_pattern in sorted(reads - writes)]
    words += [f"%W~{make_key_pattern}" for make_key_pattern in sorted(writes - reads)]
    words += [f"&{channel}" for channel in _channels(keys, user)]
    for command, patterns in sorted(alone.items()):
        words.append(
            f"(+{command} {' '.join(f'%W~{make_key_pattern}' for make_key_pattern in sorted(patterns))})"
        )
    words += _remote_control(keys, user)
    if user.party in _CALLS_SCRIPTS:
        # Redis demands reading and writing for all keys that a call declares. It checks what the script does
        # with them command by command, against the rest of this line.
        declared = sorted(reads | writes | {digest for patterns in alone.values() for digest in patterns})
        words.append(f"(+evalsha {' '.join(f'~{make_key_pattern}' for make_key_pattern in declared)})")
    return " ".join(words)


def _patterns(keys: RedisKeys, user: User) -> tuple[set[str], set[str], dict[str, set[str]]]:
    """Return what a user may read, what it may write, and what it may write by which command only."""
    reads: set[str] = set()
    writes: set[str] = set()
    alone: defaultdict[str, set[str]] = defaultdict(set)
    rows = [
        (make_key_pattern(keys, name, cloud), right)
        for name, right in RIGHTS.items()
        for cloud in user.clouds or (None,)
    ]
    for key_pattern, right in [*rows, *_queue_rights(keys, user)]:
        letters, commands = _parts(getattr(right, user.party))
        if "r" in letters:
            reads.add(key_pattern)
        if "w" in letters:
            writes.add(key_pattern)
        for command in commands.split():  # each by itself: one selector must allow all keys of a call
            alone[command].add(key_pattern)
    if user.party == "instances":
        # What an own user's instance runs elsewhere is encrypted for the agents of other clouds.
        reads |= {make_key_pattern(keys, name, None) for name in ("catalogue", "overflow_launch")}
    return reads, writes, alone


def _parts(right: str) -> tuple[str, str]:
    """Split a right into its letters and its commands."""
    words = right.split()
    letters = "".join(word for word in words if word in {"r", "w", "rw"})
    return letters, " ".join(word for word in words if word not in {"r", "w", "rw"})


def _channels(keys: RedisKeys, user: User) -> list[str]:
    channels = [
        make_key_pattern(keys, name, cloud)
        for name, parties in CHANNELS.items()
        if user.party in parties
        for cloud in user.clouds or (None,)
    ]
    return list(dict.fromkeys(channels))


def make_key_pattern(keys: RedisKeys, name: str, cloud: str | None) -> str:
    """Return the pattern of all keys that a method of RedisKeys can name, or of those of one cloud.

    ``name`` is the method or property. Ids of clouds and key prefixes contain no special characters of
    patterns.
    """
    member = getattr(keys, name)
    if isinstance(member, str):
        return member
    # The name of a refresh begins with its cloud (``workers.owner.table_refresh``).
    own = {} if cloud is None else {"cloud": cloud, "refresh": f"{cloud}:*"}
    return str(member(*(own.get(parameter, "*") for parameter in inspect.signature(member).parameters)))


def _queue_rights(keys: RedisKeys, user: User) -> list[tuple[str, Right]]:
    """Return the rights to the keys of Celery's transport.

    Messages go to a queue by its name. The version before also writes bindings, which nothing reads.
    """
    bells = Right(owner="rw", instances="llen lpush", broker="llen lpush", montecarlo="llen lpush")
    batches = Right(owner="llen lpush", montecarlo="rw")
    queues = [
        *((cloud_queue(cloud), bells) for cloud in user.clouds or ("*",)),
        (MONTECARLO, batches),
        (montecarlo_queue("*"), batches),
        (JOBS, Right(agent="llen lpush", broker="llen lpush", jobs="rw")),
    ]
    rows = [(f"{keys.prefix}{queue}", right) for queue, right in queues]
    for kind in ("binding", "binding_permanent"):
        rows += [(f"{keys.prefix}_kombu.{kind}.{queue}", _noted(right)) for queue, right in queues]
    unacked = Right(owner="rw", montecarlo="rw", jobs="rw")
    served: list[str | None] = [JOBS] if user.party == "jobs" else [*map(cloud_queue, user.clouds)]
    names = [name for queue in served or [None] for name in unacked_options(queue).values()]
    return rows + [(f"{keys.prefix}{name}", unacked) for name in names]


def _noted(right: Right) -> Right:
    """Return the right to write the binding of a queue, for all parties with a right to the queue."""
    parties = (party for party in COMMANDS if party != "operator")
    rights = {party: "sadd" for party in parties if getattr(right, party)}
    return Right(**rights, operator="")


def _remote_control(keys: RedisKeys, user: User) -> list[str]:
    """Return the selectors for Celery's remote control and events.

    Workers listen to it, answer it and publish events; only the operator sends it and reads these. So it
    reaches nobody through another worker.
    """
    prefix = keys.prefix
    control, events = f"&{prefix}{CONTROL_CHANNEL}", f"&{prefix}{EVENT_CHANNELS}"
    answers = f"~{prefix}{'[0-9a-f]' * 8}-*.{CONTROL_REPLIES}"
    kinds = ("binding", "binding_permanent")
    bindings = " ".join(f"~{prefix}_kombu.{kind}.{CONTROL_REPLIES}" for kind in kinds)
    if user.party in _WORKERS:
        return [_listen(control), _publish(events), f"(+smembers {bindings})", f"(+lpush {answers})"]
    if user.party == "operator":
        asking = [f"(+smembers +sadd +srem {bindings})", f"(+brpop +del {answers})"]
        return [_publish(control), _listen(events), *asking]
    return []


def _listen(channel: str) -> str:
    return f"(+psubscribe +punsubscribe resetchannels {channel})"


def _publish(channel: str) -> str:
    return f"(+publish resetchannels {channel})"


# -- passwords -----------------------------------------------------------------------------------------------


def make_password() -> str:
    """Make a random password."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def hash_password(password: str) -> str:
    """Return the hash of a password, as it stands in an ACL file."""
    return hashlib.sha256(password.encode()).hexdigest()


def read_hashes(text: str) -> dict[str, list[str]]:
    """Return the hashes of passwords in the text of an ACL file, by the user's name."""
    hashes: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "user":
            hashes[words[1]] = [word[1:] for word in words[2:] if word.startswith("#")]
    return hashes


def login_url(address: str, user: str, password: str) -> str:
    """Return the address of a server with a user's login in place of the one it had."""
    parts = split_address(address)
    if parts.scheme == "unix":
        query = [pair for pair in parse_qsl(parts.query) if pair[0] not in {"username", "password"}]
        return f"unix://{parts.path}?{urlencode([*query, ('username', user), ('password', password)])}"
    place = parts.netloc.rpartition("@")[2]
    options = f"?{parts.query}" if parts.query else ""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"{parts.scheme}://{login}@{place}{parts.path}{options}"


def render_login(user: User, address: str, password: str) -> tuple[str, str]:
    """Return the name of the file that a user is handed, and its text.

    That is ``USER.env`` with its SPOTFED_REDIS_URL, or for replicas and Sentinels ``USER.conf``, lines of
    their configuration.
    """
    if user.party == "replica":
        return f"{user.name}.conf", f"masteruser {user.name}\nmasterauth {password}\n"
    if user.party == "sentinel":
        name = SentinelAddress.parse(address).service
        lines = f"sentinel auth-user {name} {user.name}\nsentinel auth-pass {name} {password}\n"
        return f"{user.name}.conf", lines
    return f"{user.name}.env", f"SPOTFED_REDIS_URL='{login_url(address, user.name, password)}'\n"
