"""Replay of a federation (one cloud is the smallest) in one process: traces + clouds + line-up → report.

It runs the same ``Cloud`` and the same ranking as the live federation, so both give the same report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloudsim.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.federation import FederatedCloud, Federation
from cloudsim.prediction.sampler import LocalPredictor, SamplerSpec
from cloudsim.ranking import tightest_fit
from cloudsim.report import Tally
from cloudsim.requests import Change, Ended, Kind, Quote, Refusal, Request, Started, TurnedAway

Progress = Callable[[float], None]  # told the time of the federation reached, in seconds


class _Member:
    """A cloud of the replay with the predictor that makes its tables."""

    def __init__(self, member: FederatedCloud, federation: Federation, seed: int, births: int):
        self.cloud = Cloud(member.spec, member.own_load, federation.ends_s)
        self.predictor = LocalPredictor(
            SamplerSpec(member.spec.node_cores, seed=seed, births=births), federation.spot_sizes(member)
        )

    def quote(self, request: Request, now_s: float) -> Quote | Refusal:
        cloud = self.cloud
        if cloud.needs_table(request):
            boundary_s = cloud.table_due_s(now_s)
            if boundary_s is not None:
                cloud.table = self.predictor.table(cloud.history.cut(boundary_s), boundary_s)
        return cloud.quote(request)


def replay(
    federation: Federation, *, seed: int, births: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Runs the federation to its end and until every instance has ended; returns the report (see ``report``).

    ``births`` is the number of Monte-Carlo samples a size that tables are made from, ``seed`` keys their
    streams.
    """
    members = {member.spec.id: _Member(member, federation, seed, births) for member in federation.clouds}
    order = {cloud: position for position, cloud in enumerate(members)}
    tally = Tally(
        {member.spec.id: member.nodes for member in federation.clouds},
        list(dict.fromkeys(workload.origin for workload in federation.workloads)),
        federation.ends_s,
    )
    for now_s, request, targets in federation.requests():
        tally.asked(request)
        quotes: list[tuple[int, Quote]] = []
        for target in targets:
            member = members[target]
            _count(tally, target, member.cloud.advance(now_s))
            answer = member.quote(request, now_s)
            if isinstance(answer, Quote):
                quotes.append((order[target], answer))
            else:
                tally.refused(request.origin, target, answer.reason)
        for quote in tightest_fit(quotes)[:1]:
            admitted = members[quote.cloud].cloud.admit(request, now_s)
            assert not isinstance(admitted, Refusal), "nothing happened between quote and admission"
            tally.admitted(request.origin, quote.cloud)
        if progress is not None:
            progress(now_s)
    for cloud, member in members.items():
        _count(tally, cloud, member.cloud.advance(*AFTER_EVERYTHING))
    return tally.as_dict()


def _count(tally: Tally, cloud: str, changes: list[Change]) -> None:
    for change in changes:
        match change:
            case Started(instance) if instance.kind is Kind.ON_DEMAND:
                tally.on_demand(cloud, requests=1, admitted=1)
            case TurnedAway():
                tally.on_demand(cloud, requests=1, admitted=0)
            case Ended(instance, at_s, how, _) if instance.kind is Kind.SPOT:
                tally.ended(instance.origin, cloud, how, instance.cores, at_s - instance.start_s)
            case _:
                pass
