"""Drives a live federation in trace time: sends the requests of a replay and counts the answers.

Requests are sent one by one, in the order of a replay, each with its time and its targets; every call may be
repeated with the same id, so that a broker, an owner or the queue may die on the way. Answers are counted
as they come; own requests and the ends of spot instances are read from the clouds' journals at the end. The
report is that of ``cloudsim.federation.replay``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.client import Client, GrantedRequest, InputRefusedError, RefusedRequest
from broker.contract import Event, EventKind, RefusalView, SpotRequest
from broker.contract.convert import to_needs_fields
from cloudsim.federation.model import Federation
from cloudsim.federation.report import Tally
from cloudsim.model.changes import RENEWAL, End
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.model.reserved_ids import is_block

#: Time for which a call is repeated while the broker or an owner is away.
PATIENCE_S = 600.0
#: Time for one answer, which may have to wait for new tables.
ANSWER_S = 180.0

_UNFITTABLE = "urn:spotfed:problem:unfittable"
_ENDS = {EventKind.COMPLETED: End.COMPLETED, EventKind.EVICTED: End.EVICTED}

Answer = GrantedRequest | RefusedRequest
#: Called for each answer: time of the federation in seconds, request, answer.
AnswerCallback = Callable[[float, Request, Answer], None]


def drive(
    federation: Federation,
    client: Client,
    journal: Callable[[str], Iterable[Event]],
    *,
    answered: AnswerCallback = lambda *_: None,
) -> dict[str, Any]:
    """Run the federation until its last request is answered and every instance has ended.

    Parameters
    ----------
    journal
        Returns all events of a cloud.
    answered
        Called for each answer.

    Returns
    -------
    The report of ``cloudsim.federation.report``.

    Raises
    ------
    UnavailableError
        When the broker stays away for longer than the client's deadline.
    """
    tally = Tally(federation)
    for at_s, request, targets in federation.requests():
        tally.asked(request)
        answer = _submit(client, at_s, request, targets)
        for refusal in answer.refusals:
            if refusal.cloud in targets:  # others were passed over, not asked
                tally.refused(request.id, refusal.cloud, refusal.reason)
        if isinstance(answer, GrantedRequest):
            tally.admitted(request.id, answer.lease.cloud)
        answered(at_s, request, answer)
    for member in federation.clouds:
        client.clouds.finish(member.spec.id)
        for event in journal(member.spec.id):
            _count(tally, event)
    return tally.as_dict()


def _submit(client: Client, at_s: float, request: Request, targets: tuple[str, ...]) -> Answer:
    assert request.lifetime_s is not None, "a spot request names its lifetime"
    try:
        return client.requests.submit(
            SpotRequest(
                id=request.id,
                origin=request.origin,
                cores=request.cores,
                lifetime_s=request.lifetime_s,
                sla=request.sla,
                targets=targets,
                at_s=at_s,
                pool=request.pool,
                least_s=request.least_s,
                **to_needs_fields(request),
            )
        )
    except InputRefusedError as error:
        if error.problem.type != _UNFITTABLE:
            raise
        # Larger than any node of the whole federation: no cloud was asked.
        return RefusedRequest(
            tuple(RefusalView(cloud=target, reason=RefusalReason.TOO_LARGE) for target in targets)
        )


def _count(tally: Tally, event: Event) -> None:
    """Count an entry of a journal; as in a replay, unconfirmed reservations do not count."""
    lease = event.lease
    if event.kind is EventKind.TURNED_AWAY:
        tally.on_demand(event.cloud, requests=1, admitted=0)
    elif lease is None or (lease.kind is Kind.ON_DEMAND and is_block(lease.id)):
        return
    elif event.kind is EventKind.EXTENDED and event.cause == RENEWAL:
        tally.renewed(lease.request)
    elif event.kind in _ENDS:
        tally.used(event.cloud, lease.cores, lease.starts_at_s, event.at_s)
        if lease.kind is Kind.SPOT:
            tally.ended(lease.request, event.cloud, _ENDS[event.kind], event.at_s - lease.starts_at_s)
    elif lease.kind is Kind.ON_DEMAND and event.kind is EventKind.ADMITTED:
        tally.on_demand(event.cloud, requests=1, admitted=1)
