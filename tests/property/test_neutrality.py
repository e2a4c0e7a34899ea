"""Names decide nothing: whoever is called otherwise gets the same (P2 §3.1, members are treated alike).

The members get names that sort and hash otherwise; then every decision must be the same one under the new
names: admission with its reasons, shares and caps, placement, eviction, and the order in which clouds are
asked.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract import Advert, CloudInfo, SpotRequest
from broker.requests.routing import Member, route
from cloudsim.admission.fair_share import FairShare
from cloudsim.admission.origin_caps import SpotCaps
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.ranking import rank_quotes
from cloudsim.federation.replay import replay
from cloudsim.model.changes import Ended, Started
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from cloudsim.scheduling.lineups import LINEUPS, LineUp
from tests.property.test_fair_share import NODES
from tests.unit.workers.owners import harmless_table, load

OLD = ("a", "b", "c")
NAMES = st.permutations([*OLD, "Zürich", "0", "zz"]).map(lambda names: dict(zip(OLD, names, strict=False)))
#: Seconds that pass, whose request, its cores and SLA; nobody's is an own user's.
ASKED = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 5.0]),
        st.sampled_from([*OLD, None]),
        st.integers(1, 3),
        st.sampled_from([None, 0.2, 0.5]),
    ),
    max_size=40,
)


def decisions(
    lineup: LineUp, nodes: tuple[int, ...], asked: list[Any], names: dict[str, str], grace_s: float
) -> list[Any]:
    """What the cloud decides, told without names of members."""
    spec = CloudSpec(
        names["a"],
        nodes,
        lineup=lineup,
        grace_s=grace_s,
        spot_caps=SpotCaps(9, ((names["b"], 6),)),
        fair_share=FairShare(20.0, ((names["c"], 2.0),)),
    )
    cloud = Cloud(spec)
    cloud.table = harmless_table(nodes)
    told: list[Any] = []
    for number, (seconds, origin, cores, sla) in enumerate(asked):
        told.append(cloud.advance(cloud.now_s + seconds))
        if origin is None:
            request = Request(f"r{number}", Kind.ON_DEMAND, cores, 3.0, origin=names["a"])
            told.append(cloud.start_on_demand(request, cloud.now_s))
            continue
        request = Request(f"r{number}", Kind.SPOT, cores, 30.0, sla, names[origin])
        told.append(cloud.consider(request))
        if isinstance(told[-1], Quote):
            told.append(cloud.admit(request, cloud.now_s))
    return [_unnamed(one, names) for one in told]


def _unnamed(told: Any, names: dict[str, str]) -> Any:
    """With the old names in place of the new ones."""
    old = {new: name for name, new in names.items()}
    if isinstance(told, list):
        return [_unnamed(one, names) for one in told]
    if isinstance(told, Quote | Refusal):
        return replace(told, cloud=old[told.cloud])
    if hasattr(told, "instance"):
        return replace(told, instance=replace(told.instance, origin=old[told.instance.origin]))
    if hasattr(told, "refusal"):
        request = replace(told.request, origin=old[told.request.origin])
        return replace(told, request=request, refusal=_unnamed(told.refusal, names))
    return told


@pytest.mark.parametrize("lineup", LINEUPS, ids=[one.name for one in LINEUPS])
@settings(max_examples=25)
@given(nodes=NODES, asked=ASKED, names=NAMES, grace_s=st.sampled_from([0.0, 2.0]))
def test_admission_placement_and_eviction(
    lineup: LineUp, nodes: tuple[int, ...], asked: list[Any], names: dict[str, str], grace_s: float
) -> None:
    same = dict(zip(OLD, OLD, strict=True))
    assert decisions(lineup, nodes, asked, same, grace_s) == decisions(lineup, nodes, asked, names, grace_s)


def test_what_is_compared_above_holds_evictions() -> None:
    asked = [(0.0, "a", 1, None)] * 3 + [(0.0, "b", 1, None), (0.0, "c", 1, 0.2), (0.0, None, 2, None)]
    told = decisions(LINEUPS[0], (3,), asked, dict(zip(OLD, OLD, strict=True)), 0.0)
    changes = [one for some in told if isinstance(some, list) for one in some]
    assert any(isinstance(one, Ended) for one in changes)
    assert any(isinstance(one, Started) and one.instance.kind is Kind.ON_DEMAND for one in changes)


QUOTES = st.lists(st.integers(0, 3), min_size=1, max_size=6)


@given(slots=QUOTES, data=st.data())
def test_ranking(slots: list[int], data: st.DataObject) -> None:
    """In the replay and in trace time: by free slots, then by the order in which the clouds joined."""
    clouds = [f"c{number}" for number in range(len(slots))]
    renamed = data.draw(st.permutations(clouds))
    ranked = [
        [quote.cloud for quote in rank_quotes(
            (order, Quote(name, 1, free, None, None, None, None))
            for order, (name, free) in enumerate(zip(names, slots, strict=True))
        )]
        for names in (clouds, renamed)
    ]  # fmt: skip
    assert [dict(zip(clouds, renamed, strict=True))[cloud] for cloud in ranked[0]] == ranked[1]


@given(slots=QUOTES, fair=st.booleans(), data=st.data())
def test_routing(slots: list[int], fair: bool, data: st.DataObject) -> None:
    """In wall time the same, by adverts."""
    clouds = [f"c{number}" for number in range(len(slots))]
    renamed = data.draw(st.permutations(clouds))
    wish = SpotRequest(id="r", origin="somebody", cores=1, lifetime_s=60)
    routes = []
    for names in (clouds, renamed):
        members = [_member(name, order, slots[order], fair) for order, name in enumerate(names)]
        routes.append(route(wish, data.draw(st.permutations(members)), most=4))
    new = dict(zip(clouds, renamed, strict=True))
    assert [new[cloud] for cloud in routes[0].candidates] == list(routes[1].candidates)
    refusals = [replace(one, cloud=new[one.cloud]) for one in routes[0].passed_over]
    assert refusals == list(routes[1].passed_over)


def _member(name: str, order: int, free: int, fair: bool) -> Member:
    info = CloudInfo(id=name, order=order, nodes="1x4", cores=4, largest_node=4, time="wall", fair_share=fair)
    advert = Advert(
        cloud=name, at="2026-01-01T00:00:00+00:00", at_s=0, epoch=1, free_cores=free, on_demand_cores=0,
        spot_cores=0, spot_leases=0, free_slots={1: free}, table_version=None, table_made_at_s=None,
        evicted=0, admitted=0,
    )  # fmt: skip
    return Member(info, advert)


def test_a_replayed_federation() -> None:
    """All of it: own loads, overflow, workloads with and without a promise."""
    reports = [_report(names) for names in itertools.islice(itertools.permutations(OLD), 0, 6, 2)]
    assert reports[0] == reports[1] == reports[2]
    refusals = Counter[str]()
    for origin in reports[0]["origins"].values():
        refusals.update(origin["refusals"])
    assert {"over_fair_share", "no_capacity"} <= set(refusals)
    assert any(one["own_requests"]["offered"] for one in reports[0]["overflow"].values())
    assert any(one["evicted"] for one in reports[0]["origins"].values())


def _report(names: tuple[str, ...]) -> dict[str, Any]:
    """The report under the old names."""
    rule = FairShare(7200.0)
    own = [
        load(*((h * 3600.0 + s, (h + s % 3 + 1) * 3600.0, 1 + (h + s) % 4) for h in range(60)))
        for s in range(3)
    ]
    clouds = tuple(
        FederatedCloud(CloudSpec(name, (4, 2), fair_share=rule), "4,2", trace, overflow=True)
        for name, trace in zip(names, own, strict=True)
    )
    wishes = load(*((h * 1800.0, h * 1800.0 + 5400.0, 1 + h % 2) for h in range(100)))
    workloads = tuple(
        Workload(name, wishes, 60.0 * order, sla, tuple(other for other in names if other != name))
        for order, (name, sla) in enumerate(zip(names, (None, 0.3, None), strict=True))
    )
    report = replay(Federation(clouds, workloads), seed=1, births=50)
    for part in ("clouds", "origins", "overflow"):
        report[part] = {old: report[part][name] for old, name in zip(OLD, names, strict=True)}
    return report
