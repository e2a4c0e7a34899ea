"""Whatever happens, and whenever a manager is killed: a job ends exactly once, and nothing is left of it."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract import LeaseState
from broker.jobs.events import JobCancelled, JobFailed, JobFinished, parse_entry, serialize_entry
from broker.jobs.models import ENDED, Outcome
from broker.jobs.record import fold_entries
from broker.jobs.view import make_job_view
from cloudsim.jobs.policy_names import PolicyName
from tests.unit.workers.job_manager.made_up_world import World
from tests.unit.workers.job_manager.scenes import wish

PROFILE = {"work_s": 600.0, "memory_gb": 0.01}

WISHES = st.fixed_dictionaries(
    {},
    optional={
        "checkpoint": st.sampled_from([None, {}]),
        "idempotent": st.booleans(),
        "instances": st.sampled_from([1, 1, 3]),
        "profile": st.sampled_from([None, PROFILE, PROFILE | {"memory_gb": 50.0}]),
        "deadline_s": st.sampled_from([700.0, 1500.0, 5000.0]),
        "max_cost": st.sampled_from([0.01, 0.1, 1.0]),
        "max_evictions": st.sampled_from([0, 1, 3]),
        "retries": st.integers(0, 3),
        "name": st.just("loop"),
        "policy": st.sampled_from(list(PolicyName)),
    },
)


@settings(max_examples=100)
@given(
    told=WISHES,
    seed=st.integers(0, 2**32),
    crashes=st.sampled_from([0.0, 0.1, 0.4]),
    cancel_at=st.one_of(st.none(), st.floats(1.0, 900.0)),
    home=st.booleans(),
)
def test_a_job_ends_once_and_leaves_nothing(
    told: dict[str, Any], seed: int, crashes: float, cancel_at: float | None, home: bool
) -> None:
    told = {"profile": PROFILE} | told
    if not home:  # nobody could measure it, and what must not run twice might find no place for ever
        told |= {"profile": told["profile"] or PROFILE, "idempotent": True}
    policy = told.get("policy", PolicyName.COST_AWARE)
    if "checkpoint" in policy.needs:
        told |= {"checkpoint": {}, "instances": 1}
    if "deadline_s" in policy.needs:
        told.setdefault("deadline_s", 1500.0)
    home = home or policy is not PolicyName.COST_AWARE  # without one they would wait for ever
    world = World(wish(**told), seed, crashes, cancel_at, home)
    job = world.run()
    ends = [one for one in world.entries if isinstance(one, JobFinished | JobFailed | JobCancelled)]
    assert len(ends) == 1
    assert job.end is ends[0]
    assert not [one for one in world.leases.values() if one.state is LeaseState.RUNNING]
    assert not world.reports
    begun = [work for work, _ in world.runs]
    assert len(begun) == len(set(begun)), "a piece of work was begun twice"
    won = [one for one in job.attempts if one.ended is not None and one.ended.outcome is Outcome.WON]
    assert len(won) == (1 if isinstance(job.end, JobFinished) else 0)
    if not job.wish.idempotent:
        _never_set_back(job)
    shown = make_job_view(world.entries)
    assert shown.state in ENDED
    assert shown.cost >= 0
    assert fold_entries([parse_entry(serialize_entry(one).encode()) for one in world.entries]) == job


def _never_set_back(job: Any) -> None:
    """Each attempt that ran went on from where the one before it was saved."""
    ran = [one for one in job.attempts if one.started_at is not None]
    for before, after in pairwise(ran):
        assert after.plan.restored_from == before.number
        assert before.ended.lost_s == 0.0
