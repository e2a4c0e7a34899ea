"""A request on its way: which clouds are still to be asked, and what those that were asked answered."""

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
    """A request that is not decided yet.

    Attributes
    ----------
    deadline_s:
        How long to wait for an owner's answer, in seconds.
    candidates:
        The clouds still to be asked, best first; None as long as they are not known.
    attempts:
        The number of the present attempt; 0 before the first.
    refusals:
        The refusals of clouds that were asked, by cloud.
    passed_over:
        The refusals on behalf of clouds that are not asked.
    together:
        Whether it is of a list of which all are admitted, or none is.
    held:
        The cloud that holds a lease for the present attempt, and the answer with that lease, of a request
        that waits for the others of its list.
    """

    id: str
    request: SpotRequest
    targets: list[Member]
    trace_time: bool
    deadline_s: float
    candidates: list[str] | None = None
    attempts: int = 0
    refusals: dict[str, RefusalView] = field(default_factory=dict)
    passed_over: list[RefusalView] = field(default_factory=list)
    together: bool = False
    held: tuple[str, RequestAnswer] | None = None

    @property
    def command(self) -> str:
        """The id of the present attempt's ``Reserve``."""
        return f"{format_attempt_id(self.id, self.attempts)}:reserve"

    def conclude(self, cloud: str, answer: Answer | None) -> RequestAnswer | None:
        """Take a cloud's answer to the present attempt; None stands for its silence.

        Returns
        -------
        RequestAnswer or None
            The answer to the request if the cloud holds a lease for it; None if the next cloud is to be
            asked.
        """
        if isinstance(answer, LeaseGranted) and answer.lease.state.is_open:
            # Once this is decided it runs, whether or not the owner has read so.
            return self.make_answer(answer.lease.model_copy(update={"state": LeaseState.RUNNING}))
        if isinstance(answer, RefusalView):
            self.add_refusal(answer)
        elif isinstance(answer, LeaseGranted):
            detail = f"it was {answer.lease.state} before the broker could decide for it"
            self.add_refusal(RefusalView(cloud=cloud, reason=RefusalReason.ENDED, detail=detail))
        else:
            detail = "did not answer in time" if answer is None else "gave the attempt up meanwhile"
            self.add_refusal(RefusalView(cloud=cloud, reason=RefusalReason.UNREACHABLE, detail=detail))
        return None

    def add_refusal(self, refusal: RefusalView) -> None:
        """Note the refusal of a cloud that was asked; only its first one counts."""
        self.refusals.setdefault(refusal.cloud, add_broken_promise(refusal, self.targets, self.request.sla))

    def make_answer(self, lease: Lease | None = None) -> RequestAnswer:
        """Return the answer with this lease, or with none.

        Clouds that were no targets are listed only where there is no lease.
        """
        passed_over = [
            refusal
            for refusal in self.passed_over
            if lease is None or refusal.reason is not RefusalReason.NOT_A_TARGET
        ]
        return RequestAnswer(lease=lease, refusals=[*self.refusals.values(), *passed_over])


def add_broken_promise(refusal: RefusalView, targets: Sequence[Member], sla: float | None) -> RefusalView:
    """Return a refusal with the evidence that its cloud breaks promises at this SLA, if there is any."""
    broken = (member.broken_at(sla) for member in targets if member.info.id == refusal.cloud)
    return refusal.model_copy(update={"broken_promise": next(broken, None)})


def make_ask(command_id: str, request: SpotRequest, reply_to: str, *, other_sizes: bool = False) -> Ask:
    """Return the command that asks for a quote; ``other_sizes`` asks for quotes of other sizes too."""
    return Ask(id=command_id, reply_to=reply_to, other_sizes=other_sizes, **request.dump_terms())
