"""Makes the process driver that the settings describe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from broker.settings import Settings
from workers.node_agent.process.checkpoints import CheckpointStore
from workers.node_agent.process.cores import CoreAllocator
from workers.node_agent.process.isolation import JobIsolation, JobUsers, choose_isolation
from workers.node_agent.process.limits import JobLimits
from workers.node_agent.process.process_driver import ProcessDriver


def jobs_directory(config: Settings) -> Path:
    """Return the directory of saved states of jobs."""
    return config.jobs_dir or config.state_dir / "jobs"


def make_driver(
    config: Settings, base: Path, nodes: Sequence[int], checkpoints: CheckpointStore
) -> ProcessDriver:
    """Return a driver, which has taken up what runs already.

    ``base``: its own directory. ``nodes``: the cores of each node.

    Raises
    ------
    DriverError
        When jobs cannot be kept apart here.
    """
    first, _, last = config.job_users.partition("-")
    limits = JobLimits(
        processes=config.job_processes,
        disk_mb=config.job_disk_mb,
        disk_free_mb=config.job_disk_free_mb,
        network=config.job_network == "on",
    )
    isolation = JobIsolation(
        choose_isolation(config.isolation),
        JobUsers(int(first), int(last)),
        (config.state_dir, checkpoints.directory),
        limits,
    )
    return ProcessDriver(base, checkpoints, CoreAllocator(nodes), isolation, limits)
