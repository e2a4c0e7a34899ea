"""The evaluation of all members for requests, made once for those with equal requirements."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from broker.contract import RefusalView, SpotRequest
from broker.contract.convert import to_refusal_view
from broker.requests.open_request import add_broken_promise
from broker.requests.routing import CandidateSet, Member, find_candidates, find_smaller_size
from broker.requests.validation import check_id, check_request
from cloudsim.model.refusals import Refusal


@dataclass(frozen=True, slots=True)
class MemberEvaluation:
    """The result for requests with equal requirements.

    Attributes
    ----------
    targets:
        The members that these requests may be sent to, in cloud order.
    trace_time:
        True if they live in trace time; then every target is asked and ``candidates`` is None.
    candidates:
        The targets that may admit it, as far as their adverts tell.
    passed_over:
        The refusals on behalf of the members that are not asked.
    """

    targets: list[Member]
    trace_time: bool
    candidates: CandidateSet | None = None
    passed_over: list[RefusalView] = field(default_factory=list)


class MemberEvaluator:
    """Evaluates members, as one look at their adverts showed them, once for all equal requests."""

    def __init__(self, members: Sequence[Member]):
        self.members = members
        self._evaluations: dict[Hashable, MemberEvaluation] = {}

    def evaluate(self, request: SpotRequest) -> MemberEvaluation:
        """Evaluate the members for a request, or return the evaluation for an equal one.

        Raises
        ------
        SubmitError, ValueError
            When this federation cannot be asked for this.
        """
        check_id(request.id or "", self.members)
        requirements = _requirements_of(request)
        evaluation = self._evaluations.get(requirements)
        if evaluation is None:
            evaluation = self._evaluations[requirements] = self._evaluate(request)
        return evaluation

    def _evaluate(self, request: SpotRequest) -> MemberEvaluation:
        targets, trace_time = check_request(request, self.members)
        if trace_time:
            return MemberEvaluation(targets, trace_time)
        candidates = find_candidates(request, self.members)
        by_cloud = {member.info.id: member for member in targets}
        passed_over = [
            add_broken_promise(
                to_refusal_view(
                    refusal, cores=request.cores, smaller=_smaller_size(request, by_cloud, refusal)
                ),
                targets,
                request.sla,
            )
            for refusal in candidates.passed_over
        ]
        return MemberEvaluation(targets, trace_time, candidates, passed_over)


def _requirements_of(request: SpotRequest) -> Hashable:
    """Return all fields of a request but its id and its launch, which only owners judge."""
    return tuple(
        [
            tuple(value.items()) if isinstance(value, dict) else value
            for name, value in vars(request).items()
            if name not in ("id", "launch")
        ]
    )


def _smaller_size(request: SpotRequest, targets: Mapping[str, Member], refusal: Refusal) -> int | None:
    member = targets.get(refusal.cloud)
    return None if member is None else find_smaller_size(request, member)
