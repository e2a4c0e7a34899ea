"""Keeps a fleet: looks, decides, and does it, round by round."""

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
from broker.fleet import snapshot as markets
from broker.fleet.commands import Commands
from broker.fleet.events import FleetEvent, FleetEventKind, FleetTotals, now_text
from broker.fleet.planner import Fleet, FleetTarget, HeldLease, decide
from broker.fleet.snapshot import FleetSnapshot
from broker.fleet.state_file import FleetError, FleetFile, SavedFleet, prefix_of

_REFUSED_BACKOFF = Backoff(first_s=1.0, longest_s=60.0)
_NO_MARKET = FleetSnapshot({})


@dataclass(frozen=True)
class FleetSpec:
    """What fleet is wanted: so many instances, each as ``request`` says, under a name of the user's.

    cool_down_s: a cloud that has evicted one is not asked for so long. poll_s: between two rounds.
    """

    name: str
    instances: int
    request: SpotRequest
    cool_down_s: float = 60.0
    poll_s: float = 2.0


@dataclass
class FleetLease:
    """A lease that the fleet has. refused_at_s: what was left of it when a later end was refused."""

    lease: Lease
    refused_at_s: float | None = None


class FleetController:
    """Of one fleet, with its file and its commands; ``tell`` hears what happens.

    Requests are written down before they are sent, and are sent again with the same id until they are
    answered: however often a keeper is killed, no lease is doubled, and none is lost.
    """

    def __init__(
        self,
        client: Client,
        wish: FleetSpec,
        file: FleetFile,
        kept: SavedFleet,
        commands: Commands,
        tell: Callable[[FleetEvent], None],
    ):
        self.wish, self.tally, self.market = wish, FleetTotals(), _NO_MARKET
        self.members: dict[str, FleetLease] = {}
        self.offers: CounterOffers | None = None  # of those who refused last
        self._client, self._file, self._kept, self._commands, self._tell = client, file, kept, commands, tell
        self._cooling: dict[str, float] = {}
        self._not_before_s, self._refusals = 0.0, 0
        self._away = False
        self._counted_s = time.monotonic()

    def keep(self, over: threading.Event, limit_s: float | None, shown: Callable[[], None]) -> None:
        """Until it is told, or for so long; ``shown`` is called after each round. Raises ClientError for what
        asking again does not help."""
        began_s = time.monotonic()
        while not over.is_set():
            self.round()
            shown()
            left_s = float("inf") if limit_s is None else began_s + limit_s - time.monotonic()
            if left_s <= 0:
                return
            over.wait(min(left_s, self.wish.poll_s * random.uniform(0.75, 1.25)))

    def round(self) -> None:
        """Looks, decides and does it. While the broker is away nothing is done."""
        self._count()
        try:
            self._look()
            self._ask_again()
            self._act()
        except UnavailableError as error:
            if not self._away:
                self._happened(FleetEventKind.AWAY, detail=str(error))
            self._away = True
        else:
            if self._away:
                self._happened(FleetEventKind.BACK)
            self._away = False
        for lease, command, status in self._commands.look():
            self._happened(
                FleetEventKind.COMMAND, lease, detail=f"its {command} command ended with status {status}"
            )

    def give_back(self, limit_s: float = 60.0) -> list[str]:
        """Everything, those included that were asked for and not answered. Returns what is left after so
        long."""
        gives_up_s = time.monotonic() + limit_s
        left: list[str] = []
        while True:
            self._count()
            try:
                self._look()
                self._ask_again()
                left = [request.id or "" for request in self._kept.asked]
                for lease in [*self.members]:
                    self._return(lease)
                left += self.members
            except UnavailableError as error:
                left = [*self.members, *(request.id or "" for request in self._kept.asked)]
                if not self._away:
                    self._happened(FleetEventKind.AWAY, detail=str(error))
                self._away = True
            if not left or time.monotonic() > gives_up_s:
                break
            time.sleep(min(1.0, self.wish.poll_s))
        self.offers = None  # nobody asks any more
        self.close()
        if not left:
            self._file.forget()
        return left

    def close(self) -> None:
        """Ends the commands of instances that are there, and waits for those of instances that are not."""
        for lease, command, status in self._commands.close():
            self._happened(
                FleetEventKind.COMMAND, lease, detail=f"its {command} command ended with status {status}"
            )

    # -- looking ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.market = markets.read_market(self._client)
        listed = markets.running(self._client, self.wish.name, self.wish.request.origin, self.market)
        for lease in listed.values():
            if lease.id in self.members:
                self.members[lease.id].lease = lease
            elif not self._is_asked(lease.request):
                self._join(lease, FleetEventKind.FOUND)
        for name in [*self._kept.held]:
            if name not in listed:
                self._look_for(name)

    def _look_for(self, name: str) -> None:
        """A lease that is not listed as running has ended, or does not run yet."""
        found = markets.one(self._client, name)
        if found is None or not found.state.is_open:
            self._leave(name, found)
        elif name in self.members:
            self.members[name].lease = found
        else:
            self._join(found, FleetEventKind.FOUND)

    def _is_asked(self, request: str) -> bool:
        """Its answer will tell of it."""
        return any(one.id == request for one in self._kept.asked)

    def _join(self, lease: Lease, kind: FleetEventKind, detail: str | None = None) -> None:
        self.members[lease.id] = FleetLease(lease)
        if lease.id not in self._kept.held:
            self._kept.held.append(lease.id)
            self._save()
        self._commands.start(lease.id, self._told(lease))
        self._happened(kind, lease.id, lease.cloud, detail)

    def _leave(self, name: str, found: Lease | None, kind: FleetEventKind | None = None) -> None:
        """It has ended; where its cloud evicted it, that is not asked for a while."""
        member = self.members.pop(name, None)
        lease = found or (member.lease if member is not None else None)
        if kind is None:
            kind = FleetEventKind.CANCELLED if found is None else FleetEventKind(found.state.value)
        if kind is FleetEventKind.EVICTED and lease is not None:
            self._cooling[lease.cloud] = time.monotonic() + self.wish.cool_down_s
        if name in self._kept.held:
            self._kept.held.remove(name)
            self._save()
        told = (
            {"SPOTFED_LEASE": name, "SPOTFED_FLEET": self.wish.name} if lease is None else self._told(lease)
        )
        self._commands.end(name, {**told, "SPOTFED_END": kind.value})
        cause = None if found is None or kind is FleetEventKind.RETURNED else found.cause
        self._happened(kind, name, None if lease is None else lease.cloud, cause)

    # -- acting -------------------------------------------------------------------------------------------

    def _act(self) -> None:
        now_s = time.monotonic()
        target = FleetTarget(self.wish.instances, 3 * self.wish.poll_s)
        held = tuple(self._held(member) for member in self.members.values())
        fleet = Fleet(held, len(self._kept.asked), self._cooling, self._not_before_s)
        plan = decide(target, fleet, now_s)
        for name in plan.give_back:
            self._return(name)
        for name in plan.extend:
            self._extend(name)
        if plan.ask:
            self._ask(plan.ask, plan.avoid)

    def _held(self, member: FleetLease) -> HeldLease:
        lease = member.lease
        return HeldLease(
            lease.id,
            lease.cloud,
            self.market.remaining_s(lease),
            self.market.lifetime_s(lease.cloud, self.wish.request.lifetime_s),
            lease.evict_at_s is not None or lease.warned_at_s is not None,
            member.refused_at_s,
        )

    def _return(self, name: str) -> None:
        answer = self._client.leases.cancel(name)
        if answer.done:  # else its cloud is silent, and ends it later
            kind = FleetEventKind.RETURNED if answer.lease.state is LeaseState.CANCELLED else None
            self._leave(name, answer.lease, kind)

    def _extend(self, name: str) -> None:
        member = self.members[name]
        lease, more_s = member.lease, self.wish.request.lifetime_s
        if lease.ends_at_s is None or more_s is None:
            return
        lived_s = lease.ends_at_s - lease.starts_at_s - self.market.left_s(lease)
        wish = ExtensionRequest(lifetime_s=max(0.0, lived_s) + more_s)
        try:
            answer = self._client.leases.extend(name, wish)
        except (InputRefusedError, UnauthorizedError):
            raise
        except ProblemAnswer:  # it has just ended, or its cloud does not answer
            return
        if isinstance(answer, RefusedRequest):
            member.refused_at_s = self.market.remaining_s(lease)
        else:
            member.lease, member.refused_at_s = answer, None
            self._happened(FleetEventKind.EXTENDED, name, lease.cloud)

    def _ask(self, count: int, avoid: frozenset[str]) -> None:
        wanted = self.wish.request
        targets = self.market.others(avoid, wanted.origin, wanted.targets)
        if targets == ():
            return  # until one of them has cooled down
        first = self._kept.next
        self._kept.asked += [
            wanted.model_copy(
                update={
                    "id": f"{prefix_of(self.wish.name)}{self._kept.token}-{number}",
                    "targets": targets,
                }
            )
            for number in range(first, first + count)
        ]
        self._kept.next += count
        self._save()
        self._ask_again()

    def _ask_again(self) -> None:
        """What has no answer yet. Raises InputRefusedError, after writing down that it was answered."""
        if not self._kept.asked:
            return
        answers = self._client.requests.submit_many(self._kept.asked)
        granted: list[Lease] = []
        refused: RefusedRequest | None = None
        failed: ProblemAnswer | None = None
        waiting: list[SpotRequest] = []
        for request, answer in zip(self._kept.asked, answers, strict=True):
            if isinstance(answer, GrantedRequest):
                granted.append(answer.lease)
            elif isinstance(answer, RefusedRequest):
                refused = answer
            elif isinstance(answer, InputRefusedError | UnauthorizedError):
                failed = answer
            else:  # in flight, or an owner that was silent: the same id has an answer later
                waiting.append(request)
        self._kept.asked = waiting
        self._save()
        for lease in granted:
            if lease.id not in self._kept.held:
                self._join(lease, FleetEventKind.ADMITTED)
        self._wait_after(refused, any_granted=bool(granted))
        if failed is not None:
            raise failed

    def _wait_after(self, refused: RefusedRequest | None, *, any_granted: bool) -> None:
        """Ask again after a pause that grows with each refusal since the last grant."""
        if any_granted:
            self._refusals = 0
        if refused is None:
            if any_granted:
                self.offers = None
            return
        self.offers = refused.counter_offers
        self._refusals += 1
        self._not_before_s = time.monotonic() + _REFUSED_BACKOFF.pause_s(self._refusals)
        reasons = sorted({one.reason.value for one in refused.refusals if one.reason.value != "not_a_target"})
        self._happened(FleetEventKind.REFUSED, detail=", ".join(reasons) or None)

    # -- telling ------------------------------------------------------------------------------------------

    def _told(self, lease: Lease) -> dict[str, str]:
        """What a command finds in its environment."""
        told = {
            "SPOTFED_FLEET": self.wish.name,
            "SPOTFED_LEASE": lease.id,
            "SPOTFED_CLOUD": lease.cloud,
            "SPOTFED_NODE": str(lease.node),
            "SPOTFED_CORES": str(lease.cores),
        }
        remaining_s = self.market.remaining_s(lease)
        if remaining_s is not None:
            ends_at = datetime.now(UTC) + timedelta(seconds=remaining_s)
            told["SPOTFED_ENDS_AT"] = ends_at.isoformat(timespec="seconds").replace("+00:00", "Z")
        return told

    def _happened(
        self,
        kind: FleetEventKind,
        lease: str | None = None,
        cloud: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.tally.counts[kind] += 1
        self._tell(FleetEvent(now_text(), kind, len(self.members), self.wish.instances, lease, cloud, detail))

    def _count(self) -> None:
        now_s = time.monotonic()
        prices = [self.market.price_usd_per_hour(member.lease) for member in self.members.values()]
        self.tally.passed(now_s - self._counted_s, prices, self.wish.instances)
        self._counted_s = now_s

    def _save(self) -> None:
        try:
            self._file.save(self._kept)
        except OSError as error:
            raise FleetError(
                f"the fleet's file cannot be written, so nothing more is asked for: {error}"
            ) from error
