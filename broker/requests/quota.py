"""Quotas: the part of a member's cap on spot that its requests hold.

It is taken in ``accept.lua``, in the step that accepts the request, and given back in ``close.lua`` or here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import redis.asyncio

from broker.contract import CounterOffers, RefusalView, SpotRequest
from broker.identity.models import MemberRecord
from broker.requests.models import QuotaHold, RequestAnswer
from broker.storage.keys import RedisKeys
from broker.storage.scripts import read_script
from cloudsim.model.refusals import RefusalReason

BROKER = "broker"  # in the place of a cloud, where the broker itself refuses
_NONE = "null}"
_NO_CORES = f'"cores":{_NONE}'  # the end of counter-offers, where there is none of a smaller size


class QuotaHolds:
    """Reads and gives back what requests hold. Every method may raise ``redis.RedisError``."""

    def __init__(self, client: redis.asyncio.Redis, keys: RedisKeys) -> None:
        self._client, self._keys = client, keys
        self._release = client.register_script(read_script("let_go"))
        self._hold_again = client.register_script(read_script("hold_again"))

    async def release(self, member: str, requests: Sequence[str]) -> int:
        """Give back what requests hold of a member's cap. Return the cores, 0 if they hold nothing."""
        if not requests:
            return 0
        return int(await self._release([self._keys.quota_holds(member)], list(requests)))

    async def hold_again(self, member: str, cores: Mapping[str, int]) -> None:
        """Note what requests hold, with their cores, where Redis does not know it."""
        if cores:
            await self._hold_again([self._keys.quota_holds(member)], list(chain.from_iterable(cores.items())))

    async def total(self, member: str) -> tuple[int, int]:
        """Return the spot cores and the number of spot instances that a member holds."""
        holds = await self.cores_by_request(member)
        return sum(holds.values()), len(holds)

    async def cores_by_request(self, member: str) -> dict[str, int]:
        """Return the cores that each request of a member holds."""
        fields = await cast("Any", self._client.hgetall(self._keys.quota_holds(member)))
        return {request.decode(): int(cores) for request, cores in fields.items() if request != b"=cores"}


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The cores and instances that a member holds of its cap on spot."""

    member: MemberRecord
    cores: int
    instances: int

    def refusal(self, request: SpotRequest) -> RefusalView | None:
        """Return the refusal of a request above the cap, as ``accept.lua`` decides; None if it is below."""
        most, instances = self.member.spot_cores, self.member.spot_instances
        if instances is not None and self.instances >= instances:
            return _refuse(request, self.member, None)
        if most is not None and self.cores + request.cores > most:
            return _refuse(request, self.member, max(most - self.cores, 0) or None)
        return None


def _refuse(request: SpotRequest, member: MemberRecord, smaller: int | None) -> RefusalView:
    """Return the refusal of a request; ``smaller`` is the largest size that would do, if there is one."""
    caps = ((member.spot_cores, "cores"), (member.spot_instances, "instances"))
    most = " and ".join(f"{cap} {unit}" for cap, unit in caps if cap is not None) or "any amount"
    return RefusalView(
        cloud=BROKER,
        reason=RefusalReason.QUOTA_EXCEEDED,
        cores=request.cores,
        counter_offers=CounterOffers(cores=smaller),
        detail=f"{member.name} may hold at most {most} of spot at once, on all clouds together",
    )


def make_hold(request: SpotRequest, member: MemberRecord) -> QuotaHold:
    """Return what a request takes of its member's cap, with the answer in case that is more than is left."""
    answer = RequestAnswer(lease=None, refusals=[_refuse(request, member, None)])
    before, cores, after = answer.model_dump_json().partition(_NO_CORES)
    assert cores, "a counter-offer has a size"
    head = f"{before}{_NO_CORES.removesuffix(_NONE)}"
    return QuotaHold(
        member.name, request.cores, member.spot_cores, member.spot_instances, (head, f"}}{after}")
    )


def hold_arguments(hold: QuotaHold, place: int) -> list[str | bytes | int]:
    """Return the arguments of ``accept.lua`` for a hold.

    ``place`` is the place of its member, from 1, among the keys of what members hold.
    """
    caps = [-1 if cap is None else cap for cap in (hold.most_cores, hold.most_instances)]
    return [place, hold.member, hold.cores, *caps, *hold.refusal]
