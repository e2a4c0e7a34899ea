"""Routing: who is asked, in which order, and who is passed over because it would certainly refuse."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract import Advert, CloudInfo, Room, SpotRequest
from broker.requests.routing import (
    Member,
    ReservedRoom,
    TableCell,
    TableSummary,
    UnfittableError,
    UnknownTargetError,
    count_free_slots,
    find_smaller_sizes,
    route,
)
from cloudsim.admission.rule import examine
from cloudsim.model.instances import Instance
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Amounts, Kind, Mode, Request
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.inventory import Inventory


def member(
    cloud: str, order: int, slots: dict[int, int], *, largest: int = 8, free: int | None = None, **fields: Any
) -> Member:
    info = CloudInfo(id=cloud, order=order, nodes="", cores=64, largest_node=largest, time="wall")
    advert = Advert(
        cloud=cloud,
        at="2026-01-01T00:00:00+00:00",
        at_s=0,
        epoch=1,
        free_cores=max((size * count for size, count in slots.items()), default=0) if free is None else free,
        on_demand_cores=0,
        spot_cores=0,
        spot_leases=0,
        free_slots=slots,
        table_version=fields.pop("version", None),
        table_made_at_s=None,
        evicted=0,
        admitted=0,
    )
    return Member(info, advert, **fields)


def wish(**fields: Any) -> SpotRequest:
    return SpotRequest(**({"cores": 2, "lifetime_s": 100} | fields))


def smaller_size(request: SpotRequest, member: Member) -> int | None:
    sizes = find_smaller_sizes(request, member)
    return next((cores for cores, longest_s in sizes if (request.lifetime_s or 0) <= longest_s), None)


def reasons(refusals: tuple[Refusal, ...]) -> dict[str, RefusalReason]:
    return {refusal.cloud: refusal.reason for refusal in refusals}


def test_fewest_free_slots_first_then_cloud_order() -> None:
    members = [
        member("wide", 0, {2: 9}),
        member("z-tied", 1, {2: 3}),
        member("a-tied", 2, {2: 3}),
        member("tight", 3, {2: 1}),
    ]
    assert route(wish(), members, most=9).candidates == ("tight", "z-tied", "a-tied", "wide")
    assert route(wish(), members[::-1], most=9) == route(wish(), members, most=9)
    assert route(wish(), members, most=2).candidates == ("tight", "z-tied")


def test_who_would_certainly_refuse_is_passed_over_with_the_reason() -> None:
    members = [
        member("home", 0, {2: 5}),
        member("small", 1, {1: 9}, largest=1),
        member("full", 2, {2: 0}),
        member("silent", 3, {2: 5}, reachable=False),
        Member(CloudInfo(id="new", order=4, nodes="", cores=8, largest_node=8, time="wall"), reachable=False),
        member("fine", 5, {2: 5}),
    ]
    found = route(wish(origin="home"), members, most=9)
    assert found.candidates == ("fine",)
    assert reasons(found.passed_over) == {
        "home": RefusalReason.NOT_A_TARGET,
        "small": RefusalReason.TOO_LARGE,
        "full": RefusalReason.NO_CAPACITY,
        "silent": RefusalReason.UNREACHABLE,
        "new": RefusalReason.UNREACHABLE,
    }


def test_targets_limit_who_is_asked_even_to_the_origin_itself() -> None:
    members = [member("home", 0, {2: 5}), member("other", 1, {2: 5})]
    found = route(wish(origin="home", targets=("home",)), members, most=9)
    assert found.candidates == ("home",)
    assert reasons(found.passed_over) == {"other": RefusalReason.NOT_A_TARGET}
    with pytest.raises(UnknownTargetError, match="home, other"):
        route(wish(targets=("nowhere",)), members, most=9)


def test_too_large_for_everyone_is_an_error_and_for_the_targets_a_refusal() -> None:
    members = [member("small", 0, {}, largest=4), member("large", 1, {}, largest=16)]
    with pytest.raises(UnfittableError, match="16 cores"):
        route(wish(cores=17), members, most=9)
    found = route(wish(cores=16, targets=("small",)), members, most=9)
    assert reasons(found.passed_over)["small"] is RefusalReason.TOO_LARGE


def test_a_list_spreads_over_clouds_before_the_adverts_tell() -> None:
    members = [member("tight", 0, {2: 2}, free=4), member("wide", 1, {2: 9}, free=18)]
    reserved = ReservedRoom()
    firsts = []
    for _ in range(4):
        firsts.append(route(wish(), members, most=9, reserved=reserved).candidates[0])
        reserved.add(firsts[-1], 2)
    assert firsts == ["tight", "tight", "wide", "wide"]


SIZES = st.integers(1, 12)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), SIZES, st.sets(SIZES))
def test_slots_are_zero_only_where_that_is_certain(free: list[int], cores: int, listed: set[int]) -> None:
    slots = {size: sum(node // size for node in free) for size in listed}
    advert = member("a", 0, slots, free=sum(free)).advert
    assert advert is not None
    told = count_free_slots(advert.room(promised=False), cores)
    assert told is None or told == sum(node // cores for node in free)


# -- tables ---------------------------------------------------------------------------------------------


def published(table: QuantileTable) -> TableSummary:
    text = json.dumps({"version": table.version, "made_at_s": table.made_at_s, "rows": table.rows()})
    return TableSummary.from_json(text)


def some_table(seed: int) -> QuantileTable:
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 400))
    samples = Samples(
        cores=2,
        until_s=0.0,
        level=0,
        number=np.arange(n),
        birth_s=np.zeros(n),
        free_slots=random.integers(1, 20, n).astype(np.int32),
        duration_s=random.exponential(1000.0, n),
        evicted=random.random(n) < 0.7,
        span_s=np.zeros(n),
    )
    return QuantileTable.from_samples([samples], (8,) * 10, 0.0)


@given(
    seed=st.integers(0, 10**6),
    slots=st.integers(0, 40),
    lifetime_s=st.floats(0, 5000),
    sla=st.one_of(st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5, 0.0]), st.floats(0, 0.99)),
)
def test_the_table_is_believed_only_where_the_owner_would_refuse(
    seed: int, slots: int, lifetime_s: float, sla: float
) -> None:
    table = some_table(seed)
    one = member("a", 0, {2: max(slots, 1)}, version=table.version, table=published(table))
    found = route(wish(lifetime_s=lifetime_s, sla=sla), [one], most=9)
    if found.passed_over:
        inventory = Inventory((80,))  # whatever is free when the owner looks
        if slots < 40:
            inventory.place(Instance("x", Kind.ON_DEMAND, 80 - 2 * slots, 0, 0.0, 1.0, 0))
        request = Request("r", Kind.SPOT, 2, lifetime_s, sla)
        refusal = examine("a", request, inventory, table, 0.0)
        assert isinstance(refusal, Refusal)
        (told,) = found.passed_over
        assert told.reason in (RefusalReason.RISK_TOO_HIGH, RefusalReason.NO_EVIDENCE)
        counter_s = told.survives_s
        if counter_s and slots:
            assert table.estimate(2, slots, counter_s).eviction_probability <= sla + 1e-12


def test_an_advert_that_names_another_table_leaves_it_to_the_owner() -> None:
    table = some_table(3)
    hopeless = wish(lifetime_s=1e9, sla=0.01)
    same = member("a", 0, {2: 5}, version=table.version, table=published(table))
    other = member("a", 0, {2: 5}, version="newer", table=published(table))
    none = member("a", 0, {2: 5})
    assert route(hopeless, [same], most=9).candidates == ()
    assert route(hopeless, [other], most=9).candidates == ("a",)
    assert reasons(route(hopeless, [none], most=9).passed_over) == {"a": RefusalReason.NO_TABLE}
    assert route(wish(sla=1), [none], most=9).candidates == ("a",)


def test_the_largest_smaller_size_that_an_advert_vouches_for() -> None:
    cells: dict[tuple[int, Amounts], tuple[TableCell, ...]] = {
        (cores, ()): (TableCell(1, 9, 900.0, ((0.1, seconds), (0.5, 900.0))),)
        for cores, seconds in ((1, 200.0), (2, 100.0), (4, 50.0))
    }
    slots = {1: 9, 2: 4, 4: 2, 8: 0}
    east = member("east", 0, slots, version="v", table=TableSummary("v", 0.0, cells))
    assert smaller_size(wish(cores=8), east) == 4
    assert smaller_size(wish(cores=8, sla=0.1), east) == 2
    assert smaller_size(wish(cores=8, sla=0.2, lifetime_s=150), east) == 1
    assert smaller_size(wish(cores=8, sla=0.5, lifetime_s=150), east) == 4
    assert smaller_size(wish(cores=8, sla=0.05), east) is None
    assert smaller_size(wish(cores=1), east) is None
    older = member("east", 0, slots, version="w", table=TableSummary("v", 0.0, cells))
    assert smaller_size(wish(cores=8, sla=0.1), older) is None
    assert smaller_size(wish(cores=8), Member(east.info, east.advert, reachable=False)) is None


def test_a_promise_is_asked_for_where_only_leases_without_one_are_in_the_way() -> None:
    full = member("full", 0, {2: 0}, free=0, version="v")
    assert full.advert is not None
    room = Room(free_cores=8, free_slots={2: 4})
    yielding = dataclasses.replace(full, advert=full.advert.model_copy(update={"promised_room": room}))
    assert reasons(route(wish(), [yielding], most=9).passed_over) == {"full": RefusalReason.NO_CAPACITY}
    assert route(wish(sla=0.1), [yielding], most=9).candidates == ("full",)
    assert reasons(route(wish(sla=0.1), [full], most=9).passed_over) == {"full": RefusalReason.NO_CAPACITY}


def test_a_cloud_in_population_mode_is_asked_whatever_its_table_says() -> None:
    table = some_table(1)
    strict = member("a", 0, {2: 4}, version=table.version, table=published(table))
    assert strict.advert is not None
    asked = wish(lifetime_s=1e9, sla=0.01)
    assert route(asked, [strict], most=9).candidates == ()
    advert = strict.advert.model_copy(update={"admission": Mode.POPULATION})
    assert route(asked, [dataclasses.replace(strict, advert=advert)], most=9).candidates == ("a",)
