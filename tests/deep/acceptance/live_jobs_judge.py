"""What a live run of batch jobs must have kept to, and what was seen in it, by journals, views and logs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psutil

from broker.client import Client, NotFoundError
from broker.contract import LeaseState
from broker.jobs.events import AttemptBegan, JobEntry, JobFinished, JobPlanned, make_work_id
from broker.jobs.models import ENDED, Attempt, JobState, JobView, Outcome
from broker.storage.keys import RedisKeys
from tests.deep.acceptance.live_jobs_loop import STEP_S, result
from tests.deep.acceptance.live_jobs_mix import CLOUDS, ON_DEMAND, LiveJob

#: After the last job's end all that it used is given back within so long.
SETTLE_S = 90.0
#: What a run of all kinds of job shows at least once.
SIGHTS = (
    "migration",
    "restored checkpoint",
    "winning replica",
    "parallel job",
    "profiled job",
    "shared backup",
)


@dataclass(frozen=True)
class Seen:
    """One job at the end. outputs: of the attempt that won, by rank."""

    job: LiveJob
    view: JobView
    entries: Sequence[JobEntry]
    outputs: tuple[str, ...]

    def attempt(self, number: int) -> Attempt:
        """One of its attempts."""
        return next(one for one in self.view.attempts if one.number == number)

    @property
    def servers(self) -> set[str]:
        """The shared servers that its backups had; some of these became the job itself."""
        plans = [one for entry in self.entries if isinstance(entry, JobPlanned) for one in entry.attempts]
        backups = {one.number for one in plans if one.role == "backup"}
        began = [one for one in self.entries if isinstance(one, AttemptBegan) and one.attempt in backups]
        return {server for one in began for server in one.leases}

    @property
    def alone_s(self) -> float:
        """What the loop itself took for a step in the attempt that won, times its steps."""
        paces = [float(_line(one, "pace") or 1.0 / STEP_S) for one in self.outputs]
        return self.job.steps / min(paces, default=1.0 / STEP_S)


def breaches(seen: Seen) -> list[str]:
    """What went wrong with one job, in words."""
    job, view = seen.job, seen.view
    if view.state is not JobState.FINISHED:
        return [f"{job.id} is {view.state}: {view.said}"]
    found = []
    ends = [one for one in seen.entries if isinstance(one, JobFinished)]
    winners = [one for one in view.attempts if one.outcome is Outcome.WON]
    if len(ends) != 1 or len(winners) != 1:
        found.append(f"{job.id} has {len(ends)} ends and {len(winners)} winners")
    for rank in range(job.wish.instances):
        said = _line(seen.outputs[rank], "result") if rank < len(seen.outputs) else None
        if said != result(job.id, rank, job.steps):
            found.append(f"{job.id}: rank {rank} printed {said!r}, not its result")
    if not job.wish.idempotent:
        found += _run_twice(seen)
    return found


def _run_twice(seen: Seen) -> list[str]:
    """A job that must not be run twice goes on from where the attempt before was saved, or not at all."""
    ran = [one for one in seen.view.attempts if one.started_at is not None]
    return [
        f"{seen.job.id}: attempt {after.number} does not go on from {before.number} ({before.outcome})"
        for before, after in pairwise(ran)
        if before.lost_s or after.restored_from != before.number
    ]


def sights(all_seen: Sequence[Seen]) -> dict[str, list[str]]:
    """Which jobs show each of ``SIGHTS``."""
    found: dict[str, list[str]] = {name: [] for name in SIGHTS}
    measured = set()
    servers: defaultdict[str, set[str]] = defaultdict(set)
    for seen in all_seen:
        job, attempts = seen.job, seen.view.attempts
        goes_on = [
            (seen.attempt(one.restored_from), one)
            for one in attempts
            if one.restored_from is not None and one.started_at is not None
        ]
        if any(before.mechanism == "migrate" and not before.lost_s for before, _ in goes_on):
            found["migration"].append(job.id)
        if any(
            before.mechanism == "checkpoint" and before.outcome is Outcome.EVICTED for before, _ in goes_on
        ):
            found["restored checkpoint"].append(job.id)
        if any(one.role == "replica" and one.outcome is Outcome.WON for one in attempts):
            found["winning replica"].append(job.id)
        if job.wish.instances > 1:
            found["parallel job"].append(job.id)
        if any(one.role == "profile" for one in attempts):
            measured.add(job.id)
        elif job.after in measured and seen.view.profile is not None:
            found["profiled job"].append(job.id)
        for server in seen.servers:
            servers[server].add(job.id)
    for server, jobs in servers.items():
        if len(jobs) > 1:
            found["shared backup"].append(f"{server} of {', '.join(sorted(jobs))}")
    return found


def look(client: Client, store: Any, jobs: Sequence[LiveJob]) -> list[Seen]:
    """All of the jobs as they stand."""
    found = []
    for job in jobs:
        view = client.jobs.get(job.id)
        won = next((one for one in view.attempts if one.outcome is Outcome.WON), None)
        outputs: tuple[str, ...] = ()
        if won is not None:
            outputs = tuple(
                client.jobs.read_log(job.id, attempt=won.number, rank=rank).text
                for rank in range(won.instances)
            )
        found.append(Seen(job, view, store.read_entries(job.id), outputs))
    return found


def left_over(
    client: Client, redis_client: Any, keys: RedisKeys, all_seen: Sequence[Seen], token: str
) -> list[str]:
    """What is still there of jobs that have ended, some time later: instances, work, processes, journals."""
    limit_s = time.monotonic() + SETTLE_S
    while True:
        found = [*_instances(client, all_seen), *_in_redis(redis_client, keys)]
        found += [f"process {one.pid} of {token}" for one in processes(token)]
        if not found or time.monotonic() > limit_s:
            return found
        time.sleep(0.5)


def _instances(client: Client, all_seen: Sequence[Seen]) -> list[str]:
    """Leases and on-demand instances that run: those that were told, and those that may have been granted."""
    spot: set[str] = set()
    on_demand: set[tuple[str, str]] = set()
    for seen in all_seen:
        for entry in seen.entries:
            if isinstance(entry, AttemptBegan):
                plan = seen.attempt(entry.attempt)
                names = entry.leases
                spot |= set(names) if plan.spot else set()
                on_demand |= set() if plan.spot else {(plan.cloud, name) for name in names}
            elif isinstance(entry, JobPlanned):
                for place in entry.attempts:
                    if not place.spot and place.role != "backup":
                        names = tuple(
                            make_work_id(seen.job.id, place.number, rank) for rank in range(place.instances)
                        )
                        on_demand |= {(place.cloud, name) for name in names}
    found = [
        f"lease {name} runs" for name in sorted(spot) if _runs(lambda name=name: client.leases.get(name))
    ]
    return found + [
        f"on-demand instance {name} runs on {cloud}"
        for cloud, name in sorted(on_demand)
        if _runs(lambda cloud=cloud, name=name: client.on_demand.get(cloud, name))
    ]


def _runs(ask: Any) -> bool:
    try:
        answer = ask()
    except NotFoundError:
        return False
    return getattr(answer, "state", None) in {LeaseState.BOOKED, LeaseState.RESERVED, LeaseState.RUNNING}


def _in_redis(redis_client: Any, keys: RedisKeys) -> list[str]:
    found = [
        f"{one.decode()} is still to be looked after" for one in redis_client.zrange(keys.open_jobs, 0, -1)
    ]
    for cloud in CLOUDS:
        found += [
            f"work {one.decode()} is still given to {cloud}" for one in redis_client.hkeys(keys.work(cloud))
        ]
        found += [
            f"spot {one.decode()} runs on {cloud}" for one in redis_client.smembers(keys.running(cloud))
        ]
    return found


def processes(token: str) -> list[psutil.Process]:
    """Processes of jobs of this run."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if token in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def figures(all_seen: Sequence[Seen]) -> dict[str, Any]:
    """Cost and completion, beside what they would have been on-demand: by the loops' own measured time."""
    finished = [one for one in all_seen if one.view.state is JobState.FINISHED]
    cost = sum(one.view.cost for one in finished)
    alone = {one.job.id: one.alone_s for one in finished}
    on_demand = sum(
        alone[one.job.id] * one.job.wish.cores * one.job.wish.instances * ON_DEMAND / 3600.0
        for one in finished
    )
    took = {one.job.id: (one.view.ended_at or 0.0) - one.view.submitted_at for one in finished}
    ratios = [took[name] / alone[name] for name in took]
    attempts = [attempt for one in all_seen for attempt in one.view.attempts]
    outcomes: defaultdict[str, int] = defaultdict(int)
    for one in attempts:
        outcomes[f"{one.role}/{one.mechanism}/{one.outcome or 'open'}"] += 1
    return {
        "jobs": len(all_seen),
        "finished": len(finished),
        "cost_usd": round(cost, 5),
        "on_demand_usd": round(on_demand, 5),
        "cost_over_on_demand": round(cost / on_demand, 3) if on_demand else None,
        "mean_time_s": round(sum(took.values()) / max(len(took), 1), 1),
        "mean_on_demand_s": round(sum(alone.values()) / max(len(alone), 1), 1),
        "time_over_on_demand": round(sum(ratios) / max(len(ratios), 1), 3),
        "evictions": sum(one.view.evictions for one in all_seen),
        "attempts": dict(sorted(outcomes.items())),
    }


def all_ended(views: Mapping[str, JobView]) -> bool:
    """Whether nothing runs any more."""
    return all(view.state in ENDED for view in views.values())


def _line(output: str, name: str) -> str | None:
    """What a line that begins with a word says last."""
    found = [line.split() for line in output.splitlines() if line.startswith(f"{name} ")]
    return found[-1][-1] if found else None
