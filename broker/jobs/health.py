"""What ``spotfed doctor`` makes of those who run batch jobs: node agents and job managers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from broker.contract import CloudInfo
from broker.finding import Finding, failure, ok

#: Whoever is overdue for so long is looked after by nobody: a job manager looks every second.
OVERDUE_S = 30.0


def jobs_findings(
    clouds: Sequence[CloudInfo], agents: Collection[str], open_jobs: int, overdue: int
) -> list[Finding]:
    """Nothing where no cloud runs commands.

    agents: the clouds whose node agents show signs of life. open_jobs: how many have not ended. overdue: of
    how many of these nobody has looked after for ``OVERDUE_S`` when it was due.
    """
    commanded = [one.id for one in clouds if one.runs_commands]
    if not commanded:
        return []
    found = [agent_finding(cloud, alive=cloud in agents) for cloud in commanded]
    if overdue:
        found.append(
            failure(
                "job managers",
                f"of {open_jobs} open jobs nobody looks after {overdue}",
                "start a job manager (python -m workers.jobs), or look into its log",
            )
        )
    else:
        found.append(ok("job managers", f"none of {open_jobs} open jobs waits for one"))
    return found


def agent_finding(cloud: str, *, alive: bool) -> Finding:
    """Whether the commands of a cloud's instances can be run."""
    name = f"node agent {cloud}"
    if alive:
        return ok(name, "it runs the commands of batch jobs")
    return failure(
        name,
        f"none runs, so what is placed on {cloud} does not begin, and what runs is not watched",
        f"start it: python -m workers.agent --cloud {cloud} --federation FILE",
    )
