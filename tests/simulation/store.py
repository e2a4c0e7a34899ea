"""A small Redis: the commands that the product uses, on a clock that is told, under its own Lua scripts.

The scripts are the real ones and run in Lua 5.1, as in Redis; only the commands below them are a twin, which
``test_store.py`` holds against a real server. Nothing is lost here: what it models of Redis is its order.
"""

from __future__ import annotations

import copy
import functools
import math
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import redis
from lupa.lua51 import LuaRuntime, lua_type  # type: ignore[import-untyped]

Id = tuple[int, int]
_lua = LuaRuntime(encoding=None, unpack_returned_tuples=False)
_table: Any = _lua.table_from
_HEAD = b"local redis, n = ...\nlocal KEYS, ARGV = {unpack({...}, 3, 2 + n)}, {unpack({...}, 3 + n)}\n"


@functools.cache
def _compiled(text: str) -> Any:
    return _lua.compile(_HEAD + text.encode())


class Stream:
    """Entries in order of their ids, and the last id that was ever given out."""

    def __init__(self) -> None:
        self.ids: list[Id] = []
        self.fields: list[dict[bytes, bytes]] = []
        self.last: Id = (0, 0)


class _Commands(dict[bytes | str, Callable[..., Any]]):
    """A store's commands by name, as scripts and clients write it."""

    def __init__(self, store: Store):
        super().__init__()
        self._store = store

    def __missing__(self, name: bytes | str) -> Callable[..., Any]:
        text = name.decode() if isinstance(name, bytes) else name
        self[name] = method = getattr(self._store, f"_{text.lower()}")
        return method


class Store:
    """``clock_ms`` is the server's wall clock, in milliseconds."""

    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._data: dict[bytes, Any] = {}
        self._ends_ms: dict[bytes, int] = {}
        self.waiting: dict[bytes, list[Callable[[], None]]] = {}  # by stream: called when it grows
        self.appended: Callable[[str, Id, dict[bytes, bytes]], None] = lambda *_: None
        # Asked before a stream grows; True: the entry is not written now.
        self.held_back: Callable[[bytes, tuple[bytes, ...]], bool] = lambda *_: False
        # Weak: Lua's hold on us and ours on Lua would be a ring that no garbage collector sees.
        me = weakref.ref(self)
        self._redis = _table(
            {
                b"call": lambda *told: me()._from_lua(*told),  # type: ignore[union-attr]
                b"pcall": lambda *told: me()._tried(*told),  # type: ignore[union-attr]
                b"error_reply": _error_reply,
            }
        )
        self._commands = _Commands(self)

    # -- failovers -------------------------------------------------------------------------------------------

    def copy(self) -> Any:
        """All that is there, for ``put_back``."""
        return copy.deepcopy((self._data, self._ends_ms))

    def put_back(self, data: Any) -> None:
        """Forget what was written since ``copy``."""
        self._data, self._ends_ms = data
        for wake in [wake for waiting in self.waiting.values() for wake in waiting]:
            wake()  # who waits for entries looks again
        self.waiting.clear()

    # -- scripts ---------------------------------------------------------------------------------------------

    def run(self, text: str, keys: Iterable[Any], arguments: Iterable[Any]) -> Any:
        """A script's answer, as redis-py gives it. Raises redis.ResponseError."""
        names = _encoded(keys)
        return _answer(_compiled(text)(self._redis, len(names), *names, *_encoded(arguments)))

    def _from_lua(self, name: bytes, *arguments: Any) -> Any:
        for one in arguments:
            if type(one) is not bytes:
                arguments = tuple(_encoded(arguments))
                break
        found = self._commands[name](*arguments)
        return found if type(found) is bytes else _to_lua(found)

    def _tried(self, name: bytes, *arguments: Any) -> Any:
        try:
            return self._from_lua(name, *arguments)
        except redis.ResponseError as error:
            return _error_reply(str(error).encode())

    # -- commands --------------------------------------------------------------------------------------------

    def call(self, name: str, *arguments: Any) -> Any:
        """One command; values are bytes, as a server gives them."""
        return self._commands[name](*_encoded(arguments))

    def peek(self, key: str) -> Any:
        """What a key holds, for those who only look: bytes, dict, set, list or Stream; None: nothing."""
        return self._get_value(key.encode())

    def _get_value(self, key: bytes) -> Any:
        if key in self._ends_ms and self._ends_ms[key] <= self._clock_ms():
            self._delete(key)
        return self._data.get(key)

    def _made(self, key: bytes, kind: Callable[[], Any]) -> Any:
        value = self._get_value(key)
        if value is None:
            value = self._data[key] = kind()
        return value

    def _delete(self, key: bytes) -> int:
        self._ends_ms.pop(key, None)
        return int(self._data.pop(key, None) is not None)

    def _time(self) -> list[bytes]:
        now_ms = self._clock_ms()
        return [b"%d" % (now_ms // 1000), b"%d" % (now_ms % 1000 * 1000)]

    def _get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._get_value(key)
        return value

    def _mget(self, *keys: bytes) -> list[bytes | None]:
        return [self._get(key) for key in keys]

    def _set(self, key: bytes, value: bytes, *options: bytes) -> bytes:
        self._delete(key)
        self._data[key] = value
        if options:
            unit, amount = options
            self._ends_ms[key] = self._clock_ms() + int(amount) * {b"PX": 1, b"EX": 1000}[unit.upper()]
        return b"OK"

    def _del(self, *keys: bytes) -> int:
        return sum(self._delete(key) for key in keys)

    def _exists(self, key: bytes) -> int:
        return int(self._get_value(key) is not None)

    def _expire(self, key: bytes, seconds: bytes) -> int:
        if self._get_value(key) is None:
            return 0
        self._ends_ms[key] = self._clock_ms() + int(seconds) * 1000
        return 1

    def _hdel(self, key: bytes, *names: bytes) -> int:
        fields = self._get_value(key) or {}
        removed = sum(fields.pop(name, None) is not None for name in names)
        if not fields:
            self._delete(key)
        return removed

    def _hset(self, key: bytes, *pairs: bytes) -> int:
        kept = self._made(key, dict)
        new = len(set(pairs[::2]) - set(kept))
        kept.update(zip(pairs[::2], pairs[1::2], strict=True))
        return new

    def _hsetnx(self, key: bytes, name: bytes, value: bytes) -> int:
        kept = self._made(key, dict)
        if name in kept:
            return 0
        kept[name] = value
        return 1

    def _hget(self, key: bytes, name: bytes) -> bytes | None:
        return self._hmget(key, name)[0]

    def _hmget(self, key: bytes, *names: bytes) -> list[bytes | None]:
        kept = self._get_value(key) or {}
        return [kept.get(name) for name in names]

    def _hgetall(self, key: bytes) -> dict[bytes, bytes]:
        return dict(self._get_value(key) or {})

    def _hkeys(self, key: bytes) -> list[bytes]:
        return list(self._get_value(key) or ())

    def _sadd(self, key: bytes, member: bytes) -> int:
        kept = self._made(key, dict)  # in order: the order of a set would be another one every time
        return 0 if member in kept else kept.update({member: b""}) or 1

    def _srem(self, key: bytes, member: bytes) -> int:
        kept = self._get_value(key) or {}
        found = kept.pop(member, None) is not None
        if found and not kept:
            self._delete(key)
        return int(found)

    def _smembers(self, key: bytes) -> set[bytes]:
        return set(self._get_value(key) or ())

    def _zadd(self, key: bytes, score: bytes, member: bytes) -> int:
        kept = self._made(key, dict)
        new = member not in kept
        kept[member] = float(score)
        return int(new)

    def _zrem(self, key: bytes, member: bytes) -> int:
        return self._srem(key, member)

    def _zscore(self, key: bytes, member: bytes) -> bytes | None:
        score = (self._get_value(key) or {}).get(member)
        return None if score is None else f"{score:.17g}".encode()

    def _zcard(self, key: bytes) -> int:
        return len(self._get_value(key) or ())

    def _zrangebyscore(self, key: bytes, low: bytes, high: bytes, *limit: bytes) -> list[bytes]:
        assert low == b"-inf"
        kept = self._get_value(key) or {}
        found = sorted((score, member) for member, score in kept.items() if score <= float(high))
        _, start, count = limit
        return [member for _, member in found[int(start) : int(start) + int(count)]]

    def _llen(self, key: bytes) -> int:
        return len(self._get_value(key) or ())

    def _publish(self, _channel: bytes, _message: bytes) -> int:
        return 0

    # -- streams ---------------------------------------------------------------------------------------------

    def _xadd(self, key: bytes, *rest: bytes) -> bytes:
        if self.held_back(key, rest):
            return name_of(self._stream(key).last)
        return self.append(key, *rest)

    def append(self, key: bytes, *rest: bytes) -> bytes:
        """XADD, whatever befalls messages."""
        options, keep = list(rest), None
        if options[0].upper() == b"MAXLEN":
            keep = int(options[2 if options[1] == b"~" else 1])
            options = options[3 if options[1] == b"~" else 2 :]
        given, *pairs = options
        stream = self._stream(key, make=True)
        new = self._next_id(stream) if given == b"*" else parsed(given)
        if new <= stream.last:
            raise redis.ResponseError(
                "The ID specified in XADD is equal or smaller than the target stream top item"
            )
        stream.last = new
        stream.ids.append(new)
        stream.fields.append(dict(zip(pairs[::2], pairs[1::2], strict=True)))
        if keep is not None:
            self._cut(stream, max(0, len(stream.ids) - keep))
        self.appended(key.decode(), new, stream.fields[-1] if stream.fields else {})
        for wake in self.waiting.pop(key, ()):
            wake()
        return name_of(new)

    def _next_id(self, stream: Stream) -> Id:
        now_ms = self._clock_ms()
        high, low = stream.last
        return (now_ms, 0) if now_ms > high else (high, low + 1)

    def _stream(self, key: bytes, *, make: bool = False) -> Stream:
        value = self._made(key, Stream) if make else self._get_value(key)
        return value if value is not None else Stream()

    def _cut(self, stream: Stream, count: int) -> int:
        del stream.ids[:count], stream.fields[:count]
        return count

    def _xtrim(self, key: bytes, _minid: bytes, *least: bytes) -> int:
        stream = self._stream(key)
        return self._cut(stream, bisect_left(stream.ids, parsed(least[-1])))

    def _xdel(self, key: bytes, entry: bytes) -> int:
        stream, wanted = self._stream(key), parsed(entry)
        place = bisect_left(stream.ids, wanted)
        if place == len(stream.ids) or stream.ids[place] != wanted:
            return 0
        del stream.ids[place], stream.fields[place]
        return 1

    def _xlen(self, key: bytes) -> int:
        return len(self._stream(key).ids)

    def _range(self, key: bytes, low: bytes, high: bytes) -> list[Any]:
        stream = self._stream(key)
        start, end = 0, len(stream.ids)
        if low != b"-":
            find = bisect_right if low.startswith(b"(") else bisect_left
            start = find(stream.ids, parsed(low.lstrip(b"(")))
        if high != b"+":
            find = bisect_left if high.startswith(b"(") else bisect_right
            end = find(stream.ids, parsed(high.lstrip(b"(")))
        pairs = zip(stream.ids[start:end], stream.fields[start:end], strict=True)
        return [(name_of(entry), dict(fields)) for entry, fields in pairs]

    def _xrange(self, key: bytes, low: bytes, high: bytes, *count: bytes) -> list[Any]:
        return self._range(key, low, high)[: _count(count)]

    def _xrevrange(self, key: bytes, high: bytes, low: bytes, *count: bytes) -> list[Any]:
        if count and count[1] == b"1" and (low, high) == (b"-", b"+"):  # by far the most frequent
            stream = self._stream(key)
            return [(name_of(stream.ids[-1]), dict(stream.fields[-1]))] if stream.ids else []
        return self._range(key, low, high)[::-1][: _count(count)]


def _count(told: tuple[bytes, ...]) -> int | None:
    return int(told[1]) if told else None


def parsed(entry: bytes) -> Id:
    """A stream id as numbers."""
    high, _, low = entry.partition(b"-")
    return int(high), int(low or 0)


def name_of(entry: Id) -> bytes:
    """A stream id as Redis writes it."""
    return b"%d-%d" % entry


def _encoded(values: Iterable[Any]) -> list[bytes]:
    return [
        value if (kind := type(value)) is bytes else value.encode() if kind is str else _number(value)
        for value in values
    ]


def _number(value: Any) -> bytes:
    """As it goes over the wire; Lua knows floats only. Also what only looks like a string."""
    if isinstance(value, float):
        return b"%d" % int(value) if value == math.floor(value) else repr(value).encode()
    return str(value).encode()


def _error_reply(text: bytes) -> Any:
    return _table({b"err": text})


def _to_lua(value: Any) -> Any:
    if value is None:
        return False
    if isinstance(value, dict):  # as Redis: names and values in turn
        return _table([part for pair in value.items() for part in pair])
    if isinstance(value, list | tuple | set):
        return _table([_to_lua(one) for one in value])
    return value


def _answer(value: Any) -> Any:
    """What a script returns, in redis-py's words: False is None, a table is a list up to its first nil."""
    if type(value) is bytes:
        return value
    if lua_type(value) == "table":
        if (error := value[b"err"]) is not None:
            raise redis.ResponseError(error.decode())
        found: list[Any] = []
        while (one := value[len(found) + 1]) is not None:
            found.append(_answer(one))
        return found
    if value is False:
        return None
    return int(value) if isinstance(value, float) else value
