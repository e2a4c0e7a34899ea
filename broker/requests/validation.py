"""What a request may ask of the federation, how it is put to an owner, what can become of it: values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from broker.contract import (
    Answer,
    Ask,
    CounterOffers,
    Lease,
    LeaseGranted,
    LeaseState,
    RefusalView,
    SpotRequest,
)
from broker.identity.models import MemberRecord
from broker.requests.models import attempt_id
from broker.requests.quota import QuotaHold
from broker.requests.routing import Member, targets_of
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.reserved_ids import RESERVED

LONGEST_REQUEST_ID = 120  # the number of an attempt is appended, and the whole is an Id
BROKER = "broker"  # in the place of a cloud, where the broker itself refuses
_NONE = "null}"
_NO_CORES = f'"cores":{_NONE}'  # the end of counter-offers, where there is none of a smaller size
_HELD = frozenset({LeaseState.RESERVED, LeaseState.RUNNING})


class Settled(BaseModel):
    """The answer to a request, as it is stored and sent: a lease or none, and who refused."""

    lease: Lease | None
    refusals: list[RefusalView]


class SubmitError(Exception):
    """Base of what can become of a request beside an answer.

    SubmitError
    ├── InFlightError       another call with this id has not been answered yet
    ├── ReusedError         the id was used with another body
    ├── UnsuitableError     the request does not suit the federation; names the field
    ├── SilentError         trace time: an owner that must be waited for did not answer
    ├── SetAsideError       an owner broke over the command and has put it aside
    └── NoMembersError      no cloud has joined the federation
    """


class InFlightError(SubmitError):
    """Another call with this id has not been answered yet."""


class ReusedError(SubmitError):
    """The id was used with another body."""


class UnsuitableError(SubmitError):
    """The request does not suit the federation. ``field`` is the one to change."""

    def __init__(self, name: str, message: str):
        self.field = name
        super().__init__(message)


class SilentError(SubmitError):
    """Trace time: an owner that must be waited for did not answer."""

    def __init__(self, clouds: Sequence[str]):
        self.clouds = ", ".join(clouds)
        super().__init__(f"no answer from {self.clouds}")


class SetAsideError(SubmitError):
    """An owner broke over a command: it is a dead letter now, and not carried out."""

    def __init__(self, cloud: str):
        self.cloud = cloud
        super().__init__(f"the owner of {cloud} has set the command aside")


class NoMembersError(SubmitError):
    """No cloud has joined the federation."""


@dataclass
class OpenRequest:
    """A request on its way. ``candidates``: clouds still to be asked, best first; None: not known yet."""

    id: str
    request: SpotRequest
    targets: list[Member]
    trace_time: bool
    deadline_s: float  # for an owner's answer
    candidates: list[str] | None = None
    attempts: int = 0
    asked: dict[str, RefusalView] = field(default_factory=dict)  # refusals of clouds that were asked
    passed_over: list[RefusalView] = field(default_factory=list)

    @property
    def command(self) -> str:
        """Id of the present attempt's Reserve."""
        return f"{attempt_id(self.id, self.attempts)}:reserve"

    def heard(self, cloud: str, answer: Answer | None) -> Settled | None:
        """What follows from a cloud's answer to the present attempt, or its silence; None: on to the next."""
        if isinstance(answer, LeaseGranted) and answer.lease.state in _HELD:
            # Once this is decided it runs, whether or not the owner has read so.
            return self.settled(answer.lease.model_copy(update={"state": LeaseState.RUNNING}))
        if isinstance(answer, RefusalView):
            self.refused_by(answer)
        elif isinstance(answer, LeaseGranted):
            detail = f"it was {answer.lease.state} before the broker could decide for it"
            self.refused_by(RefusalView(cloud=cloud, reason=RefusalReason.ENDED, detail=detail))
        else:
            detail = "did not answer in time" if answer is None else "gave the attempt up meanwhile"
            self.refused_by(RefusalView(cloud=cloud, reason=RefusalReason.UNREACHABLE, detail=detail))
        return None

    def refused_by(self, refusal: RefusalView) -> None:
        """Each cloud counts once, however often it was asked."""
        self.asked.setdefault(refusal.cloud, annotated(refusal, self.targets, self.request.sla))

    def settled(self, lease: Lease | None = None) -> Settled:
        """The answer. That a cloud was no target is worth telling only to those who got nothing."""
        others = [
            one for one in self.passed_over if lease is None or one.reason is not RefusalReason.NOT_A_TARGET
        ]
        return Settled(lease=lease, refusals=[*self.asked.values(), *others])


def annotated(refusal: RefusalView, targets: Sequence[Member], sla: float | None) -> RefusalView:
    """A refusal with what is known of the cloud's promises at this SLA."""
    broken = (one.broken_at(sla) for one in targets if one.info.id == refusal.cloud)
    return refusal.model_copy(update={"broken_promise": next(broken, None)})


def check_id(request_id: str, members: Sequence[Member]) -> None:
    """Raises NoMembersError or UnsuitableError for a request that cannot go by this id."""
    if not members:
        raise NoMembersError
    if len(request_id) > LONGEST_REQUEST_ID:
        raise UnsuitableError("id", f"longer than {LONGEST_REQUEST_ID} characters")
    cloud, slash, rest = request_id.partition("/")
    if slash and rest.startswith(RESERVED) and any(cloud == member.info.id for member in members):
        raise UnsuitableError("id", "ids of the form <cloud>/own-... belong to the load of that cloud")


def admissible(request: SpotRequest, members: Sequence[Member]) -> tuple[list[Member], bool]:
    """The request's targets in cloud order, and whether they run in trace time.

    Raises NoMembersError, UnsuitableError, or routing.UnknownTargetError.
    """
    check_id(request.id or "", members)
    targets = targets_of(request, members)
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
    elif not trace_time and request.lifetime_s <= 0:
        raise UnsuitableError("lifetime_s", "must be more than 0")
    if not trace_time:  # there every target is asked, and says so itself
        _check_resources(request, members)
    return targets, trace_time


def _check_resources(request: SpotRequest, members: Sequence[Member]) -> None:
    """Raises UnsuitableError for what no member has on one node."""
    if not all(member.info.node_kinds for member in members):
        return  # somebody does not tell
    for resource, amount in request.resources.items():
        most = max(member.info.most(resource) for member in members)
        if amount > most:
            has = f"at most {most}" if most else "none of it"
            raise UnsuitableError(f"resources.{resource}", f"no member has so much on one node, but {has}")


@dataclass(frozen=True, slots=True)
class Holding:
    """What a member holds of its cap on spot."""

    member: MemberRecord
    cores: int
    instances: int

    def refusal(self, request: SpotRequest) -> RefusalView | None:
        """The answer to a request that is more than is left, as ``accept.lua`` decides; None: it is not."""
        most, instances = self.member.spot_cores, self.member.spot_instances
        if instances is not None and self.instances >= instances:
            return _over_cap(request, self.member, None)
        if most is not None and self.cores + request.cores > most:
            return _over_cap(request, self.member, max(most - self.cores, 0) or None)
        return None


def _over_cap(request: SpotRequest, member: MemberRecord, left: int | None) -> RefusalView:
    """``left``: the largest size that would do; None: there is none."""
    return RefusalView(
        cloud=BROKER,
        reason=RefusalReason.QUOTA_EXCEEDED,
        cores=request.cores,
        counter_offers=CounterOffers(cores=left),
        detail=f"{member.name} may hold at most {_most(member)} of spot at once, on all clouds together",
    )


def hold_of(request: SpotRequest, member: MemberRecord) -> QuotaHold:
    """What a request takes of its member's cap, and the answer when that is more than is left."""
    refusal = _over_cap(request, member, None)
    before, largest, after = Settled(lease=None, refusals=[refusal]).model_dump_json().partition(_NO_CORES)
    assert largest, "a counter-offer has a size"
    head = f"{before}{_NO_CORES.removesuffix(_NONE)}"
    return QuotaHold(
        member.name, request.cores, member.spot_cores, member.spot_instances, (head, f"}}{after}")
    )


def _most(member: MemberRecord) -> str:
    caps = ((member.spot_cores, "cores"), (member.spot_instances, "instances"))
    return " and ".join(f"{most} {what}" for most, what in caps if most is not None) or "any amount"


def ask_command(command_id: str, request: SpotRequest, reply_to: str, *, other_sizes: bool = False) -> Ask:
    """The question for a quote; ``other_sizes``: and for what would be promised of other sizes."""
    assert request.id is not None
    return Ask(
        id=command_id,
        reply_to=reply_to,
        at_s=request.at_s,
        request=request.id,
        origin=request.origin,
        cores=request.cores,
        lifetime_s=request.lifetime_s,
        sla=request.sla,
        other_sizes=other_sizes,
        **request.told_needs(),
    )
