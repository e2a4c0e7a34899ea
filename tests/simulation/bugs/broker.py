"""Bugs of the submission of spot requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.requests.models import AttemptDecision, Record, RequestAnswer, RequestStatus
from broker.requests.store import RequestStore
from broker.requests.submit import Result, SubmissionService, _decided_result, _result_of
from broker.storage.replication import ReplicationBarrier
from broker.storage.shared_call import _split
from tests.simulation.bugs.bug import Bug, mutation

BROKER_BUGS: list[Bug] = []

Sound = Callable[..., Any]


@mutation(BROKER_BUGS, "overtaken and promised", _decided_result, seed=36)
def decided_by_itself(
    sound: Sound, settled: RequestAnswer | None, answer: str | None, standing: RequestStatus
) -> Result | None:
    result: Result | None = settled or sound(settled, answer, standing)
    return result


@mutation(BROKER_BUGS, "callers get each other's outcomes", _split, seed=2)
def split_askew(sound: Sound, outcomes: Sequence[Any], counts: Sequence[int]) -> list[Sequence[Any]]:
    parts: list[Sequence[Any]] = sound(outcomes, counts)
    return [*parts[1:], parts[0]] if len(set(counts)) == 1 else parts


@mutation(BROKER_BUGS, "sweeper forgets the attempt", SubmissionService._abandon_attempts, seed=1)
async def abandon_nothing(_sound: Sound, _service: SubmissionService, _records: Sequence[Record]) -> None:
    return None


@mutation(BROKER_BUGS, "silence taken for the end", _decided_result, seed=103)
def decided_for_good(
    sound: Sound, settled: RequestAnswer | None, answer: str | None, standing: RequestStatus
) -> Result | None:
    result: Result | None = sound(settled, answer, standing) or _result_of(standing)
    return result


@mutation(BROKER_BUGS, "keys of the dead stay held", RequestStore.accept_call, seed=8)
async def hold_for_minutes(
    sound: Sound, store: RequestStore, principal: str, key: str, fingerprint: str, _ms: int, token: str
) -> Any:
    return await sound(store, principal, key, fingerprint, 120_000, token)


@mutation(BROKER_BUGS, "keys of failed calls stay held", RequestStore.hold_call, seed=7)
async def never_give_up(
    sound: Sound, store: RequestStore, principal: str, key: str, ms: int, token: str
) -> None:
    await sound(store, principal, key, ms or 120_000, token)


@mutation(BROKER_BUGS, "a list is committed one by one", RequestStore.commit_together, seed=83)
async def commit_each(_sound: Sound, store: RequestStore, decisions: Sequence[AttemptDecision]) -> Any:
    return [*await store.decide(decisions[:1]), *await store.decide(decisions[1:])]


@mutation(BROKER_BUGS, "a sweep goes on with one of a list", Record.together, seed=10)
def of_no_list(_sound: Sound, _record: Record) -> bool:
    return False


@mutation(BROKER_BUGS, "answer not waited for", ReplicationBarrier.wait, seed=40)
async def wait_for_nothing(_sound: Sound, _barrier: ReplicationBarrier, _place: object = None) -> None:
    return None
