"""Those who use the federation: they want instances, cancel, extend, acknowledge, drain, and ask again."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import redis

from broker.contract import ExtensionRequest, Lease, LeaseGranted, OnDemandRequest, RefusalView, SpotRequest
from broker.requests.errors import InFlightError, NoMembersError, ReusedError
from broker.requests.idempotency import HOLD_S
from broker.requests.models import RequestAnswer
from broker.schemas.clouds import DrainRequest
from tests.simulation.clients import LATE_S
from tests.simulation.options import reshaped
from tests.simulation.processes import RENEWAL_S, BrokerProcess

if TYPE_CHECKING:
    from tests.simulation.world import World

#: What a client takes for "ask again".
AWAY = (redis.RedisError, ConnectionError)
_PATIENCE_S = 6.0
#: The share of own requests that are as wide as a node, or wider.
_WIDE = 0.3
#: The share of lists that ask for all or nothing.
_TOGETHER = 0.5
#: How long a key stays held after its call: a script that holds it may come late and last.
_HELD_S = HOLD_S + LATE_S[1] + 2.0


@dataclass
class Users:
    """All of them. ``answers``: what was said of each spot request; it never changes."""

    world: World
    answers: dict[str, RequestAnswer] = field(default_factory=dict)
    wishes: dict[str, SpotRequest] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)  # own instances by id: what was answered first
    together: list[tuple[str, ...]] = field(default_factory=list)  # lists of which all are admitted, or none
    # By idempotency key: how many processes are answering its call, and until when one did.
    _answering: Counter[str] = field(default_factory=Counter)
    _answered_s: dict[str, float] = field(default_factory=dict)
    _too_large: set[str] = field(default_factory=set)  # requests for more cores than any node has
    _number: int = 0

    @property
    def _random(self) -> random.Random:
        return self.world.random

    def _next(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    # -- spot ------------------------------------------------------------------------------------------------

    def wish(self) -> SpotRequest:
        """A request for one spot instance."""
        rng, clouds = self._random, self.world.options.clouds
        largest = max(max(cloud.node_cores) for cloud in clouds)
        sla = rng.choice((None, None, 0.1, 0.3, 1.0))
        renewed = sla == 0.1 and rng.random() < 0.3
        return SpotRequest(
            id=self._next("s"),
            origin=rng.choice([cloud.id for cloud in clouds]) if rng.random() < 0.3 else "user",
            cores=rng.randint(1, min(4, largest)),
            lifetime_s=None if renewed else rng.uniform(1.0, 25.0),
            sla=sla,
        )

    async def spot(self) -> None:
        """One user's requests, until they are answered; then the user lives with the leases."""
        wishes = [self.wish() for _ in range(self._random.choice((1, 1, 1, 2, 4)))]
        self.wishes |= {wish.id or "": wish for wish in wishes}
        if len(wishes) > 1 and self.world.widening.random() < _TOGETHER:
            self.together.append(tuple(wish.id or "" for wish in wishes))
        if self._random.random() < 0.15:  # an impatient one
            self.world.spawn(self._ask(wishes))
        await self._ask(wishes)
        for wish in wishes:
            answer = self.answers.get(wish.id or "")
            if answer is not None and answer.lease is not None:
                self.world.spawn(self._hold(answer.lease))
        if self._random.random() < 0.2:
            await asyncio.sleep(self._random.uniform(0.0, 5.0))
            await self._ask(wishes)
            await self._reuse(wishes[0])

    async def _ask(self, wishes: list[SpotRequest]) -> None:
        open_ = list(wishes)
        while open_:
            try:
                results = await self._submit(open_, wishes, self._random.choice((2.0, 5 * _PATIENCE_S)))
            except AWAY:
                results = []
            for wish, result in zip(open_ if len(wishes) == 1 else wishes, results, strict=False):
                self._hear(wish, result)
            open_ = [wish for wish in open_ if wish.id not in self.answers.keys() | self._too_large]
            if open_:
                await asyncio.sleep(self._random.uniform(0.2, 1.5))

    async def ask_again(self, request: str) -> None:
        """Ask once more for what was answered, with the same id.

        A request of a list that was all or none comes with its list: alone, it is another one.
        """
        ids = next((ids for ids in self.together if request in ids), (request,))
        wishes = [self.wishes[id_] for id_ in ids]
        while True:
            try:
                results = await self._submit(wishes, wishes, _PATIENCE_S)
            except AWAY:
                results = []
            if results and not any(isinstance(result, InFlightError | NoMembersError) for result in results):
                return
            await asyncio.sleep(self._random.uniform(0.2, 1.5))

    async def _submit(
        self, wishes: list[SpotRequest], whole: list[SpotRequest], patience_s: float
    ) -> Sequence[Any]:
        """Submits a single request, or the ``whole`` list under an idempotency key."""
        if len(whole) == 1:
            return await self.world.broker_call(lambda b: b.service.submit(wishes, "me"), patience_s)
        try:
            return await self.world.broker_call(lambda b: self._submit_list(b, whole), patience_s)
        except InFlightError:
            self._held(f"list-{whole[0].id}")
            return []

    async def _submit_list(self, broker: BrokerProcess, wishes: list[SpotRequest]) -> Sequence[Any]:
        key = f"list-{wishes[0].id}"
        async with broker.idempotency.hold("me", key, key):
            self._answering[key] += 1
            try:
                if tuple(wish.id for wish in wishes) in self.together:
                    return await broker.service.submit_together(wishes, "me")
                return await broker.service.submit(wishes, "me")
            except (NoMembersError, ValueError) as error:  # all or none: what one cannot ask for, none can
                return [error] * len(wishes)
            finally:
                self._answering[key] -= 1
                self._answered_s[key] = self.world.clock.time()

    def _held(self, key: str) -> None:
        """A call is said to be answered already: then it is, or was until a moment ago."""
        silent_s = self.world.clock.time() - self._answered_s.get(key, self.world.clock.time())
        if not self._answering[key] and silent_s > _HELD_S:
            self.world.breach(f"I9: {key} is held, and nobody has answered it for {silent_s:.1f} s")

    def _hear(self, wish: SpotRequest, result: Any) -> None:
        if isinstance(result, RequestAnswer):
            first = self.answers.setdefault(wish.id or "", result)
            if first != result and wish.id not in self.world.checker.lost:
                self.world.breach(f"I6: {wish.id} was answered {first}, and now {result}")
        elif isinstance(result, ValueError):  # the clouds have smaller nodes by now: its user gives up
            self._too_large.add(wish.id or "")
        elif not isinstance(result, InFlightError | NoMembersError):
            self.world.breach(f"I6: {wish.id} is answered {result!r}")

    async def _reuse(self, wish: SpotRequest) -> None:
        """The same id for something else."""
        other = wish.model_copy(update={"cores": wish.cores + 1})
        try:
            (result,) = await self.world.broker_call(lambda b: b.service.submit([other], "me"), _PATIENCE_S)
        except AWAY:
            return
        if wish.id in self.world.checker.lost:
            return
        if not isinstance(result, ReusedError | NoMembersError | ValueError):
            self.world.breach(f"I6: {wish.id} was used for something else and is answered {result!r}")

    async def _hold(self, lease: Lease) -> None:
        """A holder's life with a lease: it looks, extends, acknowledges a notice, cancels."""
        rng = self._random
        for _ in range(rng.randint(0, 4)):
            await asyncio.sleep(rng.uniform(0.2, 2.5))
            what = rng.choice(("look", "extend", "extend", "cancel", "acknowledge"))
            try:
                now = await self.world.broker_call(lambda b: b.leases.get(lease.id), _PATIENCE_S)
                if now is None:
                    continue  # it was confirmed, and its owner has not written so yet
                if what == "extend":
                    await self._extend(now)
                elif what == "cancel":
                    await self._cancel(now)
                elif what == "acknowledge":  # whether it was told to leave or not
                    await self._twice(lambda b, n=now: b.leases.acknowledge(n, "me"))
            except AWAY:
                continue

    async def _extend(self, lease: Lease) -> None:
        if lease.ends_at_s is None:
            return
        until_s = lease.ends_at_s + self._random.uniform(-2.0, self._random.choice((1, 8)) * RENEWAL_S)
        name = self._next("x")
        await self._twice(lambda b: b.leases.extend(lease, max(0.0, until_s), ExtensionRequest(), name))

    async def _cancel(self, lease: Lease) -> None:
        heard = await self._twice(lambda b: b.leases.cancel(lease.id, "me"))
        if heard is None or not heard.done:
            return
        book = self.world.checker.books[lease.cloud]
        lapsed = book.lapsed.get(lease.id)  # its owner has not read yet that it was to run
        ended = lapsed["state"] if lapsed else book.ended.get(lease.id)
        if ended is None or ended != heard.lease.state.value:
            if ended == "released" and heard.lease.state.value == "cancelled":
                return
            self.world.breach(f"I2: {lease.id} is said to be {heard.lease.state}, the journal says {ended}")

    async def _twice(self, ask: Any) -> Any:
        """A call, and now and then the same again."""
        heard = await self.world.broker_call(ask, _PATIENCE_S)
        if self._random.random() < 0.3:
            heard = await self.world.broker_call(ask, _PATIENCE_S) or heard
        return heard

    # -- a cloud's own users, and who runs it ---

    async def own_burst(self) -> None:
        """Own users come together; some stop what they started, also what still waits."""
        cloud = self._random.choice(self.world.options.clouds)
        for _ in range(self._random.choice((1, 1, 2, 5))):
            cores = self._random.randint(1, max(cloud.node_cores))
            if self.world.widening.random() < _WIDE:
                cores = self.world.widening.randint(max(cloud.node_cores), sum(cloud.node_cores))
            self.world.spawn(self._own(cloud.id, cores))

    async def _own(self, cloud: str, cores: int) -> None:
        rng = self._random
        lifetime_s = rng.choice((None, rng.uniform(1.0, 12.0)))
        wish = OnDemandRequest(id=self._next("d"), cores=cores, lifetime_s=lifetime_s)
        await self._own_ask(cloud, wish)
        if lifetime_s is None or rng.random() < 0.3:
            await asyncio.sleep(rng.uniform(0.0, 8.0))
            await self._until_heard(lambda b: b.on_demand.stop(cloud, wish.id or ""))
        if rng.random() < 0.3:
            await self._own_ask(cloud, wish)

    async def _own_ask(self, cloud: str, wish: OnDemandRequest) -> None:
        answer = await self._until_heard(lambda b: b.on_demand.start(cloud, wish))
        name = wish.id or ""
        book = self.world.checker.books[cloud]
        if isinstance(answer, LeaseGranted):
            gist = f"node {answer.lease.node} parts {answer.lease.parts} number {answer.lease.number}"
            if name not in book.last:
                self.world.breach(f"I7: {name} is granted, and the journal knows nothing of it")
        elif isinstance(answer, RefusalView):
            gist = "refused"
            if name not in book.turned_away:
                self.world.breach(f"I7: {name} is turned away, and the journal knows nothing of it")
        else:
            gist = f"{answer!r}"
            self.world.breach(f"I6: {name} is answered {answer!r}")
        if self.own.setdefault(name, gist) != gist:
            self.world.breach(f"I6: {name} was answered {self.own[name]}, and now {gist}")

    async def _until_heard(self, ask: Any) -> Any:
        while True:
            try:
                heard = await self._twice(ask)
            except AWAY:
                heard = None
            if heard is not None:
                return heard
            await asyncio.sleep(self._random.uniform(0.2, 1.5))

    async def drain(self) -> None:
        """Somebody runs a cloud: closes nodes, and opens them again."""
        rng, cloud = self._random, self._random.choice(self.world.options.clouds)
        nodes = rng.choice((None, (0,), (len(cloud.node_cores) - 1,)))
        try:
            if rng.random() < 0.3:
                wish = DrainRequest(nodes=nodes, dry_run=True)
                await self.world.broker_call(lambda b: b.clouds.drain(cloud.id, wish, "admin"), _PATIENCE_S)
            wish = DrainRequest(nodes=nodes)
            await self.world.broker_call(lambda b: b.clouds.drain(cloud.id, wish, "admin"), _PATIENCE_S)
        except AWAY:
            self.world.note("drain", cloud.id, "not heard")
        await asyncio.sleep(rng.uniform(0.0, 6.0))
        await self._until_heard(lambda b: b.clouds.reopen(cloud.id, nodes, "admin"))

    async def reshape(self) -> None:
        """Who runs a cloud gives it other nodes: empties those that go, or not, and lets its owner know."""
        world, rng = self.world, self.world.reshaping
        index = rng.randrange(len(world.options.clouds))
        cloud = world.options.clouds[index].id
        before = world.shapes[cloud]
        after = reshaped(rng, before)
        gone = tuple(range(len(after), len(before)))
        if gone and rng.random() < 0.7:
            wish = DrainRequest(nodes=gone)
            try:
                await world.broker_call(lambda b: b.clouds.drain(cloud, wish, "admin"), _PATIENCE_S)
            except AWAY:
                world.note("drain", cloud, "not heard")
            await asyncio.sleep(rng.uniform(0.0, 8.0))
        world.note("reshape", cloud, f"{before} becomes {after}")
        world.shapes[cloud] = after
        owners = world.alive(cloud)
        for owner in owners:
            if rng.random() < 0.5:
                owner.reload()
            elif rng.random() < 0.5:
                owner.stop()
            else:
                owner.kill("for other nodes")
        await asyncio.sleep(rng.uniform(0.0, 2.0))
        if not world.alive(cloud):
            world.start_owner(index, "m1")
