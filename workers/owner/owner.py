"""The owner's decisions: commands in; journal entries, replies and offers out. No Redis, no Celery, no clock.

Within one instant of the cloud's time things happen in the order of PREDICTION.md: stops, own starts, spot
starts. A command that comes too late for its place in that order happens at the next representable instant,
so that the recorded history replays to exactly what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

import numpy as np

from broker.contract import (
    Acknowledge,
    Advert,
    Answer,
    Ask,
    Cancel,
    Command,
    Confirm,
    Done,
    Drain,
    Event,
    EventKind,
    Extend,
    Finish,
    Gone,
    Lease,
    LeaseGranted,
    LeaseState,
    Migrate,
    Overflow,
    QuoteView,
    RefusalView,
    Release,
    Reopen,
    Reply,
    Reserve,
    Show,
    StartAll,
    StartOnDemand,
    StopOnDemand,
    Tick,
)
from broker.views import quote_view, refusal_view
from cloudsim.cloud import Cloud
from cloudsim.eventlog import PHASE_ON_DEMAND, PHASE_SPOT, PHASE_STOP
from cloudsim.offers import SizeOffer, largest_admitted
from cloudsim.offers import other_sizes as offers_of
from cloudsim.requests import (
    Kind,
    Quote,
    Refusal,
    Request,
    Started,
)
from workers.owner import convert
from workers.owner.adverts import advertise, advertised_sizes
from workers.owner.answer_log import Lapsed
from workers.owner.drain import Draining
from workers.owner.event_writer import EventWriter, Outcome
from workers.owner.extensions import Extensions
from workers.owner.lease_changes import Endings
from workers.owner.on_demand import start_together
from workers.owner.passage import Passage
from workers.owner.renewals import first_lifetime_s
from workers.owner.state import OwnerSpec, State

if TYPE_CHECKING:
    from cloudsim.prediction.tables import QuantileTable


class Owner:
    """State machine of one cloud. ``epoch`` is the fence that its leases carry."""

    def __init__(self, spec: OwnerSpec, epoch: int = 0, state: State | None = None):
        self.spec, self.epoch = spec, epoch
        self.state = State(spec) if state is None else state
        self._first_seen_s: dict[str, float] = {}  # reservations, on the monotonic clock of this process
        self._sizes = advertised_sizes(self.cloud.inventory.largest_node)
        self._recorder = EventWriter(self.state, epoch)
        self._extensions = Extensions(self.state, self._recorder)
        self._draining = Draining(self.state, self._recorder)
        self._passage = Passage(self.state, self._recorder, self._extensions)
        self._endings = Endings(self.state, self._recorder, self._passage)

    @classmethod
    def recover(
        cls, spec: OwnerSpec, epoch: int, events: Iterable[Event], state: State | None = None
    ) -> Owner:
        """The owner after all that its journal holds, in order. ``state``: that of a snapshot, which the
        events follow."""
        owner = cls(spec, epoch, state)
        for event in events:
            owner.apply(event)
        return owner

    @property
    def cloud(self) -> Cloud:
        """The cloud itself."""
        return self.state.cloud

    def apply(self, event: Event) -> None:
        """Makes a journal entry true again."""
        self.state.apply(event)

    def validate(self) -> None:
        """Walks everything; for tests and after recovery."""
        self.state.validate()

    # -- commands --------------------------------------------------------------------------------------------

    def handle(self, command: Command, now_s: float, now: str) -> Outcome:
        """Carries out one command.

        now_s: the cloud's time; in trace time the command's own time counts instead. now: the same, RFC 3339.
        """
        self._recorder.begin(now)
        answer = self._answer(command, self._passage.time_of(command, now_s))
        if command.reply_to is not None:
            reply = Reply(command=command.id, answer=answer)
            self._recorder.outcome.replies.append((command.reply_to, reply))
        return self._recorder.outcome

    def _answer(self, command: Command, at_s: float) -> Answer:
        match command:
            case Ask():
                self._passage.advance(at_s)
                answer: Answer = self._quote(self._request(command), other_sizes=command.other_sizes)
            case Reserve():
                answer = self._reserve(command, at_s)
            case Confirm():
                self._passage.advance(at_s)
                answer = self._confirm(command)
            case Release():
                answer = self._endings.release(command.attempt, at_s)
            case Cancel():
                answer = self._endings.stop(command.lease, Kind.SPOT, at_s, command.by)
            case Acknowledge():
                answer = self._endings.acknowledge(command, at_s)
            case Gone():
                answer = self._endings.gone(command, at_s)
            case Extend():
                self._passage.advance(at_s)
                answer = self._extensions.extend(command)
            case Migrate():
                self._passage.advance(at_s)
                answer = self._extensions.offered(command)
            case _:
                answer = self._answer_own(command, at_s)
        return answer

    def _answer_own(
        self,
        command: StartOnDemand | StartAll | StopOnDemand | Show | Drain | Reopen | Overflow | Tick | Finish,
        at_s: float,
    ) -> Answer:
        """To what a cloud's own users and who runs it want."""
        match command:
            case StartOnDemand() | StartAll():
                return self._start_on_demand(command, at_s)
            case StopOnDemand():
                return self._stop_on_demand(command, at_s)
            case Show():
                self._passage.advance(at_s)
                return self._known_of(command) or Done(found=False)
            case Drain():
                # What leaves at once stops in the history, as if its user had stopped it.
                return self._draining.drain(command, self._passage.step(at_s, PHASE_STOP))
            case Reopen():
                self._passage.advance(at_s)
                return self._draining.reopen(command, self.cloud.now_s)
            case _:
                return self._answer_clock(command, at_s)

    def _answer_clock(self, command: Overflow | Tick | Finish, at_s: float) -> Answer:
        """To what happens by itself, here or elsewhere."""
        match command:
            case Overflow():
                self._passage.advance(at_s)
                return self._told_of_overflow(command)
            case Tick():
                self._passage.advance(at_s)
                return Done()
            case Finish():
                self._passage.finish()
                return Done()
            case _:
                assert_never(command)

    def advance(self, now_s: float, now: str) -> Outcome:
        """Lets everything happen that comes before the spot requests of ``now_s``."""
        self._recorder.begin(now)
        self._passage.advance(now_s)
        return self._recorder.outcome

    def expire(self, now_s: float, now: str, monotonic_s: float) -> Outcome:
        """Wall time: gives up reservations that nobody confirmed for ``reservation_ttl_s``, monotonic time.

        A reservation's time begins when this process first sees it here: a clock that jumps expires nothing,
        and after a restart the time begins anew.
        """
        self._recorder.begin(now)
        if self.spec.trace_time:
            return self._recorder.outcome
        seen = self._first_seen_s
        self._first_seen_s = {
            attempt: seen.get(attempt, monotonic_s) for attempt in self.state.book.reserved()
        }
        for attempt, first_seen_s in self._first_seen_s.items():
            if monotonic_s - first_seen_s > self.spec.reservation_ttl_s:
                self._endings.expire(attempt, max(now_s, self.cloud.now_s))
        return self._recorder.outcome

    def open(self, now_s: float, now: str) -> Outcome:
        """The first entry of an epoch: from here on the cloud's time goes on from ``now_s`` at ``now``."""
        self._recorder.begin(now)
        self._recorder.emit(EventKind.OPENED, now_s)
        return self._recorder.outcome

    # -- spot ------------------------------------------------------------------------------------------------

    def _quote(self, request: Request, *, other_sizes: bool) -> QuoteView | RefusalView:
        answer, cloud = self._considered(request, is_ask=True), self.cloud
        offers = offers_of(request, self._sizes_for(request), cloud.quote) if other_sizes else ()
        if isinstance(answer, Refusal):
            return self._refusal(request, answer, offers)
        return quote_view(answer, cloud.now_s, offers, cloud.spec.admission.mode)

    def _wish(self, wish: Ask | Reserve) -> Request:
        """Without a lifetime it is one for a renewal period."""
        lifetime_s = self.spec.renewal_s if wish.lifetime_s is None else wish.lifetime_s
        return Request(wish.request, Kind.SPOT, wish.cores, lifetime_s, wish.sla, wish.origin, **wish.needs)

    def _request(self, wish: Ask | Reserve) -> Request:
        """Without a lifetime: for as much of a renewal period as its SLA allows now."""
        request = self._wish(wish)
        if wish.lifetime_s is not None:
            return request
        return replace(request, lifetime_s=first_lifetime_s(self.cloud, request))

    def _refusal(self, request: Request, answer: Refusal, offers: Sequence[SizeOffer] = ()) -> RefusalView:
        """With the largest size that would be admitted instead."""
        return refusal_view(
            convert.explained(answer, request, self.cloud),
            cores=request.cores,
            cloud_time_s=self.cloud.now_s,
            smaller=largest_admitted(request, self._sizes_for(request), self.cloud.quote),
            other_sizes=offers,
        )

    def _sizes_for(self, request: Request) -> Sequence[int]:
        """Sizes that may be offered instead: those in the table where a promise is asked, else those that the
        cloud advertises."""
        table = self.cloud.table
        if not request.promised or self.cloud.spec.products.pools:
            return [size for size in self._sizes.tolist() if size <= self.cloud.inventory.largest_node]
        return table.sizes if table else ()

    def _reserve(self, command: Reserve, at_s: float) -> Answer:
        known = self.state.known(command.attempt, Kind.SPOT)
        if known is not None:
            return known
        at_s = self._passage.step(at_s, PHASE_SPOT)
        request = self._request(command)
        quote = self._considered(request, is_ask=False)
        if isinstance(quote, Refusal):
            refusal = self._refusal(request, quote)
            waits = self.cloud.contention.since(at_s, request.origin)
            self._recorder.emit(
                EventKind.DECLINED, at_s, attempt=command.attempt, refusal=refusal, waits=waits
            )
            return refusal
        # Its instance goes by the id of the attempt: one request may try several times.
        changes = self.cloud.admit(replace(request, id=command.attempt), at_s, quote)
        assert not isinstance(changes, Refusal), "it was told that it may"
        place = next(at for at, one in enumerate(changes) if isinstance(one, Started))
        displaced, started, waiting = changes[:place], changes[place], changes[place + 1 :]
        assert isinstance(started, Started)
        self._recorder.record(displaced)
        lease = self._recorder.lease_of(started.instance, LeaseState.RESERVED, request=request, quote=quote)
        if command.lifetime_s is None:
            lease = lease.model_copy(update={"renewal_s": self.spec.renewal_s})
        self._recorder.emit(EventKind.RESERVED, at_s, lease=lease)
        self._recorder.record(waiting)  # those who waited there may find enough room left by the displaced
        return LeaseGranted(lease=lease)

    def _considered(self, request: Request, *, is_ask: bool) -> Quote | Refusal:
        """Lets the cloud consider the request, once. In trace time every cloud is asked before one gets the
        reservation; in wall time a question may be curiosity, and a reservation is meant."""
        meant = is_ask == self.spec.trace_time
        return self.cloud.consider(request) if meant else self.cloud.quote(request)

    def _confirm(self, command: Confirm) -> Answer:
        entry = self.state.book.get(command.attempt)
        if isinstance(entry, Lapsed):
            self._recorder.told_late(entry.lease)
            return LeaseGranted(lease=entry.lease)
        if not isinstance(entry, Lease) or entry.kind is not Kind.SPOT:
            return Done(found=False)
        if entry.state is LeaseState.RESERVED:
            entry = entry.model_copy(update={"state": LeaseState.RUNNING})
            self._recorder.emit(EventKind.ADMITTED, self.cloud.now_s, lease=entry)
            if entry.evict_at_s is not None:  # its notice was not for everybody's ears yet
                cause = self.cloud.noticed_for[entry.id]
                self._recorder.emit(EventKind.NOTICED, self.cloud.now_s, lease=entry, cause=cause)
        return LeaseGranted(lease=entry)

    # -- own users -------------------------------------------------------------------------------------------

    def _start_on_demand(self, command: StartOnDemand | StartAll, at_s: float) -> Answer:
        if isinstance(command, StartAll):
            return start_together(self.state, self._recorder, self._passage, command, at_s)
        known = self.state.known(command.instance, Kind.ON_DEMAND)
        if known is not None:
            return known
        at_s = self._passage.step(at_s, PHASE_ON_DEMAND)
        request = Request(
            command.instance,
            Kind.ON_DEMAND,
            command.cores,
            command.lifetime_s,
            origin=command.origin or self.spec.cloud.id,
            **command.needs,
        )
        # What others want to buy here is not for the federation to take: it could have had it there.
        self._recorder.record(self.cloud.start_on_demand(request, at_s), offers=command.origin is None)
        answer = self.state.known(command.instance, Kind.ON_DEMAND)
        assert answer is not None
        return answer

    def _known_of(self, command: Show | StopOnDemand) -> Answer | None:
        """What is known of an instance, unless it is of another origin than the command is about."""
        known = self.state.known(command.instance, Kind.ON_DEMAND)
        others = isinstance(known, LeaseGranted) and command.origin not in (None, known.lease.origin)
        return None if others else known

    def _stop_on_demand(self, command: StopOnDemand, at_s: float) -> Answer:
        if self.state.known(command.instance, Kind.ON_DEMAND) is not None and self._known_of(command) is None:
            return Done(found=False)
        offer = self.state.offers.stopped(command.instance)
        if offer is not None:
            self._passage.advance(at_s)
            self._recorder.emit_overflow(offer)
        if isinstance(self.state.book.get(command.instance), RefusalView):
            return Done()  # it does not run, neither here nor, from now on, elsewhere
        return self._endings.stop(command.instance, Kind.ON_DEMAND, at_s, "stopped")

    def _told_of_overflow(self, command: Overflow) -> Answer:
        offer = self.state.offers.told(command, self.cloud.now_s)
        if offer is not None:
            self._recorder.emit_overflow(offer)
        return Done(found=offer is not None)

    # -- tables ----------------------------------------------------------------------------------------------

    def table_due(self, command: Command) -> float | None:
        """Trace time: the refresh boundary whose table this command must meet and that is not there yet."""
        if not self.spec.trace_time or not isinstance(command, Ask | Reserve | Extend):
            return None
        if isinstance(command, Extend):
            instance = self.cloud.inventory.get(command.lease)
            promised = instance is not None and instance.promised
            return self.cloud.table_due_s(self._passage.time_of(command, 0.0)) if promised else None
        if isinstance(command, Reserve) and self.state.known(command.attempt, Kind.SPOT) is not None:
            return None
        if not self.cloud.needs_table(self._wish(command)):
            return None
        return self.cloud.table_due_s(self._passage.time_of(command, 0.0))

    def adopt(self, table: QuantileTable, now: str) -> Outcome:
        """A new table is in use, as far as the cloud discloses it."""
        self._recorder.begin(now)
        self.cloud.table = table
        told = self.cloud.table
        assert told is not None
        self._sizes = np.union1d(self._sizes, np.array(told.sizes, dtype=np.int64))
        self._recorder.emit(
            EventKind.TABLE,
            self.cloud.now_s,
            table_version=told.version,
            table_made_at_s=told.made_at_s,
        )
        return self._recorder.outcome

    def advert(self, now: str) -> Advert:
        """What the cloud says of itself."""
        return advertise(self.state, self.epoch, self._sizes, now)
