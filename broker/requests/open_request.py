"""What a request may ask of the federation, how it is put to an owner, what can become of it: values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.contract import Answer, Ask, Lease, LeaseGranted, LeaseState, RefusalView, SpotRequest
from broker.contract.leases import format_attempt_id
from broker.requests.models import RequestAnswer
from broker.requests.routing import Member
from cloudsim.model.refusals import RefusalReason


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
        return f"{format_attempt_id(self.id, self.attempts)}:reserve"

    def heard(self, cloud: str, answer: Answer | None) -> RequestAnswer | None:
        """What follows from a cloud's answer to the present attempt, or its silence; None: on to the next."""
        if isinstance(answer, LeaseGranted) and answer.lease.state.is_open:
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
        self.asked.setdefault(refusal.cloud, add_broken_promise(refusal, self.targets, self.request.sla))

    def settled(self, lease: Lease | None = None) -> RequestAnswer:
        """The answer. That a cloud was no target is worth telling only to those who got nothing."""
        others = [
            one for one in self.passed_over if lease is None or one.reason is not RefusalReason.NOT_A_TARGET
        ]
        return RequestAnswer(lease=lease, refusals=[*self.asked.values(), *others])


def add_broken_promise(refusal: RefusalView, targets: Sequence[Member], sla: float | None) -> RefusalView:
    """A refusal with what is known of the cloud's promises at this SLA."""
    broken = (one.broken_at(sla) for one in targets if one.info.id == refusal.cloud)
    return refusal.model_copy(update={"broken_promise": next(broken, None)})


def make_ask(command_id: str, request: SpotRequest, reply_to: str, *, other_sizes: bool = False) -> Ask:
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
        **request.dump_needs(),
    )
