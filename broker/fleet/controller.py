"""Keeps a fleet: reads its leases, decides the next step and carries it out, round by round."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from broker.backoff import Backoff
from broker.client import (
    Client,
    GrantedRequest,
    InputRefusedError,
    ProblemAnswer,
    RefusedRequest,
    UnauthorizedError,
    UnavailableError,
)
from broker.contract import CounterOffers, ExtensionRequest, Lease, LeaseState, SpotRequest
from broker.fleet import snapshot
from broker.fleet.commands import Commands
from broker.fleet.events import FleetEvent, FleetEventKind, FleetTotals, now_text
from broker.fleet.planner import Fleet, FleetTarget, HeldLease, decide
from broker.fleet.snapshot import FleetSnapshot
from broker.fleet.state_file import FleetError, FleetFile, SavedFleet, request_prefix
from cloudsim.model.refusals import RefusalReason

_REFUSED_BACKOFF = Backoff(first_s=1.0, longest_s=60.0)
_NO_MARKET = FleetSnapshot({})


@dataclass(frozen=True)
class FleetSpec:
    """The fleet that a user wants: its name, the number of instances, and the request for each.

    cool_down_s: how long a cloud is not asked after it has evicted an instance. poll_s: time between two
    rounds. Both are wall time.
    """

    name: str
    instances: int
    request: SpotRequest
    cool_down_s: float = 60.0
    poll_s: float = 2.0


@dataclass
class FleetLease:
    """A lease of the fleet.

    refused_at_s: time that was left of it, in seconds, when a later end was refused; None: it never was.
    """

    lease: Lease
    refused_at_s: float | None = None


class FleetController:
    """Keeps one fleet with its state file and its commands, and reports events.

    Requests are written to the file before they are sent, and are sent again with the same id until they are
    answered: however often the process is killed, no lease is doubled and none is lost.
    """

    def __init__(
        self,
        client: Client,
        spec: FleetSpec,
        file: FleetFile,
        saved: SavedFleet,
        commands: Commands,
        report: Callable[[FleetEvent], None],
    ):
        self.spec, self.totals, self.market = spec, FleetTotals(), _NO_MARKET
        self.members: dict[str, FleetLease] = {}
        self.offers: CounterOffers | None = None  # of the clouds that refused last
        self._client, self._file, self._saved = client, file, saved
        self._commands, self._report = commands, report
        self._cooling: dict[str, float] = {}
        self._not_before_s, self._refusals = 0.0, 0
        self._away = False
        self._counted_s = time.monotonic()

    def keep(self, stopped: threading.Event, limit_s: float | None, shown: Callable[[], None]) -> None:
        """Run rounds until ``stopped`` is set, or for ``limit_s`` seconds; call ``shown`` after each.

        Raises
        ------
        ClientError
            When the broker answers with an error that asking again does not help.
        """
        began_s = time.monotonic()
        while not stopped.is_set():
            self.run_round()
            shown()
            left_s = float("inf") if limit_s is None else began_s + limit_s - time.monotonic()
            if left_s <= 0:
                return
            stopped.wait(min(left_s, self.spec.poll_s * random.uniform(0.75, 1.25)))

    def run_round(self) -> None:
        """Read, decide and act once; do nothing while the broker is away."""
        self._add_time()
        try:
            self._update_members()
            self._send_unanswered()
            self._act()
        except UnavailableError as error:
            self._note_away(error)
        else:
            if self._away:
                self._record_event(FleetEventKind.BACK)
            self._away = False
        for lease, command, status in self._commands.poll():
            self._record_failed_command(lease, command, status)

    def give_back(self, limit_s: float = 60.0) -> list[str]:
        """Give back all leases, and those of unanswered requests.

        Returns the ids of leases and requests that are left after ``limit_s`` seconds.
        """
        gives_up_s = time.monotonic() + limit_s
        left: list[str] = []
        while True:
            self._add_time()
            try:
                self._update_members()
                self._send_unanswered()
                left = [request.id or "" for request in self._saved.asked]
                for lease in [*self.members]:
                    self._return_lease(lease)
                left += self.members
            except UnavailableError as error:
                left = [*self.members, *(request.id or "" for request in self._saved.asked)]
                self._note_away(error)
            if not left or time.monotonic() > gives_up_s:
                break
            time.sleep(min(1.0, self.spec.poll_s))
        self.offers = None  # nothing is asked for any more
        self.close()
        if not left:
            self._file.delete()
        return left

    def close(self) -> None:
        """Stop the commands of running instances, and wait for those of ended ones."""
        for lease, command, status in self._commands.close():
            self._record_failed_command(lease, command, status)

    # -- reading ------------------------------------------------------------------------------------------

    def _update_members(self) -> None:
        self.market = snapshot.read_snapshot(self._client)
        origin = self.spec.request.origin
        running = snapshot.running_leases(self._client, self.spec.name, origin, self.market)
        for lease in running.values():
            if lease.id in self.members:
                self.members[lease.id].lease = lease
            elif not self._is_unanswered(lease.request):
                self._add_member(lease, FleetEventKind.FOUND)
        for lease_id in [*self._saved.held]:
            if lease_id not in running:
                self._update_member(lease_id)

    def _update_member(self, lease_id: str) -> None:
        """Update a member that is not listed as running: it has ended, or does not run yet."""
        lease = snapshot.find_lease(self._client, lease_id)
        if lease is None or not lease.state.is_open:
            self._remove_member(lease_id, lease)
        elif lease_id in self.members:
            self.members[lease_id].lease = lease
        else:
            self._add_member(lease, FleetEventKind.FOUND)

    def _is_unanswered(self, request_id: str) -> bool:
        """Return whether the answer to a request, which will report its lease, is still to come."""
        return any(request.id == request_id for request in self._saved.asked)

    def _add_member(self, lease: Lease, kind: FleetEventKind) -> None:
        self.members[lease.id] = FleetLease(lease)
        if lease.id not in self._saved.held:
            self._saved.held.append(lease.id)
            self._save()
        self._commands.start(lease.id, self._variables(lease))
        self._record_event(kind, lease.id, lease.cloud)

    def _remove_member(self, lease_id: str, ended: Lease | None, kind: FleetEventKind | None = None) -> None:
        """Remove a lease that has ended; a cloud that evicted it is not asked for a while."""
        member = self.members.pop(lease_id, None)
        lease = ended or (member.lease if member is not None else None)
        if kind is None:
            kind = FleetEventKind.CANCELLED if ended is None else FleetEventKind(ended.state.value)
        if kind is FleetEventKind.EVICTED and lease is not None:
            self._cooling[lease.cloud] = time.monotonic() + self.spec.cool_down_s
        if lease_id in self._saved.held:
            self._saved.held.remove(lease_id)
            self._save()
        variables = (
            {"SPOTFED_LEASE": lease_id, "SPOTFED_FLEET": self.spec.name}
            if lease is None
            else self._variables(lease)
        )
        self._commands.end(lease_id, {**variables, "SPOTFED_END": kind.value})
        cause = None if ended is None or kind is FleetEventKind.RETURNED else ended.cause
        self._record_event(kind, lease_id, None if lease is None else lease.cloud, cause)

    # -- acting -------------------------------------------------------------------------------------------

    def _act(self) -> None:
        now_s = time.monotonic()
        target = FleetTarget(self.spec.instances, 3 * self.spec.poll_s)
        leases = tuple(self._held_lease(member) for member in self.members.values())
        fleet = Fleet(leases, len(self._saved.asked), self._cooling, self._not_before_s)
        plan = decide(target, fleet, now_s)
        for lease_id in plan.give_back:
            self._return_lease(lease_id)
        for lease_id in plan.extend:
            self._extend_lease(lease_id)
        if plan.ask:
            self._send_requests(plan.ask, plan.avoid)

    def _held_lease(self, member: FleetLease) -> HeldLease:
        lease = member.lease
        return HeldLease(
            lease.id,
            lease.cloud,
            self.market.remaining_s(lease),
            self.market.lifetime_s(lease.cloud, self.spec.request.lifetime_s),
            lease.evict_at_s is not None or lease.warned_at_s is not None,
            member.refused_at_s,
        )

    def _return_lease(self, lease_id: str) -> None:
        answer = self._client.leases.cancel(lease_id)
        if answer.done:  # else its cloud is silent, and ends it later
            kind = FleetEventKind.RETURNED if answer.lease.state is LeaseState.CANCELLED else None
            self._remove_member(lease_id, answer.lease, kind)

    def _extend_lease(self, lease_id: str) -> None:
        member = self.members[lease_id]
        lease, more_s = member.lease, self.spec.request.lifetime_s
        if lease.ends_at_s is None or more_s is None:
            return
        lived_s = lease.ends_at_s - lease.starts_at_s - self.market.left_s(lease)
        request = ExtensionRequest(lifetime_s=max(0.0, lived_s) + more_s)
        try:
            answer = self._client.leases.extend(lease_id, request)
        except (InputRefusedError, UnauthorizedError):
            raise
        except ProblemAnswer:  # it has just ended, or its cloud does not answer
            return
        if isinstance(answer, RefusedRequest):
            member.refused_at_s = self.market.remaining_s(lease)
        else:
            member.lease, member.refused_at_s = answer, None
            self._record_event(FleetEventKind.EXTENDED, lease_id, lease.cloud)

    def _send_requests(self, count: int, avoid: frozenset[str]) -> None:
        template = self.spec.request
        targets = self.market.targets(avoid, template.origin, template.targets)
        if targets == ():
            return  # until one of them has cooled down
        prefix = f"{request_prefix(self.spec.name)}{self._saved.token}-"
        first = self._saved.next
        self._saved.asked += [
            template.model_copy(update={"id": f"{prefix}{number}", "targets": targets})
            for number in range(first, first + count)
        ]
        self._saved.next += count
        self._save()
        self._send_unanswered()

    def _send_unanswered(self) -> None:
        """Send all requests that have no answer yet.

        Raises
        ------
        InputRefusedError, UnauthorizedError
            When the broker refuses a request as invalid; the request then counts as answered.
        """
        if not self._saved.asked:
            return
        answers = self._client.requests.submit_many(self._saved.asked)
        granted: list[Lease] = []
        refused: RefusedRequest | None = None
        failed: ProblemAnswer | None = None
        unanswered: list[SpotRequest] = []
        for request, answer in zip(self._saved.asked, answers, strict=True):
            if isinstance(answer, GrantedRequest):
                granted.append(answer.lease)
            elif isinstance(answer, RefusedRequest):
                refused = answer
            elif isinstance(answer, InputRefusedError | UnauthorizedError):
                failed = answer
            else:  # in flight, or an owner that was silent: the same id has an answer later
                unanswered.append(request)
        self._saved.asked = unanswered
        self._save()
        for lease in granted:
            if lease.id not in self._saved.held:
                self._add_member(lease, FleetEventKind.ADMITTED)
        self._back_off(refused, any_granted=bool(granted))
        if failed is not None:
            raise failed

    def _back_off(self, refused: RefusedRequest | None, *, any_granted: bool) -> None:
        """Set the time of the next requests: after a pause that grows with each refusal since a grant."""
        if any_granted:
            self._refusals = 0
        if refused is None:
            if any_granted:
                self.offers = None
            return
        self.offers = refused.counter_offers
        self._refusals += 1
        self._not_before_s = time.monotonic() + _REFUSED_BACKOFF.pause_s(self._refusals)
        reasons = {refusal.reason for refusal in refused.refusals} - {RefusalReason.NOT_A_TARGET}
        self._record_event(FleetEventKind.REFUSED, detail=", ".join(sorted(reasons)) or None)

    # -- reporting ----------------------------------------------------------------------------------------

    def _variables(self, lease: Lease) -> dict[str, str]:
        """Return the environment variables that commands get about a lease."""
        variables = {
            "SPOTFED_FLEET": self.spec.name,
            "SPOTFED_LEASE": lease.id,
            "SPOTFED_CLOUD": lease.cloud,
            "SPOTFED_NODE": str(lease.node),
            "SPOTFED_CORES": str(lease.cores),
        }
        remaining_s = self.market.remaining_s(lease)
        if remaining_s is not None:
            ends_at = datetime.now(UTC) + timedelta(seconds=remaining_s)
            variables["SPOTFED_ENDS_AT"] = ends_at.isoformat(timespec="seconds").replace("+00:00", "Z")
        return variables

    def _note_away(self, error: UnavailableError) -> None:
        if not self._away:
            self._record_event(FleetEventKind.AWAY, detail=str(error))
        self._away = True

    def _record_failed_command(self, lease: str, command: str, status: int) -> None:
        detail = f"its {command} command ended with status {status}"
        self._record_event(FleetEventKind.COMMAND, lease, detail=detail)

    def _record_event(
        self,
        kind: FleetEventKind,
        lease: str | None = None,
        cloud: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.totals.counts[kind] += 1
        event = FleetEvent(now_text(), kind, len(self.members), self.spec.instances, lease, cloud, detail)
        self._report(event)

    def _add_time(self) -> None:
        """Add the time since the last call to the totals."""
        now_s = time.monotonic()
        prices = [self.market.price_usd_per_hour(member.lease) for member in self.members.values()]
        self.totals.add_time(now_s - self._counted_s, prices, self.spec.instances)
        self._counted_s = now_s

    def _save(self) -> None:
        try:
            self._file.save(self._saved)
        except OSError as error:
            raise FleetError(
                f"the fleet's file cannot be written, so nothing more is asked for: {error}"
            ) from error
