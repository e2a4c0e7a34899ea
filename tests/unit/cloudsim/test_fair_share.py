"""What an origin may hold of a cloud while others wait for room."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.contract import Ask, EventKind, LeaseGranted, RefusalView, Reserve, SpotRequest
from broker.requests.routing import route
from cloudsim.admission.fair_share import FairShare, held_cores
from cloudsim.admission.origin_caps import SpotCaps
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.file import load_federation as load_file
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.changes import End, Started
from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.traces.trace import Trace
from tests.unit.broker.requests.test_routing import member
from tests.unit.workers.owners import FOREVER_S, Live, cancel, command_id, load
from workers.owner import snapshots
from workers.owner.state import OwnerSpec

WINDOW_S = 600.0


def cloud(nodes: tuple[int, ...] = (12,), weights: tuple[tuple[str, float], ...] = (), **more: Any) -> Cloud:
    return Cloud(CloudSpec("A", nodes, fair_share=FairShare(WINDOW_S, weights), **more))


def wish(name: str, cores: int, origin: str, sla: float | None = None) -> Request:
    return Request(name, Kind.SPOT, cores, 1e6, sla, origin=origin)


def take(cloud: Cloud, name: str, cores: int, origin: str) -> RefusalReason | None:
    """Asks in earnest; why not, or None when it runs."""
    request = wish(name, cores, origin)
    answer = cloud.consider(request)
    if isinstance(answer, Refusal):
        return answer.reason
    assert not isinstance(cloud.admit(request, cloud.now_s), Refusal)
    return None


def fill(cloud: Cloud, origin: str, *sizes: int) -> list[str]:
    names = [f"{origin}-{number}" for number in range(len(sizes))]
    for name, cores in zip(names, sizes, strict=True):
        assert take(cloud, name, cores, origin) is None
    return names


def test_while_nobody_waits_anybody_takes_all() -> None:
    here = cloud()
    fill(here, "hog", *[1] * 12)
    assert take(here, "more", 1, "hog") is RefusalReason.NO_CAPACITY
    here.end("hog-0", 0.0, End.CANCELLED)
    assert take(here, "more", 1, "hog") is None  # it waits itself, and for nobody else


def test_what_becomes_free_goes_to_who_waits() -> None:
    here = cloud()
    names = fill(here, "hog", *[1] * 12)
    assert take(here, "b", 1, "small") is RefusalReason.NO_CAPACITY
    for name in names[:6]:
        here.end(name, 0.0, End.CANCELLED)
    refused = here.quote(wish("h", 1, "hog"))
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.free_slots) == (RefusalReason.OVER_FAIR_SHARE, 6)
    assert fill(here, "small", *[1] * 6)
    assert held_cores(here.inventory) == {"hog": 6, "small": 6}


def test_who_does_not_come_back_keeps_room_free_no_longer_than_the_window() -> None:
    here = cloud()
    names = fill(here, "hog", *[1] * 12)
    assert take(here, "b", 1, "small") is RefusalReason.NO_CAPACITY
    here.end(names[0], 0.0, End.CANCELLED)
    here.advance(WINDOW_S)
    assert isinstance(here.quote(wish("h", 1, "hog")), Refusal)
    here.advance(WINDOW_S + 1)
    assert isinstance(here.quote(wish("h", 1, "hog")), Quote)


def test_a_question_that_is_not_meant_makes_nobody_wait() -> None:
    here = cloud()
    names = fill(here, "hog", *[1] * 12)
    assert isinstance(here.quote(wish("b", 1, "small")), Refusal)
    here.end(names[0], 0.0, End.CANCELLED)
    assert isinstance(here.quote(wish("h", 1, "hog")), Quote)


@pytest.mark.parametrize("cores", [13, 7])
def test_who_would_be_refused_on_the_empty_cloud_does_not_wait(cores: int) -> None:
    """13 fit on no node; own users leave no room for 7."""
    here = cloud()
    here.start_on_demand(Request("own", Kind.ON_DEMAND, 6, None), 0.0)
    names = fill(here, "hog", *[1] * 6)
    assert take(here, "b", cores, "small") in (RefusalReason.TOO_LARGE, RefusalReason.NO_CAPACITY)
    here.end(names[0], 0.0, End.CANCELLED)
    assert isinstance(here.quote(wish("h", 1, "hog")), Quote)


def crowded_table() -> QuantileTable:
    """By which a single core is evicted at once where it has at most six free slots, and never with more."""
    slots = np.repeat(np.arange(1, 13, dtype=np.int32), 200)
    evicted = slots <= 6
    samples = replace(
        Samples.empty(1, FOREVER_S),
        number=np.arange(len(slots)),
        birth_s=np.zeros(len(slots)),
        free_slots=slots,
        duration_s=np.where(evicted, 1.0, FOREVER_S),
        evicted=evicted,
        span_s=np.zeros(len(slots)),
    )
    return QuantileTable.from_samples([samples], (12,), FOREVER_S)


@pytest.mark.parametrize(("fewest", "waits"), [(0, True), (8, False)])
def test_a_risk_that_is_too_high_for_want_of_room_makes_one_wait_too(fewest: int, waits: bool) -> None:
    """But not where own users leave too little room already."""
    here = cloud()
    here.table = crowded_table()
    if fewest:
        here.start_on_demand(Request("own", Kind.ON_DEMAND, fewest, None), 0.0)
    for number in range(11 - fewest):
        count = here.history.instances
        here.apply(Started(Instance(f"h{number}", Kind.SPOT, 1, 0, 0.0, 1e6, count, "hog", sla=0.9)))
    refused = here.consider(wish("b", 1, "small", 0.2))
    assert isinstance(refused, Refusal)
    assert refused.free_slots == 1
    assert isinstance(here.quote(wish("h", 1, "hog")), Refusal if waits else Quote)


def test_shares_are_weighted_and_what_one_does_not_use_is_the_others() -> None:
    rule = FairShare(WINDOW_S, (("big", 3.0),))
    here = cloud((20,))
    here.start_on_demand(Request("own", Kind.ON_DEMAND, 4, None), 0.0)
    assert rule.shares(here.inventory, ["a", "big"]) == {"a": 4.0, "big": 12.0}
    fill(here, "idle", 2)
    assert rule.shares(here.inventory, ["a", "big"]) == {"a": 3.5, "big": 10.5, "idle": 3.5}
    fill(here, "more", *[1] * 12)  # wants no more, and holds more than its share
    shares = rule.shares(here.inventory, ["a", "big"])
    assert shares == pytest.approx({"a": 14 / 5, "big": 42 / 5, "more": 14 / 5, "idle": 14 / 5})
    assert rule.shares(Cloud(CloudSpec("B", (4,))).inventory, ["a"]) == {"a": 4.0}


def test_two_who_are_below_their_shares_do_not_wait_for_each_other() -> None:
    here = cloud((4, 4, 4))
    here.start_on_demand(Request("own", Kind.ON_DEMAND, 2, None), 0.0)
    fill(here, "a", 4)
    fill(here, "b", 4)
    assert take(here, "a-more", 4, "a") is RefusalReason.NO_CAPACITY
    assert take(here, "b-more", 4, "b") is RefusalReason.NO_CAPACITY
    here.end("own", 0.0, End.CANCELLED)
    assert take(here, "a-more", 4, "a") is None


def test_a_cap_is_told_before_a_share() -> None:
    here = cloud(spot_caps=SpotCaps(4))
    fill(here, "hog", *[1] * 4)
    fill(here, "other", 4)
    fill(here, "third", 4)
    assert take(here, "b", 1, "small") is RefusalReason.NO_CAPACITY
    assert take(here, "h", 1, "hog") is RefusalReason.NO_CAPACITY
    here.end("third-0", 0.0, End.CANCELLED)
    assert take(here, "h", 1, "hog") is RefusalReason.OVER_SPOT_CAP


# -- who is asked though it is full ----------------------------------------------------------------------


def test_a_full_cloud_with_fair_shares_is_asked_last_so_that_it_knows_who_waits() -> None:
    """Without fair shares nobody asks it: what its advert says is enough."""
    fair, full, free = member("fair", 0, {2: 0}), member("full", 1, {2: 0}), member("free", 2, {2: 3})
    fair = replace(fair, info=fair.info.model_copy(update={"fair_share": True}))
    found = route(SpotRequest(id="r", cores=2, lifetime_s=100), [fair, full, free], most=4)
    assert found.candidates == ("free", "fair")
    assert [(one.cloud, one.reason) for one in found.passed_over] == [("full", RefusalReason.NO_CAPACITY)]


# -- files, replays, owners ------------------------------------------------------------------------------


def shares_of(tmp_path: Path, lines: str) -> FairShare | None:
    (tmp_path / "a.toml").write_text(
        '[[cloud]]\nid = "A"\nnodes = "2x4"\n'
        f'trace = {{ synthetic = "table-1", hours = 24, seed = 1 }}\n{lines}\n'
    )
    return load_file(tmp_path / "a.toml", None).clouds[0].spec.fair_share


def test_a_federation_file_turns_it_on(tmp_path: Path) -> None:
    assert shares_of(tmp_path, "") is None
    assert shares_of(tmp_path, 'fair_share = "10m"') == FairShare(600.0)
    weighted = shares_of(tmp_path, "fair_share = 60\nfair_share_weights = { C = 2, B = 0.5 }")
    assert weighted == FairShare(60.0, (("B", 0.5), ("C", 2.0)))


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ("fair_share = 0", "fair_share"),
        ("fair_share = true", "fair_share"),
        ('fair_share = "soon"', "fair_share"),
        ("fair_share_weights = { B = 2 }", "fair_share_weights"),
        ("fair_share = 60\nfair_share_weights = 2", "fair_share_weights"),
        ("fair_share = 60\nfair_share_weights = { B = 0 }", "fair_share_weights.B"),
        ("fair_share = 60\nfair_share_weights = { B = true }", "fair_share_weights.B"),
        ("fair_share = 60\nfair_share_weights = { B = nan }", "fair_share_weights.B"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, lines: str, field: str) -> None:
    with pytest.raises(SpecError, match=rf"cloud\[0\]\.{field}:".replace(".B", r"\.B")):
        shares_of(tmp_path, lines)


def workload(origin: str, *rows: tuple[float, float, int]) -> Workload:
    start_s, stop_s, cores = zip(*rows, strict=True)
    names = [f"{origin}{number}" for number in range(len(rows))]
    return Workload(origin, Trace.checked("t", names, start_s, stop_s, cores), 0.0, None, ("A",))


@pytest.mark.parametrize(("share", "admitted"), [(None, (8, 0)), (FairShare(100.0), (6, 2))])
def test_a_replay_shares_alike(share: FairShare | None, admitted: tuple[int, int]) -> None:
    """Two of the hog's four end at a time, and it asks first for their room. The live owner of a cloud in
    trace time decides the same."""
    spec = CloudSpec("A", (4,), fair_share=share)
    own = load((1000.0, 1000.0, 1))
    hog = [(0.0, 100.0, 1), (0.0, 100.0, 1), (0.0, 200.0, 1), (0.0, 200.0, 1)]
    again = [(100.0, 300.0, 1), (100.0, 300.0, 1), (200.0, 300.0, 1), (200.0, 300.0, 1)]
    small = [(50.0, 60.0, 1), (100.0, 500.0, 1), (100.0, 500.0, 1), (200.0, 500.0, 1)]
    federation = Federation(
        (FederatedCloud(spec, "1x4", own),), (workload("hog", *hog, *again), workload("small", *small))
    )
    origins = replay(federation, seed=0, births=10)["origins"]
    assert (origins["hog"]["admitted"], origins["small"]["admitted"]) == admitted
    if share is not None:
        assert origins["hog"]["refusals"]["over_fair_share"] == 2
    live = Live(OwnerSpec(spec, trace_time=True))
    refused = Counter[tuple[str, str]]()
    for at_s, request, _ in federation.requests():
        wish = {"request": request.id, "origin": request.origin, "cores": 1, "sla": None, "at_s": at_s}
        answer = live.tell(Ask(**command_id(), lifetime_s=request.lifetime_s, **wish))
        if isinstance(answer, RefusalView):
            refused[request.origin, answer.reason] += 1
            continue
        reserve = Reserve(**command_id(), attempt=f"{request.id}.1", lifetime_s=request.lifetime_s, **wish)
        assert isinstance(live.tell(reserve), LeaseGranted)
    replayed = {(name, why): n for name in ("hog", "small") for why, n in origins[name]["refusals"].items()}
    assert refused == replayed


def wanted(attempt: str, origin: str, cores: int = 1) -> Reserve:
    return Reserve(
        **command_id(), attempt=attempt, request=attempt.partition(".")[0], origin=origin, cores=cores,
        lifetime_s=1e5, sla=None,
    )  # fmt: skip


def test_an_owner_knows_who_waits_also_after_a_restart() -> None:
    spec = OwnerSpec(CloudSpec("A", (4,), fair_share=FairShare(WINDOW_S)))
    live = Live(spec)
    for number in range(4):
        live.tell(wanted(f"h{number}.1", "hog"))
    live.tell(wanted("s.1", "small"), 5.0)
    assert live.events[-1].kind is EventKind.DECLINED
    assert live.events[-1].waits == "small"
    live.tell(cancel("h0.1"), 6.0)
    packed = snapshots.pack(snapshots.take(live.owner.state, "1-1", "hash"))
    live.crash()
    assert live.owner.cloud.contention.refused_at_s == {"small": 5.0}
    refused = live.tell(wanted("h9.1", "hog"), 7.0)
    assert isinstance(refused, RefusalView)
    assert (refused.reason, refused.counter_offers.cores) == (RefusalReason.OVER_FAIR_SHARE, None)
    restored = snapshots.restored(spec, snapshots.unpack(packed))
    assert restored.cloud.contention.refused_at_s == {"small": 5.0}


def test_where_shares_are_not_fair_nothing_is_noted() -> None:
    live = Live(OwnerSpec(CloudSpec("A", (4,))))
    live.tell(wanted("h.1", "hog", 4))
    live.tell(wanted("s.1", "small"), 5.0)
    assert '"waits"' not in live.events[-1].model_dump_json()
    assert live.owner.cloud.contention.refused_at_s == {}
