"""The jobs of ``live_jobs`` and the federation that they run on: three clouds whose own users come in bursts.

The bursts are in the clouds' recorded load, so that their tables, and with these the planner, know of them. A
burst fills all cores of a cloud, and whatever spot runs there is evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from broker.jobs.models import Checkpoints, JobWish, Profile
from tests.deep.acceptance.live_jobs_loop import STEP_S, command

#: Seconds of the clouds' time in one of wall time, and how much of their load is played before they open.
SPEED, HISTORY_H = 60.0, 48
#: Mean time from one burst to the next and how long one lasts, wall time; and the notice that is given.
BURSTS_S = {"harbour": 45.0, "meadow": 80.0, "forge": 400.0}
BURST_S = 4.0
_LONGEST_GAP = 1.3  # of the mean, so that no long run is spared by luck
GRACE_S = {"harbour": 0.0, "meadow": 5.0, "forge": 5.0}
NODES, NODE_CORES = 12, 4
SPOT, ON_DEMAND = 0.0125, 0.050
#: Jobs are handed in in rounds, one after the other, of one job of each kind.
ROUND_S = 30.0
CLOUDS = tuple(BURSTS_S)
_LONGEST_S = 3600.0  # of wall time: nothing here runs for so long


@dataclass(frozen=True)
class LiveJob:
    """A job, how many steps each of its instances takes, and when it is handed in. after: the job that must
    have finished before."""

    wish: JobWish
    steps: int
    at_s: float
    after: str | None = None

    @property
    def id(self) -> str:
        """The job's id."""
        assert self.wish.id is not None
        return self.wish.id


def write_federation(directory: Path, seed: int) -> Path:
    """The federation file and the traces beside it."""
    text = ""
    for number, cloud in enumerate(CLOUDS):
        trace = directory / f"{cloud}.txt"
        trace.write_text(_bursts(np.random.default_rng((seed, number)), cloud), encoding="utf-8")
        text += f"""
[[cloud]]
id = "{cloud}"
nodes = "{NODES}x{NODE_CORES}"
trace = "{trace.name}"
grace = "{GRACE_S[cloud] * SPEED:g}s"
driver = "process"
spot_usd_per_core_hour = {SPOT}
on_demand_usd_per_core_hour = {ON_DEMAND}
"""
    file = directory / "federation.toml"
    file.write_text(text, encoding="utf-8")
    return file


def _bursts(rng: np.random.Generator, cloud: str) -> str:
    """A trace: one instance that always runs, and bursts of one for each other core."""
    until_s = HISTORY_H * 3600.0 + _LONGEST_S * SPEED
    lines = [(0.0, "START 0 base 0 1"), (until_s, f"STOP {until_s:g} base")]
    at_s = 0.0
    while True:
        mean_s = BURSTS_S[cloud] * SPEED
        at_s += BURST_S * SPEED + min(rng.exponential(mean_s), _LONGEST_GAP * mean_s)
        ends_s = at_s + BURST_S * SPEED
        if ends_s > until_s:
            break
        for core in range(1, NODES * NODE_CORES):
            name = f"b{at_s:.0f}-{core}"
            lines += [(at_s, f"START {at_s:.0f} {name} {core // NODE_CORES} 1")]
            lines += [(ends_s, f"STOP {ends_s:.0f} {name}")]
    return "\n".join(line for _, line in sorted(lines, key=lambda one: one[0])) + "\n"


def mix(count: int, work_s: float, token: str) -> list[LiveJob]:
    """So many jobs of about ``work_s`` seconds, in the order in which they are handed in. token: all of their
    processes show it."""
    steps = round(work_s / STEP_S)
    rounds, made = _kinds(steps, work_s, token), list[LiveJob]()
    while len(made) < count:
        made.append(next(rounds))
    return made


def _kinds(steps: int, work_s: float, token: str) -> Iterator[LiveJob]:
    """One job of each kind, round after round."""

    def job(job_id: str, after: str | None = None, share: float = 1.0, **wish: object) -> LiveJob:
        taken = max(round(share * steps), 1)
        told = {
            "id": job_id,
            "origin": "guest",
            "home": "forge",
            "command": command(job_id, taken, token),
            **wish,
        }
        return LiveJob(JobWish.model_validate(told), taken, ROUND_S * (number - 1), after)

    profile, saved = Profile(work_s=work_s, memory_gb=0.05), Checkpoints()
    third = Profile(work_s=work_s / 3, memory_gb=0.05)
    number = 0
    while True:
        number += 1
        yield job(f"migrates-{number}", profile=profile, checkpoint=saved, clouds=("meadow",))
        yield job(f"checkpoints-{number}", profile=profile, checkpoint=saved, clouds=("harbour",))
        yield job(f"replicates-{number}", share=1 / 3, profile=third)
        yield job(f"backed-up-{number}a", profile=profile, clouds=("meadow",))
        yield job(f"backed-up-{number}b", profile=profile, clouds=("meadow",))
        yield job(f"together-{number}", profile=profile, instances=2 + number % 2)
        yield job(f"measured-{number}", name=f"measured-{number}", checkpoint=saved)
        yield job(
            f"once-{number}", profile=profile, checkpoint=saved, idempotent=False, clouds=("meadow", "forge")
        )
        yield job(f"known-{number}", after=f"measured-{number}", name=f"measured-{number}", checkpoint=saved)
        yield job(f"anywhere-{number}", profile=profile, checkpoint=saved)
