"""Offer to the federation what the cloud's own users could not place, and tell them where it went.

A request that failed is a server of its user, which holds nothing. As long as it is listed, the offer or the
lease elsewhere stands; the user ends both by deleting it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from broker.contract import (
    Answer,
    Command,
    LeaseGranted,
    OverflowState,
    OverflowTerms,
    RefusalView,
    Show,
    StartOnDemand,
    StopOnDemand,
)
from broker.contract.instances import InstanceRecord
from cloudsim.model.refusals import RefusalReason
from cloudsim.model.reserved_ids import FREED, FREED_S
from workers.cloud_agent.background_calls import BackgroundCalls, FinishedCall
from workers.cloud_agent.drivers.base import CloudInstance, RefusedError
from workers.cloud_agent.instance_history import freed_id
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.owner_client import OwnerClient
from workers.cloud_agent.reconcile import Absence

#: Seconds between two looks at what has become of an offer, and between two tries of a call that failed.
LOOK_S = 5.0
_ANSWER_S = 5.0
#: The end of the id of an offer in the owner's books. The room that could not be freed has the id without it.
_OFFERED = ".offered"
#: The kinds of this module's calls: those to the cloud, and those to the owner.
CLOUD_CALLS, OWNER_CALLS = (
    ("overflow_terms", "overflow_told"),
    ("overflow_offer", "overflow_look", "overflow_stop"),
)

log = structlog.get_logger(__name__)


class OverflowDriver(Protocol):
    """Reads what an own user's failed request asks for, and writes where it went. Raises InstanceError."""

    def read_overflow(self, own_id: str) -> OverflowTerms | None:
        """Return what the request asks of other clouds, None if its user does not want it there.

        Raises
        ------
        RefusedError
            When it cannot be said so that other clouds understand it.
        """

    def tell_user(self, own_id: str, text: str) -> None:
        """Write a text where the user sees it, instead of the one written before."""


@dataclass
class OverflowedRequest:
    """A failed request that is offered to the federation.

    terms: what is offered; None until it is read, or once the owner knows it. state: how the offer stood when
    it was last looked at. is_offered: the owner has been told. is_over: nothing is left to do but to tell the
    user. told: the text that the user sees. due_s: the earliest next step.
    """

    record: InstanceRecord
    terms: OverflowTerms | None = None
    state: OverflowState | None = None
    is_offered: bool = False
    is_over: bool = False
    told: str | None = None
    missing: Absence | None = None
    due_s: float = float("-inf")

    @property
    def own_id(self) -> str:
        """The id of the failed server at its cloud."""
        assert self.record.own_id is not None
        return self.record.own_id

    @property
    def offer_id(self) -> str:
        """The id of the offer in the owner's books."""
        assert self.record.on_demand is not None
        return self.record.on_demand

    @property
    def text(self) -> str:
        """The news of the request, for its user."""
        state = self.state
        if self.is_over:
            return "no other cloud has it any more" if state and state.lease else "no other cloud takes it"
        if state is None or state.state == "offered":
            return "offered to other clouds"
        return f"runs on {state.cloud} as lease {state.lease}"


class OverflowRequests:
    """Carries the failed requests of one cloud's users to the federation and back."""

    def __init__(
        self,
        cloud: str,
        driver: OverflowDriver | None,
        leases: CloudLeases,
        owner: OwnerClient,
        calls: BackgroundCalls,
        now_s: Callable[[], float],
    ):
        """Offer nothing yet, and never anything if ``driver`` is None."""
        self._cloud, self._driver, self._leases, self._owner = cloud, driver, leases, owner
        self._calls, self._now_s = calls, now_s
        self._requests: dict[str, OverflowedRequest] = {}

    def take_up(self, record: InstanceRecord) -> bool:
        """Go on with what the agent before this one recorded; False if the record is of something else."""
        is_offer = (record.on_demand or "").startswith(f"{self._cloud}/{FREED}")
        if self._driver is None or not is_offer:
            return False
        request = OverflowedRequest(record, is_offered=True)
        self._requests[request.own_id] = request
        return True

    def note_refused(self, own_id: str, instance: CloudInstance, cores: int, refusal: RefusalView) -> None:
        """Note that the owner can free no room for a request."""
        is_new = refusal.reason is RefusalReason.NO_CAPACITY and own_id not in self._requests
        if self._driver is None or not is_new:
            return
        offer_id = f"{freed_id(self._cloud, own_id)}{_OFFERED}"
        record = InstanceRecord(
            lease=None, own_id=own_id, state="ended", since=time.time(), size=instance.size, cores=cores,
            on_demand=offer_id,
        )  # fmt: skip
        self._requests[own_id] = OverflowedRequest(record)

    def note_listing(self, listed: Iterable[str], now_s: float, limit_s: float) -> None:
        """Note which instances the cloud lists: a request that is gone was given up by its user."""
        listed = set(listed)
        for own_id, request in self._requests.items():
            if own_id in listed:
                request.missing = None
            elif request.missing is None or not request.missing.is_gone(limit_s):
                missing = request.missing
                request.missing = missing.extended(now_s) if missing else Absence(now_s, now_s)

    def step(self, limit_s: float) -> None:
        """Begin the calls that are due."""
        now_s = self._now_s()
        for own_id, request in list(self._requests.items()):
            if now_s >= request.due_s and not self._calls.is_busy(own_id):
                self._begin(request, now_s, limit_s)

    def note_result(self, finished: FinishedCall) -> None:
        """Note the result of a call of this module."""
        request = self._requests.get(finished.about)
        if request is None:
            return
        if finished.error is not None:
            log.warning("an own user's request is stuck", instance=finished.about, why=str(finished.error))
            if isinstance(finished.error, RefusedError):
                self._drop(request)
            return
        match finished.kind:
            case "overflow_terms" if finished.result is None:
                self._drop(request)
            case "overflow_terms":
                request.terms, request.due_s = finished.result, float("-inf")
            case "overflow_told":
                request.told = request.text
                if request.is_over:
                    self._drop(request)
            case "overflow_stop" if finished.result is not None:
                log.info("an own user gave an overflowed request up", instance=finished.about)
                self._drop(request)
            case "overflow_offer" | "overflow_look" if finished.result is not None:
                self._note_answer(request, finished.result)

    def _note_answer(self, request: OverflowedRequest, answer: Answer) -> None:
        if not isinstance(answer, RefusalView):
            # There is room for it by now, or the owner has not heard of it: the agent before this one was
            # killed before it said so.
            request.is_offered, request.terms = False, None
            if isinstance(answer, LeaseGranted):
                self._drop(request)
            return
        if not request.is_offered:  # the first answer is older than the offer
            request.is_offered, request.due_s = True, float("-inf")
            log.warning("an own user's request is offered to the federation", instance=request.own_id)
            return
        offered = answer.overflow
        if offered is None:
            request.is_over = True
        elif (offered.state, offered.lease) != (request.state and (request.state.state, request.state.lease)):
            log.info(
                "an overflowed request", instance=request.own_id, state=offered.state, cloud=offered.cloud
            )
        request.state = offered or request.state
        if request.text != request.told:
            request.due_s = float("-inf")

    def _begin(self, request: OverflowedRequest, now_s: float, limit_s: float) -> None:
        own_id, ask = request.own_id, partial(self._ask, request.own_id)
        target = {"reply_to": self._owner.reply_to, "instance": request.offer_id}
        request.due_s = now_s + LOOK_S
        if request.missing is not None and request.missing.is_gone(limit_s):
            ask("overflow_stop", StopOnDemand(id=f"{request.offer_id}:stop", **target))
        elif request.missing is not None:
            return  # it may have been given up
        elif not request.is_offered and request.terms is None:
            self._calls.begin("overflow_terms", own_id, partial(self._read_terms, own_id))
        elif not request.is_offered:
            # Recorded before the owner is told: the next agent must know that there may be an offer.
            self._leases.write_record(request.offer_id, request.record)
            command = StartOnDemand(
                id=f"{request.offer_id}:start", cores=request.record.cores, lifetime_s=FREED_S,
                overflow=request.terms, **target,
            )  # fmt: skip
            ask("overflow_offer", command)
        elif request.text != request.told and (request.state is not None or request.is_over):
            assert self._driver is not None
            tell = partial(self._driver.tell_user, own_id, request.text)
            self._calls.begin("overflow_told", own_id, tell)
            self._leases.write_record(
                request.offer_id, request.record.model_copy(update={"why": request.text})
            )
        else:
            ask("overflow_look", Show(id=f"{request.offer_id}:look:{time.time():.3f}", **target))

    def _read_terms(self, own_id: str) -> OverflowTerms | None:
        assert self._driver is not None
        terms = self._driver.read_overflow(own_id)
        if terms is None or terms.launch is None:
            return terms
        return terms.model_copy(update={"launch": self._leases.seal_launch(terms.launch, terms.lifetime_s)})

    def _ask(self, own_id: str, kind: str, command: Command) -> None:
        self._calls.begin(kind, own_id, lambda: self._owner.ask([command], _ANSWER_S).get(command.id))

    def _drop(self, request: OverflowedRequest) -> None:
        self._leases.drop_record(request.offer_id)
        del self._requests[request.own_id]
