"""In trace time the live owner decides exactly what the in-process replay decides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from broker.contract import (
    Ask,
    Confirm,
    Drain,
    EventKind,
    Finish,
    RefusalView,
    Reopen,
    Reply,
    Reserve,
    commands,
    replies,
)
from broker.contract.convert import to_needs_fields, to_quote
from cloudsim.admission.rule import AdmissionRule
from cloudsim.cloud.spec import CloudSpec, sampler_spec
from cloudsim.federation.model import FederatedCloud, Federation, PlannedDrain, Workload
from cloudsim.federation.ranking import rank_quotes
from cloudsim.federation.replay import replay
from cloudsim.federation.report import Tally
from cloudsim.model.changes import RENEWAL, End
from cloudsim.model.requests import Kind, Mode
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.rule import CAREFUL_RULE
from cloudsim.traces.synthesis import lognormal_trace
from cloudsim.traces.trace import Trace
from tests.unit.workers.owners import NOW, Live, command_id
from workers.owner.state import OwnerSpec

SEED, BIRTHS = 7, 100

#: Requests between two crashes of all owners: two crashes of each.
CRASHES = 1000

#: When an operator gives a cloud a command.
Order = tuple[float, str, Drain | Reopen]


def federation(
    mode: Mode = Mode.STRICT, grace_s: float = 0.0, *, gangs: bool = False, least_s: float | None = None
) -> Federation:
    traces = [lognormal_trace(np.random.default_rng(seed), hours=32, name=f"t{seed}") for seed in range(4)]
    if gangs:
        traces[:2] = [with_parallel_jobs(trace) for trace in traces[:2]]
    clouds = [
        FederatedCloud(
            CloudSpec(
                name, (4,) * 7, grace_s=grace_s, admission=AdmissionRule(mode), prediction=CAREFUL_RULE
            ),
            "7x4",
            trace,
        )
        for name, trace in zip("AB", traces, strict=False)
    ]
    workloads = [
        Workload("A", traces[2], 16 * 3600.0, 0.1, ("A", "B"), least_s=least_s),
        Workload("B", traces[3], 20 * 3600.0, None, ("B",)),
    ]
    return Federation(tuple(clouds), tuple(workloads))


def with_parallel_jobs(trace: Trace) -> Trace:
    """The trace with each third instance a job, some of them wider than a node."""
    cores = np.where(np.arange(len(trace)) % 3 == 0, trace.cores + np.arange(len(trace)) % 8, trace.cores)
    return replace(trace, cores=cores, parallel=cores > trace.cores)


class Member(Live):
    """An owner whose tables are made in this process, and its part of the report."""

    def __init__(self, member: FederatedCloud, whole: Federation):
        load, until_s = member.own_load, whole.ends_s
        super().__init__(OwnerSpec(member.spec, trace_time=True, own_load=load, own_load_until_s=until_s))
        sampler = sampler_spec(member.spec, SEED, BIRTHS)
        self.predictor = LocalPredictor(sampler, whole.spot_flavours(member), member.spec.prediction)
        self.tables = 0

    def tell(self, command: Any, at_s: float = 0.0) -> Any:
        """Command and answer as they cross the wire: JSON."""
        (heard,) = commands.validate_json(commands.dump_json([command]))
        reply = Reply(command=command.id, answer=super().tell(heard, at_s))
        (answered,) = replies.validate_json(replies.dump_json([reply]))
        return answered.answer

    def ask(self, command: Any) -> Any:
        while (due_s := self.owner.table_due(command)) is not None:
            self.take(self.owner.reach_boundary(due_s, NOW))
            table = self.predictor.table(self.owner.cloud.history.cut(due_s), due_s)
            self.take(self.owner.adopt(table, "2026-01-01T00:00:00+00:00"))
            self.tables += 1
        return self.tell(command)


def tell_due(members: dict[str, Member], orders: list[Order], before_s: float) -> None:
    """Give the orders that come before a moment, each when its cloud has reached its time."""
    while orders and orders[0][0] < before_s:
        at_s, cloud, order = orders.pop(0)
        members[cloud].advance(at_s)
        members[cloud].tell(order)


def drive(whole: Federation, crash_every: float, orders: list[Order] | None = None) -> dict[str, Any]:
    """The driver of a live federation, without the network between it and the owners."""
    members = {cloud.spec.id: Member(cloud, whole) for cloud in whole.clouds}
    order = list(members)
    tally = Tally(whole)
    orders = list(orders or [])
    for number, (at_s, request, targets) in enumerate(whole.requests()):
        tell_due(members, orders, at_s)
        tally.asked(request)
        wish = {
            "request": request.id, "origin": request.origin, "cores": request.cores,
            "lifetime_s": request.lifetime_s, "sla": request.sla, "at_s": at_s, **to_needs_fields(request),
            "pool": request.pool, "least_s": request.least_s,
        }  # fmt: skip
        quotes = []
        for target in targets:
            answer = members[target].ask(Ask.model_validate(command_id() | wish))
            if isinstance(answer, RefusalView):
                tally.refused(request.id, answer.cloud, answer.reason)
            else:
                quotes.append((order.index(target), to_quote(answer)))
        for quote in rank_quotes(quotes)[:1]:
            attempt = f"{request.id}.1"
            member = members[quote.cloud]
            granted = member.ask(Reserve.model_validate(command_id() | wish | {"attempt": attempt}))
            assert granted.lease.eviction_probability == quote.eviction_probability
            member.tell(Confirm(**command_id(), attempt=attempt, at_s=at_s))
            tally.admitted(request.id, quote.cloud)
        if number % crash_every == crash_every - 1:
            for member in members.values():
                table = member.owner.cloud.table
                member.crash()
                member.owner.cloud.table = table
    for cloud, member in members.items():
        member.ask(Finish(**command_id()))
        count(tally, cloud, member)
        member.owner.validate()
        assert member.tables > 1
    return tally.as_dict()


def count(tally: Tally, cloud: str, member: Member) -> None:
    for event in member.events:
        lease = event.lease
        if event.kind is EventKind.TURNED_AWAY:
            tally.on_demand(cloud, requests=1, admitted=0)
        elif event.kind is EventKind.EXTENDED and event.cause == RENEWAL:
            assert lease is not None
            tally.renewed(lease.request)
        elif lease is not None and lease.ended_at_s is not None:
            tally.used(cloud, lease.cores, lease.starts_at_s, lease.ended_at_s)
            if lease.kind is Kind.SPOT:
                ran_s = lease.ended_at_s - lease.starts_at_s
                tally.ended(lease.request, cloud, End(lease.state.value), ran_s)
        elif lease is not None and lease.kind is Kind.ON_DEMAND and event.kind is EventKind.ADMITTED:
            tally.on_demand(cloud, requests=1, admitted=1)


def test_so_they_do_with_renewals() -> None:
    whole = federation(least_s=60.0)
    whole = replace(whole, workloads=(with_long_ones(whole.workloads[0]), *whole.workloads[1:]))
    expected = replay(whole, seed=SEED, births=BIRTHS)
    assert drive(whole, crash_every=CRASHES) == expected
    promises = expected["origins"]["A"]["promises"]
    assert promises["made"] > expected["origins"]["A"]["admitted"]
    assert promises["not_renewed"] > 0


def with_long_ones(workload: Workload) -> Workload:
    """The workload with each tenth instance twenty times as long."""
    trace = workload.trace
    lifetime_s = np.where(np.arange(len(trace)) % 10 == 0, 20 * trace.lifetime_s, trace.lifetime_s)
    return replace(workload, trace=replace(trace, stop_s=trace.start_s + lifetime_s))


GRACE_S = 600.0


def test_so_they_do_with_drains() -> None:
    whole = federation(grace_s=GRACE_S)
    drains = (PlannedDrain(90_000.5, (0, 1), 100_000.5), PlannedDrain(110_000.5))
    planned = replace(whole, clouds=(replace(whole.clouds[0], drains=drains), whole.clouds[1]))
    expected = replay(planned, seed=SEED, births=BIRTHS)
    orders: list[Order] = [
        (90_000.5, "A", Drain(**command_id(), nodes=(0, 1), by="ops")),
        (100_000.5, "A", Reopen(**command_id(), nodes=(0, 1), by="ops")),
        (110_000.5, "A", Drain(**command_id(), nodes=None, by="ops")),
    ]
    assert drive(whole, crash_every=CRASHES, orders=orders) == expected
    assert expected["origins"]["A"]["refusals"]["no_such_node"] > 0, "all nodes are closed in the end"


def test_so_they_do_with_notices() -> None:
    whole = federation(grace_s=GRACE_S)
    expected = replay(whole, seed=SEED, births=BIRTHS)
    assert drive(whole, crash_every=CRASHES) == expected
    assert expected["total"]["evicted"] > 0
    for cloud in whole.clouds:
        starts_s = cloud.own_load.start_s
        asked = int((starts_s <= whole.ends_s).sum())
        assert expected["clouds"][cloud.spec.id]["on_demand"]["requests"] == asked, "each is counted once"


@pytest.mark.parametrize("grace_s", [0.0, GRACE_S])
def test_so_they_do_with_gangs(grace_s: float) -> None:
    whole = federation(grace_s=grace_s, gangs=True)
    expected = replay(whole, seed=SEED, births=BIRTHS)
    assert drive(whole, crash_every=CRASHES) == expected
    assert expected["total"]["evicted"] > 0
    assert all(cloud.own_load.parallel.any() for cloud in whole.clouds)


@pytest.mark.parametrize(("mode", "crash_every"), [(Mode.STRICT, math.inf), (Mode.POPULATION, CRASHES)])
def test_the_owners_give_the_report_of_the_replay(mode: Mode, crash_every: float) -> None:
    whole = federation(mode)
    expected = replay(whole, seed=SEED, births=BIRTHS)
    assert expected["total"]["evicted"] > 0
    assert drive(whole, crash_every) == expected
    if mode is Mode.POPULATION:
        strict = replay(federation(), seed=SEED, births=BIRTHS)
        assert expected["total"]["admitted"] != strict["total"]["admitted"], "the mode did nothing"
