"""Checks the processes that run batch jobs: node agents and job managers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.jobs.bucket import Bucket, BucketError
from broker.settings import SettingsError

#: A job that is overdue for longer is looked after by nobody: a job manager looks every second.
OVERDUE_S = 30.0


@check("node agent")
def check_node_agents(installation: Installation) -> Iterator[CheckResult]:
    """Check that node agents run on the clouds that run commands, and keep jobs apart there."""
    client, keys = installation.redis_client, installation.keys
    for cloud in installation.readable_clouds:
        if not cloud.runs_commands or cloud.instances is not None:
            continue
        name = f"node agent {cloud.id}"
        if not client.exists(keys.agent(cloud.id)):
            yield failure(
                f"none runs, so what is placed on {cloud.id} does not begin, and what runs is not watched",
                f"start it: python -m workers.node_agent --cloud {cloud.id} --federation FILE",
                name=name,
            )
        elif lacks := cast("bytes | None", client.get(keys.isolation(cloud.id))):
            yield warning(
                f"it runs the commands of batch jobs, but its machine does not give them "
                f"{'; '.join(lacks.decode(errors='replace').splitlines())}",
                "run it as root that may mount, or on a kernel with Landlock and user namespaces for all "
                "(SECURITY.md, Batch jobs)",
                name=name,
            )
        else:
            yield ok("it runs the commands of batch jobs, each kept apart from all others", name=name)


@check("bucket")
def check_bucket(installation: Installation) -> Iterator[CheckResult]:
    """Check that the bucket of the states of jobs can be used, which jobs on real clouds need."""
    booting = [cloud.id for cloud in installation.readable_clouds if cloud.runs_commands and cloud.instances]
    if installation.settings.jobs_bucket is None:
        if booting:
            yield failure(
                f"none is named, so jobs on {', '.join(booting)} save no state and return no files",
                "set SPOTFED_JOBS_BUCKET for the API",
            )
        return
    try:
        bucket = Bucket.from_settings(installation.settings)
        assert bucket is not None
        bucket.list_states("doctor", "doctor")
    except (SettingsError, BucketError) as error:
        yield failure(str(error), "look at SPOTFED_JOBS_BUCKET, its URL and the credentials of boto3")
    else:
        yield ok(f"states of jobs are in {installation.settings.jobs_bucket}")


@check("job managers")
def check_job_managers(installation: Installation) -> Iterator[CheckResult]:
    """Check that a job manager looks after every open job."""
    if not any(cloud.runs_commands for cloud in installation.readable_clouds):
        return
    client, open_jobs = installation.redis_client, installation.keys.open_jobs
    due_s = installation.redis_time_s() - OVERDUE_S
    overdue = client.zcount(open_jobs, "-inf", due_s)
    count = client.zcard(open_jobs)
    if overdue:
        yield failure(
            f"of {count} open jobs nobody looks after {overdue}",
            "start a job manager (python -m workers.job_manager), or look into its log",
        )
    else:
        yield ok(f"none of {count} open jobs waits for one")
