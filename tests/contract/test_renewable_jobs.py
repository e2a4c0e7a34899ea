"""A batch job that is longer than any cloud can promise runs on a renewable lease."""

from __future__ import annotations

import time
from typing import Any

import pytest

from broker.client import Client
from broker.jobs.backup_servers import BackupServers
from broker.jobs.events import JobPlanned, JobSubmitted
from broker.jobs.models import JobWish
from broker.jobs.record import JobRecord, apply_entry, fold_entries
from broker.jobs.work_queue import WorkStore
from cloudsim.model.requests import LEAST_S
from tests.contract.harness import KEY, Federation
from tests.contract.test_extensions import HOURS
from tests.support.wait import wait_until
from workers.job_manager.effects import JobEffects
from workers.job_manager.market_client import MarketClient
from workers.job_manager.observation import Grant
from workers.job_manager.planner import choose_plan
from workers.job_manager.planning_input import PlanningInput, quoted_lifetime_s


def job(**wish: Any) -> JobRecord:
    terms = {"command": ["loop"], "profile": {"work_s": 18_000.0, "memory_gb": 0.01}, "checkpoint": {}} | wish
    wanted = JobWish.model_validate(terms)
    submitted = JobSubmitted(at=0.0, job="j", wish=wanted, holder="ann", origin="user", home=None)
    return fold_entries([submitted])


@pytest.fixture
def works(federation: Federation) -> WorkStore:
    federation.join("a", (3,), runs_commands=True).owner.cloud.table = HOURS
    federation.redis.set(federation.keys.agent("a"), "alive")
    return WorkStore(federation.redis, federation.keys)


def advertises_table(client: Client) -> bool:
    """Whether requests are routed by the cloud's table."""
    advert = client.clouds.get("a").advert
    return advert is not None and advert.table_version is not None


def test_what_is_promised_in_part_is_asked_for_as_renewable(federation: Federation, works: WorkStore) -> None:
    with Client(federation.url, KEY) as client:
        wait_until(lambda: advertises_table(client), "a table")
        planning = PlanningInput(job(), time.time())
        market = MarketClient(client, works).market(planning.job, quoted_lifetime_s(planning))
        (offer,) = market.offers
        assert (offer.lifetimes.lifetime_s, offer.lifetimes.risk) == (3600.0, 0.0)
        assert offer.wanted_s == quoted_lifetime_s(planning)
        planned = choose_plan(planning, market)
        assert isinstance(planned, JobPlanned)
        (attempt,) = planned.attempts
        assert (attempt.lifetime_s, attempt.least_s, attempt.sla) == (offer.wanted_s, LEAST_S, 0.05)
        record = apply_entry(planning.job, planned)
        effects = JobEffects(client, works, BackupServers(federation.redis, federation.keys))
        (grant,) = effects.request_instances(record, record.attempts[0]).values()
        assert isinstance(grant, Grant)
        lease = client.leases.get(grant.lease)
        assert (lease.ends_at_s, lease.wanted_until_s) == (
            lease.starts_at_s + 3600.0,
            lease.starts_at_s + offer.wanted_s,
        )


def test_what_must_not_run_twice_and_what_can_be_promised_is_not(
    federation: Federation, works: WorkStore
) -> None:
    with Client(federation.url, KEY) as client:
        wait_until(lambda: advertises_table(client), "a table")
        markets = MarketClient(client, works)
        (once,) = markets.market(job(idempotent=False), 33_750.0).offers
        assert (once.wanted_s, once.lifetimes.risk) == (None, None)
        (short,) = markets.market(job(), 7_000.0).offers
        assert (short.wanted_s, short.lifetimes.lifetime_s) == (None, 7_000.0)
