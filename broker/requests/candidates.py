"""What the members say to the requests of one call: worked out once for all that want the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from broker.contract import RefusalView, SpotRequest
from broker.contract.convert import to_refusal_view
from broker.requests.open_request import add_broken_promise
from broker.requests.routing import CandidateSet, Member, ReservedRoom, find_candidates, find_smaller_size
from broker.requests.validation import check_id, check_request
from cloudsim.model.refusals import Refusal


@dataclass(frozen=True, slots=True)
class MemberEvaluation:
    """Of requests that want the same. ``survey`` None: trace time, where every target is asked.

    ``passed_over``: the refusals of those who are not asked.
    """

    targets: list[Member]
    trace_time: bool
    find_candidates: CandidateSet | None = None
    passed_over: list[RefusalView] = field(default_factory=list)


class MemberEvaluator:
    """Of the requests of one call. ``booked``: where those were sent that were looked at before."""

    def __init__(self, members: Sequence[Member]):
        self.booked = ReservedRoom()
        self._members = members
        self._known: dict[Hashable, MemberEvaluation] = {}

    def of(self, request: SpotRequest) -> MemberEvaluation:
        """Raises SubmitError or ValueError for what this federation cannot be asked."""
        check_id(request.id or "", self._members)
        wish = _wish(request)
        known = self._known.get(wish)
        if known is None:
            known = self._known[wish] = self._look(request)
        return known

    def _look(self, request: SpotRequest) -> MemberEvaluation:
        targets, trace_time = check_request(request, self._members)
        if trace_time:
            return MemberEvaluation(targets, trace_time)
        found = find_candidates(request, self._members)
        by_cloud = {member.info.id: member for member in targets}
        passed_over = [
            add_broken_promise(
                to_refusal_view(refusal, cores=request.cores, smaller=_smaller(request, by_cloud, refusal)),
                targets,
                request.sla,
            )
            for refusal in found.passed_over
        ]
        return MemberEvaluation(targets, trace_time, found, passed_over)


def _wish(request: SpotRequest) -> Hashable:
    """All of a request but its id."""
    return tuple(
        [
            tuple(value.items()) if isinstance(value, dict) else value
            for name, value in vars(request).items()
            if name != "id"
        ]
    )


def _smaller(request: SpotRequest, targets: Mapping[str, Member], refusal: Refusal) -> int | None:
    member = targets.get(refusal.cloud)
    return None if member is None else find_smaller_size(request, member)
