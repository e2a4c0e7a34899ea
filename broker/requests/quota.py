"""What requests hold of their members' caps on spot: taken in ``accept.lua``, given back in ``close.lua``
or here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis.asyncio

from broker.contract import CounterOffers, RefusalView, SpotRequest
from broker.identity.store import MemberRecord
from broker.requests.models import QuotaHold, RequestAnswer
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script
from cloudsim.model.refusals import RefusalReason


class QuotaHolds:
    """Every method may raise `redis.RedisError`."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys) -> None:
        self._client, self._keys = client, keys
        self._let_go = client.register_script(read_script("let_go"))

    async def let_go(self, member: str, requests: Sequence[str]) -> int:
        """Give back what requests hold of a member's cap. Returns the cores; 0 where they hold nothing."""
        if not requests:
            return 0
        return int(await self._let_go([self._keys.held(member)], list(requests)))

    async def total(self, member: str) -> tuple[int, int]:
        """Spot cores and spot instances that a member holds."""
        holds = await self.of(member)
        return sum(holds.values()), len(holds)

    async def of(self, member: str) -> dict[str, int]:
        """The same by request: cores."""
        found = await cast("Any", self._client.hgetall(self._keys.held(member)))
        return {one.decode(): int(cores) for one, cores in found.items() if one != b"=cores"}


def hold_arguments(hold: QuotaHold, place: int) -> list[str | bytes | int]:
    """For ``accept.lua``. place: of the member (from 1) among the keys of what members hold."""
    most = [-1 if one is None else one for one in (hold.most_cores, hold.most_instances)]
    return [place, hold.member, hold.cores, *most, *hold.refusal]


BROKER = "broker"  # in the place of a cloud, where the broker itself refuses

_NONE = "null}"

_NO_CORES = f'"cores":{_NONE}'  # the end of counter-offers, where there is none of a smaller size


@dataclass(frozen=True, slots=True)
class QuotaUse:
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


def make_hold(request: SpotRequest, member: MemberRecord) -> QuotaHold:
    """What a request takes of its member's cap, and the answer when that is more than is left."""
    refusal = _over_cap(request, member, None)
    before, largest, after = (
        RequestAnswer(lease=None, refusals=[refusal]).model_dump_json().partition(_NO_CORES)
    )
    assert largest, "a counter-offer has a size"
    head = f"{before}{_NO_CORES.removesuffix(_NONE)}"
    return QuotaHold(
        member.name, request.cores, member.spot_cores, member.spot_instances, (head, f"}}{after}")
    )


def _most(member: MemberRecord) -> str:
    caps = ((member.spot_cores, "cores"), (member.spot_instances, "instances"))
    return " and ".join(f"{most} {what}" for most, what in caps if most is not None) or "any amount"
