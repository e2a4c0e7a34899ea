"""The evaluation of all members for requests, made once for those with equal requirements."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field

from broker.contract import RefusalView, SpotRequest
from broker.contract.convert import to_refusal_view
from broker.requests.routing import CandidateSet, Member, MemberFits, find_smaller_sizes
from broker.requests.validation import check_id, check_request
from cloudsim.model.refusals import Refusal, RefusalReason


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


@dataclass(frozen=True)
class _Shape:
    """The evaluation for requests of one size, needs and SLA, whose lifetimes and targets may differ.

    Attributes
    ----------
    views:
        The refusals that have nothing of a lifetime, as messages, by cloud, reason and smaller size.
    smaller:
        What ``find_smaller_sizes`` found, by cloud.
    """

    fits: MemberFits
    views: dict[tuple[str, RefusalReason, int | None], RefusalView] = field(default_factory=dict)
    smaller: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def to_view(self, request: SpotRequest, refusal: Refusal, target: Member | None) -> RefusalView:
        """Return a refusal as a message; ``target``: its cloud, if the request may be sent there."""
        smaller = None if target is None else self._find_smaller_size(request, target)
        key = refusal.cloud, refusal.reason, smaller
        view = None if refusal.table_version else self.views.get(key)
        if view is None:
            broken = None if target is None else target.broken_at(request.sla)
            view = to_refusal_view(refusal, cores=request.cores, smaller=smaller, broken_promise=broken)
            if not refusal.table_version:
                self.views[key] = view
        return view

    def _find_smaller_size(self, request: SpotRequest, target: Member) -> int | None:
        cloud, lifetime_s = target.info.id, request.lifetime_s or 0.0
        sizes = self.smaller.get(cloud)
        if sizes is None:
            sizes = self.smaller[cloud] = find_smaller_sizes(request, target)
        for cores, longest_s in sizes:
            if lifetime_s <= longest_s:
                return cores
        return None


class MemberEvaluator:
    """Evaluates members, as one look at their adverts showed them, once for all equal requests."""

    def __init__(self, members: Sequence[Member]):
        self.members = members
        self._evaluations: dict[Hashable, MemberEvaluation] = {}
        self._shapes: dict[Hashable, _Shape] = {}

    def evaluate(self, request: SpotRequest) -> MemberEvaluation:
        """Evaluate the members for a request, or return the evaluation for an equal one.

        Raises
        ------
        SubmitError, ValueError
            When this federation cannot be asked for this.
        """
        check_id(request.id or "", self.members)
        requirements = _fields_of(request, _NOT_REQUIRED)
        evaluation = self._evaluations.get(requirements)
        if evaluation is None:
            evaluation = self._evaluations[requirements] = self._evaluate(request)
        return evaluation

    def _evaluate(self, request: SpotRequest) -> MemberEvaluation:
        targets, trace_time = check_request(request, self.members)
        if trace_time:
            return MemberEvaluation(targets, trace_time)
        shape = _fields_of(request, _NOT_OF_SHAPE)
        key = _fields_of(request, _NOT_OF_SHAPE)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _Shape(MemberFits(request, self.members))
        candidates = shape.fits.find_candidates(request, targets)
        by_cloud = {member.info.id: member for member in targets} if candidates.passed_over else {}
        passed_over = [
            shape.to_view(request, refusal, by_cloud.get(refusal.cloud)) for refusal in candidates.passed_over
        ]
        return MemberEvaluation(targets, trace_time, candidates, passed_over)


#: Only owners judge the launch.
_NOT_REQUIRED = frozenset({"id", "launch"})
_NOT_OF_SHAPE = _NOT_REQUIRED | {"origin", "targets", "lifetime_s", "least_s", "at_s"}


def _fields_of(request: SpotRequest, without: Container[str]) -> Hashable:
    return tuple(
        [
            tuple(value.items()) if isinstance(value, dict) else value
            for name, value in vars(request).items()
            if name not in without
        ]
    )
