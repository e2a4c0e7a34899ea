"""The decisions of a cloud's owner: commands in; journal entries, replies and offers out. Pure.

``Owner`` finds the handler of a command in one table, by the command's type. Handlers of spot requests are
here; the others are in ``lease_changes``, ``on_demand`` and ``drain``. How time passes before a command is in
``clock``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
    ListSold,
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
from broker.contract.convert import to_quote_view, to_refusal_view
from broker.contract.launch import Launch
from cloudsim.admission.counter_offers import AdmissibleSize, largest_admitted, other_sizes
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.renewals import LEAST, first_request
from cloudsim.history.event_log import PHASE_SPOT, PHASE_STOP
from cloudsim.model.changes import Started
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from workers.owner import clock, convert, drain, lease_changes, nodes, on_demand
from workers.owner.adverts import advertise, advertised_sizes
from workers.owner.answer_log import Lapsed
from workers.owner.catalogue import NoFlavour
from workers.owner.event_writer import Decisions, EventWriter
from workers.owner.state import ORDERS_KEPT, OwnerSpec, OwnerState

if TYPE_CHECKING:
    from cloudsim.prediction.tables import QuantileTable


class Handler(NamedTuple):
    """Carries out one type of command for an owner.

    act: decides about a command at a time of the cloud, in seconds. recall: returns the answer that the same
    command has got before, or None; a repeated command changes nothing, and no time passes for it.
    in_memory: answers are kept by the command's id in this process, for the answer log does not hold them.
    """

    act: Callable[[Any, float], Answer]
    recall: Callable[[Any], Answer | None] | None = None
    in_memory: bool = False


class Owner:
    """The state machine of one cloud. ``epoch`` is the fence that its leases carry."""

    def __init__(self, spec: OwnerSpec, epoch: int = 0, state: OwnerState | None = None):
        self.spec, self.epoch = spec, epoch
        self.state = OwnerState(spec) if state is None else state
        self._first_seen_s: dict[str, float] = {}  # reservations, on the monotonic clock of this process
        self._sizes = advertised_sizes(max(spec.cloud.node_cores))
        self._writer = EventWriter(self.state, epoch)
        self._order_answers: OrderedDict[str, Answer] = OrderedDict()
        self.handlers = self._make_handlers()

    @classmethod
    def recover(
        cls, spec: OwnerSpec, epoch: int, events: Iterable[Event], state: OwnerState | None = None
    ) -> Owner:
        """Return the owner after all entries of its journal, in order; ``take_nodes`` must follow.

        ``state`` is that of a snapshot, if there is one; ``events`` are then those after it.
        """
        owner = cls(spec, epoch, state)
        for event in events:
            owner.apply(event)
        return owner

    @property
    def cloud(self) -> Cloud:
        """The cloud that this owner decides about."""
        return self.state.cloud

    def apply(self, event: Event) -> None:
        """Make a journal entry true again."""
        self.state.apply(event)

    def take_nodes(self, now: str) -> Decisions:
        """Go on with the nodes of the specification, which may be others than the journal's.

        Nothing is decided where they are the same. ``now``: RFC 3339. Raises NodesError.
        """
        self._writer.begin(now)
        nodes.take_nodes(self.state, self._writer)
        return self._writer.decisions

    def validate(self) -> None:
        """Check all invariants of the state; for tests and after recovery."""
        self.state.validate()

    # -- commands --------------------------------------------------------------------------------------------

    def _make_handlers(self) -> Mapping[type[Command], Handler]:
        def act(function: Callable[..., Answer]) -> Callable[[Any, float], Answer]:
            return partial(function, self.state, self._writer)

        def recall(function: Callable[..., Answer | None]) -> Callable[[Any], Answer | None]:
            return partial(function, self.state)

        return {
            # spot
            Ask: Handler(self._quote),
            Reserve: Handler(self._reserve, self._recall_reservation),
            Confirm: Handler(self._confirm),
            Release: Handler(act(lease_changes.release), recall(lease_changes.recall_release)),
            Cancel: Handler(act(lease_changes.cancel)),
            Gone: Handler(act(lease_changes.report_gone)),
            Acknowledge: Handler(act(lease_changes.acknowledge)),
            Extend: Handler(act(lease_changes.extend), recall(lease_changes.recall_extension)),
            Migrate: Handler(
                act(lease_changes.announce_migration_offers), recall(lease_changes.recall_migration_offers)
            ),
            # own users, and operators
            StartOnDemand: Handler(act(on_demand.start), recall(on_demand.recall_start)),
            StartAll: Handler(act(on_demand.start_together), recall(on_demand.recall_start_all)),
            StopOnDemand: Handler(act(on_demand.stop)),
            Show: Handler(act(on_demand.show)),
            ListSold: Handler(act(on_demand.list_sold)),
            Overflow: Handler(act(on_demand.note_overflow)),
            Drain: Handler(act(drain.drain), self._recall_order, in_memory=True),
            Reopen: Handler(act(drain.reopen), self._recall_order, in_memory=True),
            # time
            Tick: Handler(self._tick),
            Finish: Handler(self._finish),
        }

    def handle(self, command: Command, now_s: float, now: str) -> Decisions:
        """Carry out one command.

        now_s: the cloud's time; in trace time the command's own time counts instead. now: the same, RFC 3339.
        """
        self._writer.begin(now)
        handler = self.handlers[type(command)]
        answer = None if handler.recall is None else handler.recall(command)
        if answer is None:
            answer = handler.act(command, clock.command_time_s(self.state, command, now_s))
            if handler.in_memory:
                self._remember_order(command.id, answer)
        decisions = self._writer.decisions
        if command.reply_to is not None:
            decisions.replies.append((command.reply_to, Reply(command=command.id, answer=answer)))
        return decisions

    def _recall_order(self, command: Drain | Reopen) -> Answer | None:
        return self._order_answers.get(command.id)

    def _remember_order(self, command_id: str, answer: Answer) -> None:
        self._order_answers[command_id] = answer
        if len(self._order_answers) > ORDERS_KEPT:
            self._order_answers.popitem(last=False)

    # -- time ------------------------------------------------------------------------------------------------

    def _advance(self, at_s: float) -> None:
        clock.advance(self.state, self._writer, at_s)

    def _tick(self, _command: Tick, at_s: float) -> Answer:
        self._advance(at_s)
        return Done()

    def _finish(self, _command: Finish, _at_s: float) -> Answer:
        clock.finish(self.state, self._writer)
        return Done()

    def advance(self, now_s: float, now: str) -> Decisions:
        """Let everything happen that comes before the spot requests of ``now_s``."""
        self._writer.begin(now)
        self._advance(now_s)
        return self._writer.decisions

    def reach_boundary(self, at_s: float, now: str) -> Decisions:
        """Let everything happen that the table of the refresh boundary ``at_s`` is made from."""
        self._writer.begin(now)
        clock.advance(self.state, self._writer, at_s, PHASE_STOP)
        return self._writer.decisions

    def expire(self, now_s: float, now: str, monotonic_s: float) -> Decisions:
        """Give up reservations that nobody confirmed for ``reservation_ttl_s``; in wall time only.

        The time of a reservation begins when this process first sees it here, on the monotonic clock: a wall
        clock that jumps expires nothing, and after a restart the time begins anew.
        """
        self._writer.begin(now)
        if self.spec.trace_time:
            return self._writer.decisions
        seen = self._first_seen_s
        self._first_seen_s = {
            attempt: seen.get(attempt, monotonic_s) for attempt in self.state.answer_log.reserved()
        }
        for attempt, first_seen_s in self._first_seen_s.items():
            if monotonic_s - first_seen_s > self.spec.reservation_ttl_s:
                lease_changes.expire(self.state, self._writer, attempt, max(now_s, self.cloud.now_s))
        return self._writer.decisions

    def open(self, now_s: float, now: str) -> Decisions:
        """Write the first entry of an epoch: from here the cloud's time goes on from ``now_s`` at ``now``."""
        self._writer.begin(now)
        self._writer.emit(EventKind.OPENED, now_s)
        return self._writer.decisions

    # -- spot ------------------------------------------------------------------------------------------------

    def _quote(self, command: Ask, at_s: float) -> QuoteView | RefusalView:
        """Answer what a request would get, without reserving anything."""
        self._advance(at_s)
        request, cloud = self._request(command), self.cloud
        fitted = self.spec.fit(request, command.launch)
        answer, ask = self._consider(fitted, is_ask=True), partial(self._ask, command.launch)
        offers = other_sizes(request, self._sizes_for(request), ask) if command.other_sizes else ()
        if isinstance(answer, Refusal):
            return self._refusal(request, fitted, answer, command.launch, offers)
        return to_quote_view(answer, cloud.now_s, offers, cloud.spec.admission.mode)

    def _recall_reservation(self, command: Reserve) -> Answer | None:
        return self.state.known(command.attempt, Kind.SPOT)

    def _reserve(self, command: Reserve, at_s: float) -> Answer:
        """Reserve an instance until the broker confirms or releases it, or decline."""
        at_s = clock.step(self.state, self._writer, at_s, PHASE_SPOT)
        request = self._request(command)
        fitted = self.spec.fit(request, command.launch)
        quote = self._consider(fitted, is_ask=False)
        if isinstance(quote, Refusal):
            refusal = self._refusal(request, fitted, quote, command.launch)
            waits = self.cloud.contention.origin_refused_at(at_s, request.origin)
            self._writer.emit(EventKind.DECLINED, at_s, attempt=command.attempt, refusal=refusal, waits=waits)
            return refusal
        assert isinstance(fitted, Request)
        # Its instance goes by the id of the attempt: one request may try several times.
        changes = self.cloud.admit(replace(fitted, id=command.attempt), at_s, quote)
        assert not isinstance(changes, Refusal), "the quote has just admitted it"
        place = next(index for index, change in enumerate(changes) if isinstance(change, Started))
        displaced, started, waiting = changes[:place], changes[place], changes[place + 1 :]
        assert isinstance(started, Started)
        self._writer.record(displaced)
        lease = self._writer.lease_of(started.instance, LeaseState.RESERVED, request=request, quote=quote)
        lease = lease.model_copy(update={**self._renewal_fields(command, lease), "launch": command.launch})
        self._writer.emit(EventKind.RESERVED, at_s, lease=lease)
        self._writer.record(waiting)  # those who waited there may find enough room left by the displaced
        return LeaseGranted(lease=lease)

    def _renewal_fields(self, command: Reserve, lease: Lease) -> dict[str, float]:
        if command.lifetime_s is None:
            return {"renewal_s": self.spec.renewal_s}
        if command.least_s is None:
            return {}
        return {"wanted_until_s": lease.starts_at_s + command.lifetime_s}

    def _confirm(self, command: Confirm, at_s: float) -> Answer:
        """Make a reservation a running lease; one that has ended meanwhile is told with its end."""
        self._advance(at_s)
        entry = self.state.answer_log.get(command.attempt)
        if isinstance(entry, Lapsed):
            self._writer.tell_lapsed(entry.lease)
            return LeaseGranted(lease=entry.lease)
        if not isinstance(entry, Lease) or entry.kind is not Kind.SPOT:
            return Done(found=False)
        if entry.state is LeaseState.RESERVED:
            entry = entry.model_copy(update={"state": LeaseState.RUNNING})
            self._writer.emit(EventKind.ADMITTED, self.cloud.now_s, lease=entry)
            if entry.evict_at_s is not None:  # while it was reserved, its notice was not public
                cause = self.cloud.noticed_for[entry.id]
                self._writer.emit(EventKind.NOTICED, self.cloud.now_s, lease=entry, cause=cause)
        return LeaseGranted(lease=entry)

    def _consider(self, fitted: Request | NoFlavour, *, is_ask: bool) -> Quote | Refusal:
        """Let the cloud consider a request, counting it once.

        In trace time every cloud is asked before one gets the reservation, and the question counts. In wall
        time a question may be curiosity, and the reservation counts.
        """
        counts = is_ask == self.spec.trace_time
        return self._answer(fitted, self._count if counts else self.cloud.quote)

    def _count(self, request: Request) -> Quote | Refusal:
        """Let the cloud consider a request, and write down what population mode learns from it."""
        before, answer = self.cloud.considered, self.cloud.consider(request)
        if before is not None or self.cloud.considered is not None:
            self._writer.emit(EventKind.CONSIDERED, self.cloud.now_s, considered=self.cloud.considered)
        return answer

    def _ask(self, launch: Launch | None, request: Request) -> Quote | Refusal:
        """Return what the cloud would answer, without counting the request."""
        return self._answer(self.spec.fit(request, launch), self.cloud.quote)

    def _answer(
        self, fitted: Request | NoFlavour, decide: Callable[[Request], Quote | Refusal]
    ) -> Quote | Refusal:
        """Let the cloud decide on a request; refuse one for which it has no instance, and do not count it."""
        return decide(fitted) if isinstance(fitted, Request) else Refusal(self.cloud.spec.id, fitted[0])

    def _request_for_a_period(self, command: Ask | Reserve) -> Request:
        """Convert a command to a request; one without a lifetime asks for a whole renewal period."""
        lifetime_s = self.spec.renewal_s if command.lifetime_s is None else command.lifetime_s
        return Request(
            command.request,
            Kind.SPOT,
            command.cores,
            lifetime_s,
            command.sla,
            command.origin,
            least_s=LEAST * self.spec.renewal_s if command.lifetime_s is None else command.least_s,
            **command.needs,
        )

    def _request(self, command: Ask | Reserve) -> Request:
        """Convert a command to a request.

        One that is renewable asks for as much of its lifetime, or of a renewal period, as its SLA allows now.
        """
        request = self._request_for_a_period(command)
        if request.least_s is None:
            return request
        fitted = self.spec.fit(request, command.launch)
        sized = fitted if isinstance(fitted, Request) else request
        first = first_request(self.cloud, sized, is_bounded=command.lifetime_s is not None)
        return replace(request, lifetime_s=first.lifetime_s)

    def _refusal(
        self,
        request: Request,
        fitted: Request | NoFlavour,
        refusal: Refusal,
        launch: Launch | None,
        offers: Sequence[AdmissibleSize] = (),
    ) -> RefusalView:
        """Convert a refusal, adding the largest size that would be admitted instead."""
        return to_refusal_view(
            convert.explained(refusal, fitted if isinstance(fitted, Request) else request, self.cloud),
            fitted.why if isinstance(fitted, NoFlavour) else None,
            cores=request.cores,
            cloud_time_s=self.cloud.now_s,
            smaller=largest_admitted(request, self._sizes_for(request), partial(self._ask, launch)),
            other_sizes=offers,
        )

    def _sizes_for(self, request: Request) -> Sequence[int]:
        """Return the sizes in cores that may be offered instead.

        Where a promise is asked for they are those in the table, else those that the cloud advertises.
        """
        table = self.cloud.table
        if not request.promised or self.cloud.spec.products.pools:
            return [size for size in self._sizes.tolist() if size <= self.cloud.inventory.largest_node]
        return table.sizes if table else ()

    # -- tables ----------------------------------------------------------------------------------------------

    def table_due(self, command: Command) -> float | None:
        """Return the refresh boundary whose table a command must meet and that is not there yet, or None.

        In wall time it is always None. The boundary is in seconds of the cloud's time.
        """
        if not self.spec.trace_time:
            return None
        at_s = math.inf if isinstance(command, Finish) else clock.command_time_s(self.state, command, 0.0)
        due_s = clock.renewal_table_due_s(self.state, at_s)
        if due_s is not None:
            return due_s
        match command:
            case Extend():
                instance = self.cloud.inventory.get(command.lease)
                needs_table = instance is not None and instance.promised
            case Ask() | Reserve():
                repeated = isinstance(command, Reserve) and self._recall_reservation(command) is not None
                needs_table = not repeated and self.cloud.needs_table(self._request_for_a_period(command))
            case _:
                needs_table = False
        return self.cloud.table_due_s(at_s) if needs_table else None

    def name_resources(self, command: Command) -> Command:
        """Return a command that names all that its instance takes, which its table must be made for."""
        if self.spec.catalogue is None or not isinstance(command, Ask | Reserve):
            return command
        fitted = self.spec.fit(self._request_for_a_period(command), command.launch)
        amounts = fitted.amounts if isinstance(fitted, Request) else ()
        return command.model_copy(update={"resources": dict(amounts)}) if amounts else command

    def adopt(self, table: QuantileTable, now: str) -> Decisions:
        """Take a new table into use, as far as the cloud discloses it."""
        self._writer.begin(now)
        self.cloud.table = table.exposed_to(self.cloud.observed_take_backs())
        disclosed = self.cloud.table
        assert disclosed is not None
        self._sizes = np.union1d(self._sizes, np.array(disclosed.sizes, dtype=np.int64))
        self._writer.emit(
            EventKind.TABLE,
            self.cloud.now_s,
            table_version=disclosed.version,
            table_made_at_s=disclosed.made_at_s,
        )
        return self._writer.decisions

    def advert(self, now: str) -> Advert:
        """Return what the cloud says of itself to the federation. ``now``: RFC 3339."""
        return advertise(self.state, self.epoch, self._sizes, now)
