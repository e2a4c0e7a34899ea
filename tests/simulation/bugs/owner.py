"""Bugs of an owner process: its decisions, its book, its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from broker.contract import (
    Answer,
    Command,
    Confirm,
    Event,
    EventKind,
    Lease,
    LeaseState,
    RefusalView,
    StartAll,
    StartOnDemand,
)
from broker.journal.inbox import Malformed
from broker.journal.journal import Journal
from cloudsim.model.changes import End, Ended
from cloudsim.model.requests import Kind
from tests.simulation.bugs.bug import Bug, mutation
from workers.book import Book
from workers.endings import Endings
from workers.extensions import _lasts_until
from workers.owner import Owner
from workers.recorder import Outcome, Recorder, _is_public, _kind_of_end
from workers.recovery import Recovery
from workers.runtime import Runtime
from workers.state import OwnerSpec, State

OWNER_BUGS: list[Bug] = []

Sound = Callable[..., Any]


@mutation(OWNER_BUGS, "confirmed twice", Owner._confirm, seed=27)
def confirm_again(sound: Sound, owner: Owner, command: Confirm) -> Answer:
    lease = owner.state.book.get(command.attempt)
    if isinstance(lease, Lease) and lease.kind is Kind.SPOT and lease.state is LeaseState.RUNNING:
        owner._recorder.emit(EventKind.ADMITTED, owner.cloud.now_s, lease=lease)
    answer: Answer = sound(owner, command)
    return answer


@mutation(OWNER_BUGS, "tombstone forgotten", Recorder.emit, seed=2)
def emit_no_tombstone(sound: Sound, recorder: Recorder, kind: EventKind, at_s: float, **fields: Any) -> None:
    if kind is not EventKind.RELEASED or "lease" in fields:
        sound(recorder, kind, at_s, **fields)


@mutation(OWNER_BUGS, "release not written", Recorder.emit)
def emit_no_release(sound: Sound, recorder: Recorder, kind: EventKind, at_s: float, **fields: Any) -> None:
    if kind is not EventKind.RELEASED or not {"lease", "attempt"} <= fields.keys():
        sound(recorder, kind, at_s, **fields)


@mutation(OWNER_BUGS, "confirmed leases expire", Book.reserved, seed=4)
def reserved_or_confirmed(_sound: Sound, book: Book) -> tuple[str, ...]:
    return tuple(lease.id for lease in book.open_leases() if lease.kind is Kind.SPOT)


@mutation(OWNER_BUGS, "reservations expire at once", Owner.expire, seed=44)
def expire_at_once(sound: Sound, owner: Owner, now_s: float, now: str, monotonic_s: float) -> Outcome:
    spec = owner.spec
    owner.spec = replace(spec, reservation_ttl_s=0.1)
    try:
        outcome: Outcome = sound(owner, now_s, now, monotonic_s)
    finally:
        owner.spec = spec
    return outcome


@mutation(OWNER_BUGS, "eviction not written", Recorder._ended)
def record_no_eviction(sound: Sound, recorder: Recorder, change: Ended) -> None:
    if change.how is not End.EVICTED:
        sound(recorder, change)


@mutation(OWNER_BUGS, "ends of reservations are public", _kind_of_end)
def kind_of_public_end(_sound: Sound, _lease: Lease, how: End) -> EventKind:
    return EventKind(how.value)


@mutation(OWNER_BUGS, "who was promised what lapsed is not told", Recorder.told_late)
def tell_nobody(_sound: Sound, _recorder: Recorder, _lease: Lease) -> None:
    return None


@mutation(OWNER_BUGS, "extensions not numbered", _is_public)
def is_public_but_no_extension(sound: Sound, kind: EventKind, lease: Lease | None) -> bool:
    return kind is not EventKind.EXTENDED and sound(kind, lease)


@mutation(OWNER_BUGS, "sequence skipped", Recorder.emit)
def emit_with_a_gap(sound: Sound, recorder: Recorder, kind: EventKind, at_s: float, **fields: Any) -> None:
    if _is_public(kind, fields.get("lease")):
        recorder._state.sequence += 1
    sound(recorder, kind, at_s, **fields)


@mutation(OWNER_BUGS, "refusals not kept", State.known, seed=34)
def forget_spot_refusals(sound: Sound, state: State, entry_id: str, kind: Kind) -> Answer | None:
    known: Answer | None = sound(state, entry_id, kind)
    return None if kind is Kind.SPOT and isinstance(known, RefusalView) else known


@mutation(OWNER_BUGS, "refusals of own users not kept", Owner._start_on_demand, seed=1)
def forget_own_refusals(sound: Sound, owner: Owner, command: StartOnDemand | StartAll, at_s: float) -> Answer:
    if isinstance(command, StartOnDemand):
        known = owner.state.book.get(command.instance)
        if isinstance(known, RefusalView):
            del owner.state.book._closed[command.instance]
    answer: Answer = sound(owner, command, at_s)
    return answer


@mutation(OWNER_BUGS, "extended to an earlier end", _lasts_until, seed=4)
def lasts_never_long_enough(_sound: Sound, _lease: Lease, _until_s: float) -> bool:
    return False


@mutation(OWNER_BUGS, "recovery drops the last event", Owner.recover)
def recover_without_the_last(
    sound: Sound, cls: type[Owner], spec: OwnerSpec, epoch: int, events: Iterable[Event], state: State | None
) -> Owner:
    owner: Owner = sound(cls, spec, epoch, list(events)[:-1], state)
    return owner


@mutation(OWNER_BUGS, "cancelled counted as completed", Endings.stop)
def stop_as_completed(
    sound: Sound,
    endings: Endings,
    lease_id: str,
    kind: Kind,
    at_s: float,
    cause: str,
    _how: End,
) -> Answer:
    answer: Answer = sound(endings, lease_id, kind, at_s, cause, End.COMPLETED)
    return answer


@mutation(OWNER_BUGS, "every end an eviction", State._note_end)
def note_every_end_as_eviction(sound: Sound, state: State, event: Event) -> None:
    sound(state, event)
    state.evicted += event.kind is not EventKind.EVICTED


@mutation(OWNER_BUGS, "first command of an entry lost", Runtime._handle_entry)
def pass_over_the_next_commands(
    sound: Sound, runtime: Runtime, entry: str, commands: Sequence[Command | Malformed], outcome: Outcome
) -> tuple[int, float | None]:
    done = max(runtime._done_of_entry, len(commands))
    count, due_s = sound(runtime, entry, commands, outcome)
    if due_s is None:
        runtime._done_of_entry = done
    return count, due_s


@mutation(OWNER_BUGS, "journal not read", Recovery._events, seed=1)
def no_events(_sound: Sound, _recovery: Recovery, *, whole: bool) -> Iterator[Event]:
    return iter(())


@mutation(OWNER_BUGS, "unreadable entries thrown away", Journal._put_aside, seed=2)
def throw_away(_sound: Sound, _journal: Journal, *_entry: object) -> None:
    return None
