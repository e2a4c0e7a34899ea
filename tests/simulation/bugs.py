"""Known bugs, planted one at a time into the real classes, functions and scripts: each must be found.

A bug is a change of source text. Of a function only its code object is exchanged, so that whoever holds the
function runs the bug; of a script the text that processes read when they start.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any
from unittest import mock

from broker.lua import read_script
from tests.simulation.world import Report, run_seed


@dataclass(frozen=True)
class Bug:
    """``where``: ``module:function``, ``module:Class.method``, or the name of a script; there ``old`` becomes
    ``new``."""

    name: str
    where: str
    old: str
    new: str
    seed: int = 0  # where it was found; others may do as well

    @contextmanager
    def planted(self) -> Iterator[None]:
        """For as long as the context lasts."""
        if ":" not in self.where:
            with self._script():
                yield
            return
        function = _function(self.where)
        sound = function.__code__
        function.__code__ = self._code(function)
        try:
            yield
        finally:
            function.__code__ = sound

    def _changed(self, source: str) -> str:
        if source.count(self.old) != 1:
            raise ValueError(
                f"bug {self.name}: {source.count(self.old)} places in {self.where} read {self.old!r}"
            )
        return source.replace(self.old, self.new)

    def _code(self, function: FunctionType) -> CodeType:
        source = textwrap.dedent(self._changed(inspect.getsource(function)))
        names: dict[str, Any] = {}
        flags = annotations.compiler_flag
        exec(compile(source, f"<bug {self.name}>", "exec", flags, True), function.__globals__, names)
        made = inspect.unwrap(_plain(names[function.__name__]))
        assert isinstance(made, FunctionType)
        return made.__code__

    @contextmanager
    def _script(self) -> Iterator[None]:
        sound = read_script
        self._changed(sound(self.where))

        def read(name: str) -> str:
            return self._changed(sound(name)) if name == self.where else sound(name)

        with mock.patch("broker.journal.read_script", read), mock.patch("broker.records.read_script", read):
            yield


def _plain(found: Any) -> Any:
    if isinstance(found, property):
        return found.fget
    return getattr(found, "__func__", found)


def _function(where: str) -> FunctionType:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = inspect.getattr_static(found, part)
    plain = inspect.unwrap(_plain(found))
    assert isinstance(plain, FunctionType)
    return plain


_FENCE = "if redis.call('GET', KEYS[2]) ~= ARGV[2] or (owner and owner ~= ARGV[1]) then return 'fenced' end"
_RELEASED = 'writer.emit(EventKind.RELEASED, at_s, lease=lease, attempt=attempt, cause="released")'
_TOMBSTONE = "writer.emit(EventKind.RELEASED, state.cloud.now_s, attempt=attempt)  # a tombstone"
_HAS_IT = "if lease.ends_at_s is not None and command.until_s <= lease.ends_at_s:"
_SWEPT = "await self._records.decide(attempting)"

_ORDER = """\
        yield from (one for one in inventory.youngest_spot() if one.yields and one.evict_at_s is None)
    yield from (one for one in inventory.youngest_spot() if not one.yields and one.evict_at_s is None)
"""

#: Of the scripts.
SCRIPT_BUGS = (
    Bug("fencing ignored", "commit", _FENCE, ""),
    Bug("epoch not raised", "acquire", "tonumber(ARGV[3])) + 1", "tonumber(ARGV[3]))", seed=1),
    Bug(
        "retry of a commit not recognised",
        "commit",
        "if low >= first + events - 1 then",
        "if false then",
        seed=3,
    ),
    Bug(
        "merged stream forgotten",
        "commit",
        "redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[13], '*', 'e', event)",
        "",
    ),
    Bug("ended leases shown as running", "commit", "redis.call('SREM', running, id)", ""),
    Bug(
        "end of a lease not shown", "commit", "redis.call('SET', KEYS[key + i], lease, 'EX', ENDED_TTL_S)", ""
    ),
    Bug(
        "inbox trimmed too far",
        "commit",
        "redis.call('XTRIM', KEYS[6], 'MINID', cursor)",
        "redis.call('DEL', KEYS[6])",
        seed=2,
    ),
    Bug(
        "decided whatever the attempt",
        "decide",
        "known[2] == attempt and known[3] == cloud",
        "true",
        seed=98,
    ),
    Bug(
        "decided twice",
        "decide",
        "known[1] == 'attempting' and known[2] == attempt",
        "known[1] ~= 'open'",
        seed=6,
    ),
    Bug(
        "confirmation not sent",
        "decide",
        "redis.call('XADD', KEYS[1 + inbox], '*', unpack(signed('c', entry, signature)))",
        "if ARGV[4] ~= 'commit' then redis.call('XADD', KEYS[1 + inbox], '*', 'c', entry) end",
        seed=1,
    ),
    Bug("reserved whatever the state", "reserve", "known[1] == 'open' and", "known[1] and", seed=12),
    Bug("closed whatever the state", "close", "if known[1] == 'open' then", "if known[1] then", seed=10),
    Bug(
        "id used for something else",
        "accept",
        "elseif known[1] ~= fingerprint then",
        "elseif false then",
        seed=1,
    ),
    Bug("answers not kept", "accept", "elseif known[2] then", "elseif false then"),
    Bug("nobody sweeps", "overdue", "'-inf', now,", "'-inf', 0,", seed=3),
)

#: Of the owner and its cloud.
OWNER_BUGS = (
    Bug(
        "confirmed twice",
        "workers.owner.owner:Owner._confirm",
        "if entry.state is LeaseState.RESERVED:",
        "if True:",
    ),
    Bug("tombstone forgotten", "workers.owner.lease_changes:release", _TOMBSTONE, "pass", seed=7),
    Bug("release not written", "workers.owner.lease_changes:end_reservation", _RELEASED, "pass"),
    Bug(
        "confirmed leases expire",
        "workers.owner.answer_log:AnswerLog.reserved",
        "if lease.state is LeaseState.RESERVED",
        "if '.' in lease.id",
        seed=1,
    ),
    Bug(
        "reservations expire at once",
        "workers.owner.owner:Owner.expire",
        "> self.spec.reservation_ttl_s",
        "> 0.1",
        seed=61,
    ),
    Bug(
        "eviction not written",
        "workers.owner.event_writer:EventWriter._record_end",
        "self.emit(kind, change.at_s, lease",
        "_ = kind is EventKind.EVICTED or self.emit(kind, change.at_s, lease",
    ),
    Bug(
        "ends of reservations are public",
        "workers.owner.event_writer:EventWriter._record_end",
        "lapses = lease.state is LeaseState.RESERVED",
        "lapses = False",
    ),
    Bug(
        "who was promised what lapsed is not told",
        "workers.owner.owner:Owner._confirm",
        "self._writer.tell_lapsed(entry.lease)",
        "pass",
    ),
    Bug(
        "extensions not numbered",
        "workers.owner.event_writer:EventWriter.emit",
        "if public else None",
        "if public and kind is not EventKind.EXTENDED else None",
    ),
    Bug(
        "sequence skipped",
        "workers.owner.event_writer:EventWriter.emit",
        "sequence + 1 if",
        "sequence + 2 if",
    ),
    Bug(
        "refusals not kept",
        "workers.owner.owner:Owner._recall_reservation",
        "return self.state.known(command.attempt, Kind.SPOT)",
        "known = self.state.known(command.attempt, Kind.SPOT)\n"
        "        return None if isinstance(known, RefusalView) else known",
        seed=20,
    ),
    Bug(
        "refusals of own users not kept",
        "workers.owner.on_demand:recall_start",
        "return state.known(command.instance, Kind.ON_DEMAND)",
        "known = state.known(command.instance, Kind.ON_DEMAND)\n"
        "    return None if isinstance(known, RefusalView) else known",
        seed=1,
    ),
    Bug(
        "extended after a notice",
        "cloudsim.cloud:Cloud.extend",
        "if instance.evict_at_s is not None:",
        "if False:",
        seed=3,
    ),
    Bug(
        "extended to an earlier end",
        "workers.owner.lease_changes:extend",
        _HAS_IT,
        "if False:",
        seed=1,
    ),
    Bug(
        "promised before no guarantee",
        "cloudsim.scheduling.eviction:youngest_first",
        _ORDER,
        _ORDER.replace("if one.", "if  one.")
        .replace("if not one.y", "if one.y")
        .replace("if  one.y", "if not one.y"),
        seed=1,
    ),
    Bug(
        "oldest first",
        "cloudsim.scheduling.eviction:youngest_first",
        "yield from (one for one in inventory.youngest_spot() if not one.yields",
        "yield from (one for one in inventory.spot() if not one.yields",
        seed=1,
    ),
    Bug(
        "evicted without need",
        "cloudsim.scheduling.victims:_needed",
        "if fits(without, needed):",
        "if False:",
        seed=8,
    ),
    Bug(
        "recovery drops the last event",
        "workers.owner.owner:Owner.recover",
        "in events:",
        "in list(events)[:-1]:",
    ),
    Bug(
        "cancelled counted as completed",
        "workers.owner.lease_changes:stop",
        "at_s, how,",
        "at_s, End.COMPLETED,",
    ),
    Bug(
        "cancelled after a notice",
        "cloudsim.cloud:Cloud.end",
        "if instance.evict_at_s is not None and how is not End.COMPLETED:",
        "if False:",
        seed=3,
    ),
    Bug(
        "notice without eviction",
        "cloudsim.cloud:Cloud._next_end",
        "leaves_s = instance.evict_at_s if end[1] == PHASE_ON_DEMAND else instance.end_s",
        "leaves_s = instance.end_s",
        seed=9,
    ),
    Bug(
        "eviction without notice",
        "cloudsim.cloud:Cloud.gives_notice",
        "return self.spec.grace_s > 0 or bool(self.noticed_for)",
        "return False",
    ),
    Bug(
        "half the notice",
        "cloudsim.cloud:Cloud._notice",
        "now_s + self.spec.grace_s",
        "now_s + self.spec.grace_s / 2",
    ),
    Bug(
        "who waits never starts",
        "cloudsim.cloud:Cloud._start_waiting",
        "(booked := self.inventory.first_waiting(node)) is not None",
        "(booked := None) is not None",
        seed=1,
    ),
    Bug(
        "closed nodes stay open",
        "cloudsim.cloud:Cloud._apply_notice",
        "self.inventory.close(nodes, closed=closed)",
        "pass",
        seed=4,
    ),
    Bug(
        "drain lets stay",
        "cloudsim.cloud:Cloud.drain",
        "if instance.evict_at_s is None and (",
        "if False and (",
        seed=4,
    ),
    Bug(
        "a core is booked twice",
        "cloudsim.scheduling.fit:nodes_with_room",
        "free[0] >= needed[0]",
        "free[0] + 1 >= needed[0]",
    ),
    Bug(
        "ends come late",
        "cloudsim.cloud:Cloud.advance",
        "if min(end_key, arrival_key, blocks_key) >= (self.headroom.not_before(now_s), phase):",
        "if min(end_key, arrival_key, blocks_key) >= (now_s - 2.0, phase):",
        seed=1,
    ),
    Bug(
        "every end an eviction",
        "workers.owner.state:OwnerState._note_end",
        "self.evicted += event.kind is EventKind.EVICTED",
        "self.evicted += 1",
    ),
    Bug(
        "acknowledged without a notice",
        "cloudsim.cloud:Cloud.acknowledge",
        "if instance is None or instance.evict_at_s is None:",
        "if instance is None:",
    ),
    Bug(
        "first command of an entry lost",
        "workers.owner.process:OwnerProcess._drain_group",
        "cursor, self._done_of_entry = entry, 0",
        "cursor = entry",
    ),
    Bug(
        "journal not read",
        "workers.owner.recovery:Recovery._events",
        "in self._from_the_beginning(entries) if whole else entries:",
        "in ():",
        seed=1,
    ),
    Bug(
        "unreadable entries thrown away",
        "broker.journal:Journal.read_inbox",
        "if any(isinstance(command, Malformed) for command in parsed):",
        "if False:",
        seed=2,
    ),
)

#: Of the broker.
BROKER_BUGS = (
    Bug(
        "overtaken and promised",
        "broker.submission.service:Service._decide",
        "results[one.id] = _standing(standing)",
        "results[one.id] = settled or _standing(standing)",
        seed=12,
    ),
    Bug("sweeper forgets the attempt", "broker.submission.service:Service.sweep", _SWEPT, "pass", seed=5),
    Bug(
        "silence taken for the end",
        "broker.submission.service:Service._decide",
        "standing.state is not State.OPEN",
        "True",
        seed=24,
    ),
)

BUGS = (*SCRIPT_BUGS, *OWNER_BUGS, *BROKER_BUGS)


def caught(bug: Bug, seeds: int) -> Report | None:
    """The first of so many seeds that finds the bug; the one that did before is tried first."""
    with bug.planted():
        for seed in (bug.seed, *range(seeds)):
            report = run_seed(seed)
            if report.violation is not None:
                return report
    return None
