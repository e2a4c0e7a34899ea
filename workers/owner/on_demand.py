"""Instances of a cloud's own users: start, stop, all or nothing, and news of requests that overflowed.

Each function carries out one command at ``at_s`` (seconds of the cloud's time), and lets the time before it
pass first.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.contract import (
    Answer,
    Done,
    LeaseGranted,
    LeasesGranted,
    ListSold,
    OnDemandRequest,
    Overflow,
    RefusalView,
    Show,
    StartAll,
    StartOnDemand,
    StopOnDemand,
)
from broker.contract.convert import to_refusal_view
from cloudsim.cloud.joint_start import start_all
from cloudsim.history.event_log import PHASE_ON_DEMAND
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from workers.owner import clock, lease_changes
from workers.owner.event_writer import EventWriter
from workers.owner.state import OwnerState


def recall_start(state: OwnerState, command: StartOnDemand) -> Answer | None:
    """Return the answer that this instance's start has got before, or None."""
    return state.known(command.instance, Kind.ON_DEMAND)


def start(state: OwnerState, writer: EventWriter, command: StartOnDemand, at_s: float) -> Answer:
    """Start an on-demand instance, evicting spot where it must; book it, or turn it away."""
    request = _fit(state, command.instance, command, command.origin)
    if isinstance(request, RefusalView):
        return request
    at_s = clock.step(state, writer, at_s, PHASE_ON_DEMAND)
    # A purchase by another member is not offered to the federation: it chose this cloud over the others. A
    # real cloud's agent says what is to be offered: all else runs there already, or is room that is kept.
    offers = command.origin is None and (command.overflow is not None or not state.spec.is_real)
    changes = state.cloud.start_on_demand(request, at_s)
    launches = {command.instance: command.launch}
    writer.record(changes, offers=offers, terms=command.overflow, launches=launches)
    answer = state.known(command.instance, Kind.ON_DEMAND)
    assert answer is not None
    return answer


def recall_start_all(state: OwnerState, command: StartAll) -> Answer | None:
    """Return the answer to a start of which any instance is known already, or None."""
    answers = _known_answers(state, command)
    return _joint_answer(answers) if any(answers) else None


def start_together(state: OwnerState, writer: EventWriter, command: StartAll, at_s: float) -> Answer:
    """Start several on-demand instances, all of them or none.

    Returns all leases, the refusal of all, or ``Done(found=False)`` where an id means something else already.
    """
    requests: list[Request] = []
    for wish in command.requests:
        request = _fit(state, wish.id or "", wish, command.origin)
        if isinstance(request, RefusalView):
            return request
        requests.append(request)
    at_s = clock.step(state, writer, at_s, PHASE_ON_DEMAND)
    launches = {request.id or "": request.launch for request in command.requests}
    writer.record(start_all(state.cloud, requests, at_s), offers=False, launches=launches)
    return _joint_answer(_known_answers(state, command))


def _fit(
    state: OwnerState, instance: str, wish: StartOnDemand | OnDemandRequest, origin: str | None
) -> Request | RefusalView:
    """Return the request for an instance with all that it takes, or its refusal if the cloud cannot start it.

    Those of a real cloud's own users run there already, or are room that is kept for them.
    """
    request = Request(
        instance,
        Kind.ON_DEMAND,
        wish.cores,
        wish.lifetime_s,
        origin=origin or state.spec.cloud.id,
        **wish.needs,
    )
    if state.spec.is_real and request.origin == state.spec.cloud.id:
        return request
    fitted = state.spec.fit(request, wish.launch)
    if isinstance(fitted, Request):
        return fitted
    return to_refusal_view(Refusal(state.spec.cloud.id, fitted.reason), fitted.why, cores=request.cores)


def list_sold(state: OwnerState, writer: EventWriter, command: ListSold, at_s: float) -> Answer:
    """Return the on-demand leases of other members, running or booked."""
    del command
    clock.advance(state, writer, at_s)
    inventory = state.cloud.inventory
    answers = [
        state.known(instance.id, Kind.ON_DEMAND)
        for instance in (*inventory, *inventory.booked())
        if instance.kind is Kind.ON_DEMAND and instance.origin != state.spec.cloud.id
    ]
    return LeasesGranted(leases=tuple(one.lease for one in answers if isinstance(one, LeaseGranted)))


def _known_answers(state: OwnerState, command: StartAll) -> list[Answer | None]:
    return [state.known(request.id or "", Kind.ON_DEMAND) for request in command.requests]


def _joint_answer(answers: Sequence[Answer | None]) -> Answer:
    leases = tuple(answer.lease for answer in answers if isinstance(answer, LeaseGranted))
    if len(leases) == len(answers):
        return LeasesGranted(leases=leases)
    refusal = answers[0]
    if isinstance(refusal, RefusalView) and all(isinstance(answer, RefusalView) for answer in answers):
        return refusal
    return Done(found=False)


def show(state: OwnerState, writer: EventWriter, command: Show, at_s: float) -> Answer:
    """Return what is known of an on-demand instance, and where it went if it was offered to others."""
    clock.advance(state, writer, at_s)
    answer, offer = _known_to_origin(state, command), state.offers.get(command.instance)
    if isinstance(answer, RefusalView) and offer is not None:
        return answer.model_copy(update={"overflow": offer})
    return answer or Done(found=False)


def stop(state: OwnerState, writer: EventWriter, command: StopOnDemand, at_s: float) -> Answer:
    """End an on-demand instance, booked or running here or placed elsewhere, because its user asks for it."""
    known = state.known(command.instance, Kind.ON_DEMAND)
    if known is not None and _known_to_origin(state, command) is None:
        return Done(found=False)
    offer = state.offers.after_stop(command.instance)
    if offer is not None:
        clock.advance(state, writer, at_s)
        writer.emit_overflow(offer)
    if isinstance(state.answer_log.get(command.instance), RefusalView):
        return Done()  # it does not run, neither here nor, from now on, elsewhere
    return lease_changes.stop(state, writer, command.instance, Kind.ON_DEMAND, at_s, "stopped")


def _known_to_origin(state: OwnerState, command: Show | StopOnDemand) -> Answer | None:
    """Return what is known of an instance; None also for one of another origin than the command names."""
    known = state.known(command.instance, Kind.ON_DEMAND)
    foreign = isinstance(known, LeaseGranted) and command.origin not in (None, known.lease.origin)
    return None if foreign else known


def note_overflow(state: OwnerState, writer: EventWriter, command: Overflow, at_s: float) -> Answer:
    """Note what became of a request that overflowed and was offered to the federation."""
    clock.advance(state, writer, at_s)
    offer = state.offers.after_news(command, state.cloud.now_s)
    if offer is not None:
        writer.emit_overflow(offer)
    return Done(found=offer is not None)
