"""Who may do what in a shared Redis: one user for each cloud's owner, one for its node agent, one for its
instance agent where it is real, and one for each other party.

`RIGHTS` is the one table of it: a row for everything that `broker.storage.keys` names. From it come the
lines of an
ACL file for Redis 7 or newer, or Valkey. Keys of a cloud are its owner's alone; to what all share an owner
may add, but not read it. A script is checked twice: it may be called on all keys of its user, and each
command in it needs the right to the very key that it touches.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from broker.queue.celery_config import JOBS, MONTECARLO, cloud_queue, montecarlo_queue, unacked_options
from broker.storage.keys import RedisKeys

PASSWORD_BYTES = 32


@dataclass(frozen=True)
class Right:
    """What each party may do with one kind of key.

    ``r``, ``w`` or ``rw`` by all commands of the party; or, alone or after ``r``, the names of commands by
    which it may write. Those of the owner and of both agents are for keys of their cloud where the key names
    one.
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

#: By the name of the method or property of Keys.
RIGHTS: Mapping[str, Right] = {
    "inbox": Right(owner="rw", instances="xadd", broker="r xadd", operator="r xadd"),
    "seen": Right(owner="rw"),
    "dead": Right(owner="rw", operator="r xdel"),
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
    "measures": Right(owner="rw", broker="r"),
    "running": Right(owner="rw", instances="r", broker="r"),
    "history": Right(owner="rw", montecarlo="r"),
    "clouds": Right(owner="hset", agent="r", instances="r", broker="r", reader="r"),
    "cloud_signatures": Right(owner="hset", broker="r"),
    "contract": Right(owner="r set", broker="rw", montecarlo="rw"),
    "spoken_by": Right(owner="rw", broker="r", montecarlo="r"),
    "speaks": Right(broker="rw", montecarlo="rw"),
    "all_events": Right(owner="xadd", broker="rw", reader="r"),
    "lease": Right(owner="set", agent="r", instances="r", broker="r", jobs="r"),
    "request": _BROKERS,
    "open_requests": _BROKERS,
    "call": _BROKERS,
    "overflow": Right(owner="xadd", broker="rw"),
    "api_keys": Right(broker="rw", operator="rw"),
    "members": Right(broker="rw", operator="rw"),
    "audit": Right(broker="rw", operator="rw"),
    "held": _BROKERS,
    "replies": Right(owner="xadd expire", broker="rw"),
    "webhooks": _BROKERS,
    "webhook_urls": _BROKERS,
    "webhook": _BROKERS,
    "webhook_claim": _BROKERS,
    "webhook_deliveries": _BROKERS,
    "sampler": Right(owner="r", broker="r", montecarlo="rw"),
    "samplers": Right(broker="r", montecarlo="rw"),
    "batch": Right(owner="rw", montecarlo="rw"),
    "job": Right(broker="r xadd", jobs="rw"),
    "open_jobs": Right(agent="r", broker="r zadd", jobs="rw"),
    "jobs": Right(broker="r zadd", jobs="rw"),
    "job_claim": Right(jobs="rw"),
    "profiles": Right(jobs="rw"),
    "cool_downs": Right(jobs="rw"),
    "backup_servers": Right(jobs="rw"),
    "works": Right(agent="r", jobs="rw"),
    "work_signatures": Right(agent="r", jobs="rw"),
    "work_reports": Right(agent="r hset", jobs="rw"),
    "work_log": Right(agent="rw", broker="r", jobs="r"),
    "agent": Right(agent="rw", instances="rw", jobs="r"),
    "instance_replies": Right(owner="xadd expire", instances="rw"),
    "instances": Right(instances="rw", broker="r"),
}
#: Names of Keys that are channels: who publishes there or listens. A cloud's own parties reach those of their
#: cloud; which of both it is follows from their commands.
CHANNELS = {
    "channel": ("owner", "agent", "instances", "reader", "operator"),
    "work_channel": ("agent", "jobs"),
}

# Not client|setinfo, which Redis 7.0 does not know: a client that may not name its library goes on without.
_CONNECTION = "ping client|setname select"
_START = "info time"  # what is asked before a process starts (``broker.doctor.redis``)
_TRANSACTION = "multi exec discard watch unwatch"
_SCRIPT = "script|load script|exists"
_LISTEN = "subscribe unsubscribe psubscribe punsubscribe"
#: What the processes of a federation use, Celery's transport among them, to read and write their own keys.
_WORKER = (
    f"{_CONNECTION} {_START} {_TRANSACTION} {_SCRIPT} get mget set del exists expire pexpire ttl pttl incrby "
    "hget hmget hgetall hkeys hvals hlen hset hsetnx hdel hexists hincrby llen lrange lpush rpush rpop brpop "
    "sadd srem smembers scard zadd zrem zscore zcard zrange zrangebyscore "
    "xadd xdel xlen xtrim xrange xrevrange xread"
)

#: Commands by party, each for keys of the party only. Those of a row's own are beside them.
COMMANDS: Mapping[str, str] = {
    "owner": f"{_WORKER} publish",
    "agent": f"{_CONNECTION} {_START} {_TRANSACTION} subscribe unsubscribe get mget set del hget hmget "
    "hgetall hset llen lpush sadd zrange",
    "instances": f"{_CONNECTION} {_START} {_TRANSACTION} subscribe unsubscribe get mget set del hget hgetall "
    "hset hdel llen lpush sadd smembers xadd xread",
    "broker": f"{_WORKER} scan zscan xreadgroup xack xautoclaim xgroup|create xinfo|consumers",
    "montecarlo": f"{_WORKER} scan xinfo|consumers",
    "jobs": f"{_WORKER} publish",
    "reader": f"{_CONNECTION} {_LISTEN} xrange xrevrange xread xlen hkeys hgetall",
    "operator": f"{_CONNECTION} {_START} {_TRANSACTION} {_SCRIPT} {_LISTEN} config|get acl|load acl|log "
    "acl|whoami scan type exists ttl pttl get mget strlen hget hmget hgetall hkeys hlen hexists hset hsetnx "
    "hdel lrange llen smembers scard zrange zcard zcount zscore xadd xlen xrange xrevrange xinfo|consumers",
}
_CALLS_SCRIPTS = ("owner", "broker", "montecarlo", "jobs", "operator")
#: Of each cloud there is one, and its user's name tells which.
_OF_CLOUDS = {"owner": "cloud", "agent": "agent", "instances": "instances"}


@dataclass(frozen=True)
class User:
    """One user. ``cloud``: whose owner or node agent it is, None for the other parties."""

    name: str
    party: str
    cloud: str | None = None


def users(keys: RedisKeys, clouds: Iterable[str]) -> list[User]:
    """Everybody that a federation of these clouds needs; names begin with the key prefix."""
    base = keys.prefix.strip(":") or "spotfed"
    ids = list(clouds)
    own = [
        User(f"{base}-{name}-{cloud}", party, cloud) for party, name in _OF_CLOUDS.items() for cloud in ids
    ]
    return [*own, *(User(f"{base}-{party}", party) for party in COMMANDS if party not in _OF_CLOUDS)]


def acl_file(keys: RedisKeys, hashes: Mapping[User, Collection[str]]) -> str:
    """Return the whole ACL file: the default user is off, and each user has the passwords of these hashes."""
    lines = ["user default off resetpass resetkeys resetchannels -@all"]
    lines += [user_line(keys, user, found) for user, found in hashes.items()]
    return "\n".join(lines) + "\n"


def user_line(keys: RedisKeys, user: User, hashes: Collection[str]) -> str:
    """A user's line in an ACL file. ``hashes``: SHA-256 of its passwords, in hexadecimal digits."""
    reads, writes, alone = _patterns(keys, user)
    words = ["user", user.name, "on", *(f"#{one}" for one in hashes)]
    words += ["resetkeys", "resetchannels", "-@all"]
    words += [f"+{command}" for command in COMMANDS[user.party].split()]
    words += [f"~{pattern}" for pattern in sorted(reads & writes)]
    words += [f"%R~{pattern}" for pattern in sorted(reads - writes)]
    words += [f"%W~{pattern}" for pattern in sorted(writes - reads)]
    words += [f"&{channel}" for channel in _channels(keys, user)]
    for command, patterns in sorted(alone.items()):
        words.append(f"(+{command} {' '.join(f'%W~{pattern}' for pattern in sorted(patterns))})")
    if user.party in _CALLS_SCRIPTS:
        # Redis asks for reading and writing of all keys that a call declares. What the script then does with
        # them is checked command by command, against the rest of this line.
        declared = sorted(reads | writes | {one for patterns in alone.values() for one in patterns})
        words.append(f"(+eval +evalsha {' '.join(f'~{pattern}' for pattern in declared)})")
    return " ".join(words)


def _patterns(keys: RedisKeys, user: User) -> tuple[set[str], set[str], dict[str, set[str]]]:
    """What a user may read, what it may write, and what it may write by some commands only."""
    reads: set[str] = set()
    writes: set[str] = set()
    alone: defaultdict[str, set[str]] = defaultdict(set)
    rows = [(pattern(keys, name, user.cloud), right) for name, right in RIGHTS.items()]
    for found, right in [*rows, *_queue_rights(keys, user)]:
        letters, commands = _parts(getattr(right, user.party))
        if "r" in letters:
            reads.add(found)
        if "w" in letters:
            writes.add(found)
        for command in commands.split():  # each by itself: one selector must allow all keys of a call
            alone[command].add(found)
    return reads, writes, alone


def _parts(may: str) -> tuple[str, str]:
    """Letters and commands of a right."""
    words = may.split()
    letters = "".join(word for word in words if word in {"r", "w", "rw"})
    return letters, " ".join(word for word in words if word not in {"r", "w", "rw"})


def _channels(keys: RedisKeys, user: User) -> list[str]:
    return [pattern(keys, name, user.cloud) for name, parties in CHANNELS.items() if user.party in parties]


def pattern(keys: RedisKeys, name: str, cloud: str | None) -> str:
    """Of all keys that a method of Keys can name, or of those of one cloud where the name says the cloud.

    Ids of clouds and key prefixes hold no character that means something in a pattern.
    """
    member = getattr(keys, name)
    if isinstance(member, str):
        return member
    # The name of a refresh begins with its cloud (``workers.owner.table_refresh``).
    own = {} if cloud is None else {"cloud": cloud, "refresh": f"{cloud}:*"}
    return str(member(*(own.get(parameter, "*") for parameter in inspect.signature(member).parameters)))


def _queue_rights(keys: RedisKeys, user: User) -> list[tuple[str, Right]]:
    """The keys of Celery's transport. Messages go to a queue by its name: bindings are noted, never read."""
    cloud = user.cloud
    bells = Right(owner="rw", instances="llen lpush", broker="llen lpush", montecarlo="llen lpush")
    batches = Right(owner="llen lpush", montecarlo="rw")
    queues = [
        (cloud_queue(cloud or "*"), bells),
        (MONTECARLO, batches),
        (montecarlo_queue("*"), batches),
        (JOBS, Right(agent="llen lpush", broker="llen lpush", jobs="rw")),
    ]
    rows = [(f"{keys.prefix}{queue}", right) for queue, right in queues]
    for kind in ("binding", "binding_permanent"):
        rows += [(f"{keys.prefix}_kombu.{kind}.{queue}", _noted(right)) for queue, right in queues]
    unacked = Right(owner="rw", montecarlo="rw", jobs="rw")
    served = JOBS if user.party == "jobs" else None if cloud is None else cloud_queue(cloud)
    return rows + [(f"{keys.prefix}{name}", unacked) for name in unacked_options(served).values()]


def _noted(right: Right) -> Right:
    """To the binding of a queue, for who may do anything with the queue."""
    parties = (party for party in COMMANDS if party != "operator")
    told = {party: "sadd" for party in parties if getattr(right, party)}
    return Right(**told, operator="")


# -- passwords -----------------------------------------------------------------------------------------------


def new_password() -> str:
    """A random one."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def password_hash(password: str) -> str:
    """As an ACL file has it."""
    return hashlib.sha256(password.encode()).hexdigest()


def hashes_in(text: str) -> dict[str, list[str]]:
    """The hashes of passwords by user's name, of an ACL file's text."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "user":
            found[words[1]] = [word[1:] for word in words[2:] if word.startswith("#")]
    return found


def login_url(address: str, user: str, password: str) -> str:
    """The address of a server, for this user; a login that it had is left out."""
    parts = urlsplit(address)
    if parts.scheme == "unix":
        query = [pair for pair in parse_qsl(parts.query) if pair[0] not in {"username", "password"}]
        return f"unix://{parts.path}?{urlencode([*query, ('username', user), ('password', password)])}"
    place = parts.netloc.rpartition("@")[2]
    options = f"?{parts.query}" if parts.query else ""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"{parts.scheme}://{login}@{place}{parts.path}{options}"


def write_secret(path: Path, text: str) -> None:
    """A file that only this user may read, whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
