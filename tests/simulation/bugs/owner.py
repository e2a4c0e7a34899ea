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
    StartOnDemand,
)
from broker.journal.inbox import MalformedCommand
from broker.journal.journal import Journal
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.renewals import RenewalTerms, renew
from cloudsim.model.changes import Change, End, Ended
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind
from tests.simulation.bugs.bug import Bug, mutation
from workers.owner import lease_changes, on_demand
from workers.owner.answer_log import AnswerLog
from workers.owner.event_writer import Decisions, EventWriter, _is_public, _kind_of_end
from workers.owner.lease_changes import _lasts_until
from workers.owner.owner import Owner
from workers.owner.process import OwnerProcess
from workers.owner.recovery import Recovery
from workers.owner.renewals import RenewalSchedule
from workers.owner.state import OwnerSpec, OwnerState

OWNER_BUGS: list[Bug] = []

Sound = Callable[..., Any]


@mutation(OWNER_BUGS, "confirmed twice", Owner._confirm, seed=14)
def confirm_again(sound: Sound, owner: Owner, command: Confirm, at_s: float) -> Answer:
    owner._advance(at_s)
    lease = owner.state.answer_log.get(command.attempt)
    if isinstance(lease, Lease) and lease.kind is Kind.SPOT and lease.state is LeaseState.RUNNING:
        owner._writer.emit(EventKind.ADMITTED, owner.cloud.now_s, lease=lease)
    answer: Answer = sound(owner, command, at_s)
    return answer


@mutation(OWNER_BUGS, "tombstone forgotten", EventWriter.emit, seed=7)
def emit_no_tombstone(sound: Sound, writer: EventWriter, kind: EventKind, at_s: float, **fields: Any) -> None:
    if kind is not EventKind.RELEASED or "lease" in fields:
        sound(writer, kind, at_s, **fields)


@mutation(OWNER_BUGS, "release not written", EventWriter.emit)
def emit_no_release(sound: Sound, writer: EventWriter, kind: EventKind, at_s: float, **fields: Any) -> None:
    if kind is not EventKind.RELEASED or not {"lease", "attempt"} <= fields.keys():
        sound(writer, kind, at_s, **fields)


@mutation(OWNER_BUGS, "confirmed leases expire", AnswerLog.reserved, seed=4)
def reserved_or_confirmed(_sound: Sound, answer_log: AnswerLog) -> tuple[str, ...]:
    return tuple(lease.id for lease in answer_log.open_leases() if lease.kind is Kind.SPOT)


@mutation(OWNER_BUGS, "reservations expire at once", Owner.expire, seed=17)
def expire_at_once(sound: Sound, owner: Owner, now_s: float, now: str, monotonic_s: float) -> Decisions:
    spec = owner.spec
    owner.spec = replace(spec, reservation_ttl_s=0.1)
    try:
        decisions: Decisions = sound(owner, now_s, now, monotonic_s)
    finally:
        owner.spec = spec
    return decisions


@mutation(OWNER_BUGS, "eviction not written", EventWriter._record_end)
def record_no_eviction(sound: Sound, writer: EventWriter, change: Ended) -> None:
    if change.how is not End.EVICTED:
        sound(writer, change)


@mutation(OWNER_BUGS, "ends of reservations are public", _kind_of_end)
def kind_of_public_end(_sound: Sound, _lease: Lease, how: End) -> EventKind:
    return EventKind(how.value)


@mutation(OWNER_BUGS, "who was promised what lapsed is not told", EventWriter.tell_lapsed, seed=1)
def tell_nobody(_sound: Sound, _writer: EventWriter, _lease: Lease) -> None:
    return None


@mutation(OWNER_BUGS, "extensions not numbered", _is_public)
def is_public_but_no_extension(sound: Sound, kind: EventKind, lease: Lease | None) -> bool:
    return kind is not EventKind.EXTENDED and sound(kind, lease)


@mutation(OWNER_BUGS, "sequence skipped", EventWriter.emit)
def emit_with_a_gap(sound: Sound, writer: EventWriter, kind: EventKind, at_s: float, **fields: Any) -> None:
    if _is_public(kind, fields.get("lease")):
        writer._state.sequence += 1
    sound(writer, kind, at_s, **fields)


@mutation(OWNER_BUGS, "refusals not kept", OwnerState.known, seed=14)
def forget_spot_refusals(sound: Sound, state: OwnerState, entry_id: str, kind: Kind) -> Answer | None:
    known: Answer | None = sound(state, entry_id, kind)
    return None if kind is Kind.SPOT and isinstance(known, RefusalView) else known


@mutation(OWNER_BUGS, "refusals of own users not kept", on_demand.recall_start, seed=0)
def forget_own_refusals(sound: Sound, state: OwnerState, command: StartOnDemand) -> Answer | None:
    answer: Answer | None = sound(state, command)
    return None if isinstance(answer, RefusalView) else answer


@mutation(OWNER_BUGS, "extended to an earlier end", _lasts_until, seed=2)
def lasts_never_long_enough(_sound: Sound, _lease: Lease, _until_s: float) -> bool:
    return False


@mutation(OWNER_BUGS, "recovery drops the last event", Owner.recover)
def recover_without_the_last(
    sound: Sound,
    cls: type[Owner],
    spec: OwnerSpec,
    epoch: int,
    events: Iterable[Event],
    state: OwnerState | None,
) -> Owner:
    owner: Owner = sound(cls, spec, epoch, list(events)[:-1], state)
    return owner


@mutation(OWNER_BUGS, "cancelled counted as completed", lease_changes.stop)
def stop_as_completed(
    sound: Sound,
    state: OwnerState,
    writer: EventWriter,
    lease_id: str,
    kind: Kind,
    at_s: float,
    cause: str,
    _how: End,
) -> Answer:
    answer: Answer = sound(state, writer, lease_id, kind, at_s, cause, End.COMPLETED)
    return answer


@mutation(OWNER_BUGS, "every end an eviction", OwnerState._note_end)
def note_every_end_as_eviction(sound: Sound, state: OwnerState, event: Event) -> None:
    sound(state, event)
    state.evicted += event.kind is not EventKind.EVICTED


@mutation(OWNER_BUGS, "first command of an entry lost", OwnerProcess._handle_entry)
def pass_over_the_next_commands(
    sound: Sound,
    process: OwnerProcess,
    entry: str,
    commands: Sequence[Command | MalformedCommand],
    decisions: Decisions,
) -> tuple[int, float | None]:
    done = max(process._done_of_entry, len(commands))
    count, due_s = sound(process, entry, commands, decisions)
    if due_s is None:
        process._done_of_entry = done
    return count, due_s


@mutation(OWNER_BUGS, "journal not read", Recovery._events, seed=2)
def no_events(_sound: Sound, _recovery: Recovery, *, whole: bool) -> Iterator[Event]:
    return iter(())


@mutation(OWNER_BUGS, "unreadable entries thrown away", Journal._put_aside, seed=2)
def throw_away(_sound: Sound, _journal: Journal, *_entry: object) -> None:
    return None


@mutation(OWNER_BUGS, "renewals forgotten", RenewalSchedule.note)
def note_no_renewable(sound: Sound, schedule: RenewalSchedule, lease: Lease) -> None:
    if lease.wanted_until_s is None:
        sound(schedule, lease)


@mutation(OWNER_BUGS, "renewed beyond what it wants", renew, seed=12)
def renew_beyond(
    sound: Sound, cloud: Cloud, instance_id: str, terms: RenewalTerms, now_s: float
) -> list[Change] | Refusal:
    further = replace(terms, until_s=terms.until_s + 1.0)
    answer: list[Change] | Refusal = sound(cloud, instance_id, further, now_s)
    return answer


@mutation(OWNER_BUGS, "commit not waited for", Journal._run, seed=90)
def run_alone(sound: Sound, journal: Journal, script: Sound, keys: Any, arguments: Any) -> Any:
    return script(keys, arguments)


@mutation(OWNER_BUGS, "command believed before it stands", Journal._settle, seed=215)
def settle_nothing(_sound: Sound, _journal: Journal) -> None:
    return None
