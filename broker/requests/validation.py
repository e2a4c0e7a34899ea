"""Validation of requests: what may be asked of this federation."""

from __future__ import annotations

from collections.abc import Sequence

from broker.contract import SpotRequest
from broker.requests.errors import NoMembersError, UnsuitableError
from broker.requests.routing import Member, find_targets
from cloudsim.model.reserved_ids import RESERVED

LONGEST_REQUEST_ID = 120  # the number of an attempt is appended, and the whole is an Id


def check_id(request_id: str, members: Sequence[Member]) -> None:
    """Check that a request may have this id.

    Raises
    ------
    NoMembersError
        When no cloud has joined.
    UnsuitableError
        When the id is too long or belongs to the load of a cloud.
    """
    if not members:
        raise NoMembersError
    if len(request_id) > LONGEST_REQUEST_ID:
        raise UnsuitableError("id", f"longer than {LONGEST_REQUEST_ID} characters")
    cloud, slash, rest = request_id.partition("/")
    if slash and rest.startswith(RESERVED) and any(cloud == member.info.id for member in members):
        raise UnsuitableError("id", "ids of the form <cloud>/own-... belong to the load of that cloud")


def check_request(request: SpotRequest, members: Sequence[Member]) -> tuple[list[Member], bool]:
    """Check that a request suits the federation.

    Returns
    -------
    tuple
        The targets of the request in cloud order, and whether they run in trace time.

    Raises
    ------
    NoMembersError
        When no cloud has joined.
    UnsuitableError
        When a field does not suit the federation.
    UnknownTargetError
        When the request names a cloud that is not a member.
    """
    check_id(request.id or "", members)
    targets = find_targets(request, members)
    times = {member.info.time for member in targets or members}
    if len(times) > 1:
        raise UnsuitableError("targets", "some of these clouds run in trace time, others in wall time")
    trace_time = times == {"trace"}
    if trace_time and request.at_s is None:
        raise UnsuitableError("at_s", "this federation runs in trace time: say when the request is made")
    if not trace_time and request.at_s is not None:
        raise UnsuitableError("at_s", "this federation runs in wall time: leave it out")
    if request.lifetime_s is None:
        if request.sla is None or request.sla >= 1:
            raise UnsuitableError("lifetime_s", "without a lifetime there must be an sla below 1 to renew by")
        if request.least_s is not None:
            raise UnsuitableError("least_s", "goes with a lifetime: what wants no end begins with a period")
    elif request.least_s is not None and (request.sla is None or request.sla >= 1):
        raise UnsuitableError("least_s", "goes with an sla below 1: without a promise nothing needs renewal")
    elif request.least_s is not None and request.least_s > request.lifetime_s:
        raise UnsuitableError("least_s", "must be no more than lifetime_s")
    elif not trace_time and request.lifetime_s <= 0:
        raise UnsuitableError("lifetime_s", "must be more than 0")
    if not trace_time:  # there every target is asked and answers for itself
        _check_resources(request, members)
    return targets, trace_time


def _check_resources(request: SpotRequest, members: Sequence[Member]) -> None:
    """Raise UnsuitableError for an amount that no member has on one node."""
    if not all(member.info.node_kinds for member in members):
        return  # a member does not describe its nodes
    for resource, amount in request.resources.items():
        most = max(member.info.most(resource) for member in members)
        if amount > most:
            limit = f"the largest has {most}" if most else "none has any"
            raise UnsuitableError(f"resources.{resource}", f"no member has {amount} on one node; {limit}")
