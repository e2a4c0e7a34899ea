"""Batch jobs live: real processes over three clouds whose own users evict them, to the end; then judged.

    python -m tests.deep.acceptance.live_jobs [--jobs 30] [--kills] [--work 60] [--seed 1] [--directory DIR]

Each job is a hash chain that keeps its state in its directory (``live_jobs_loop``). They differ in what they
bear: some can be restored, some cannot, some run on several instances, some must never run twice, some come
without a profile (``live_jobs_mix``). The planner chooses how each survives; nothing is forced. Judged
(``live_jobs_judge``): every job finishes exactly once with the right result; nothing is left of it; and of a
whole run, that each way to survive was seen. With --kills job managers, owners, node agents and Redis are
killed (-9) on the way, one after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from broker.client import Client, ClientError
from broker.jobs.models import JobView
from broker.jobs.store import JobStore
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from broker.storage.connections import connect
from broker.storage.embedded_server import EmbeddedRedis
from broker.storage.keys import RedisKeys
from tests.deep.acceptance import live_jobs_judge as judge
from tests.deep.acceptance.live_jobs_kills import Kills
from tests.deep.acceptance.live_jobs_mix import CLOUDS, HISTORY_H, SPEED, LiveJob, mix, write_federation
from tests.support.ports import free_port

PREFIX = "jobs:"
KEYS = RedisKeys(PREFIX)
ENVIRONMENT = {"SPOTFED_CALLS_PER_S": "0"}
PATIENCE_S = 60.0
TABLES_S = 300.0


def run(
    count: int,
    *,
    work_s: float = 60.0,
    seed: int = 1,
    kills: int = 0,
    limit_s: float = 900.0,
    directory: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Runs so many jobs; returns the figures, what was seen, and every breach.

    limit_s: for all jobs together. kills: so many, one after the other. directory: keeps data and logs.
    """
    token = f"spotfed-live-{uuid.uuid4().hex}"
    jobs = mix(count, work_s, token)
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jobs-")))
        stack.callback(_end_processes, token)
        server = stack.enter_context(EmbeddedRedis(directory / "redis", appendfsync="always"))
        layout = ProcessList(
            write_federation(directory, seed),
            CLOUDS,
            wall_time(speed=SPEED, history=f"{HISTORY_H}h", samples=500, seed=seed),
            port=free_port(),
            commanded=CLOUDS,
        )
        local = stack.enter_context(
            LocalFederation(
                layout,
                directory / "state",
                redis_url=server.url,
                key_prefix=PREFIX,
                environment=ENVIRONMENT,
                say=say,
            )
        )
        client = stack.enter_context(local.client(deadline_s=PATIENCE_S))
        _await_tables(client)
        began_s = time.monotonic()
        killing = Kills(local, server, random.Random(seed), kills, say)
        killing.start()
        _drive(client, jobs, limit_s, say)
        killing.stop()
        seconds = time.monotonic() - began_s
        redis_client = stack.enter_context(connect(server.url))
        seen = judge.look(client, JobStore(redis_client, KEYS), jobs)
        breaches = [text for one in seen for text in judge.breaches(one)]
        breaches += judge.left_over(client, redis_client, KEYS, seen, token)
        moved = max(seen, key=lambda one: len(one.view.attempts)).view
    return {
        **judge.figures(seen),
        "seconds": round(seconds, 1),
        "seed": seed,
        "killed": dict(sorted(killing.killed.items())),
        "sights": judge.sights(seen),
        "most_moved": moved.model_dump(mode="json", exclude={"command"}),
        "breaches": breaches,
    }


def _drive(client: Client, jobs: list[LiveJob], limit_s: float, say: Callable[[str], None]) -> None:
    """Hands each job in at its time, those that wait for another one after its end, and returns when all have
    ended."""
    views: dict[str, JobView] = {}
    told, began_s = -1, time.monotonic()
    while (passed_s := time.monotonic() - began_s) < limit_s:
        for job in jobs:
            due = job.at_s <= passed_s and (job.after is None or _finished(views, job.after))
            if due and job.id not in views:
                views[job.id] = client.jobs.submit(job.wish)
        for name, view in list(views.items()):
            if not judge.all_ended({name: view}):
                views[name] = client.jobs.get(name)
        done = sum(_finished(views, job.id) for job in jobs)
        if done != told:
            say(f"{done} of {len(jobs)} jobs finished")
            told = done
        if len(views) == len(jobs) and judge.all_ended(views):
            return
        time.sleep(1.0)


def _finished(views: dict[str, JobView], name: str) -> bool:
    return name in views and judge.all_ended({name: views[name]})


def _await_tables(client: Client) -> None:
    limit_s = time.monotonic() + TABLES_S
    while time.monotonic() < limit_s:
        with suppress(ClientError):
            views = client.clouds.list()
            if all(view.advert is not None and view.advert.table_version is not None for view in views):
                return
        time.sleep(0.2)
    raise TimeoutError(f"no quantile tables after {TABLES_S:.0f} s")


def _end_processes(token: str) -> None:
    """Whatever a run that went wrong has left."""
    for process in judge.processes(token):
        process.kill()


def _say(text: str) -> None:
    sys.stderr.write(f"live jobs: {text}\n")


def missing(result: dict[str, Any]) -> list[str]:
    """What a whole run should have shown and did not."""
    return [f"no {name} was seen" for name in judge.SIGHTS if not result["sights"][name]]


def main() -> int:
    """Exit code 1 when anything was breached, or a whole run did not show all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=30)
    parser.add_argument("--work", type=float, default=60.0, help="seconds that a job takes")
    parser.add_argument(
        "--kills", type=int, nargs="?", const=12, default=0, help="so many kills; 12 if not said"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=15.0, help="the most that all jobs may take")
    parser.add_argument("--directory", type=Path, help="an empty one, to keep data and logs in")
    told = parser.parse_args()
    if told.directory is not None:
        told.directory.mkdir(parents=True, exist_ok=True)
    result = run(
        told.jobs,
        work_s=told.work,
        seed=told.seed,
        kills=told.kills,
        limit_s=told.minutes * 60,
        directory=told.directory,
        say=_say,
    )
    result["missing"] = missing(result)
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if result["breaches"] or result["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
