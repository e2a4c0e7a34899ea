"""Defines the limits of each job on a node; an operator sets them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobLimits:
    """The limits of each job on a node, beside its cores and memory.

    Attributes
    ----------
    processes
        Number of its processes, threads included.
    disk_mb
        Disk space of its directory and its temporary files.
    disk_free_mb
        Free space on their file system below which the job that uses most of it is ended.
    network
        False if it reaches no network.
    """

    processes: int
    disk_mb: int
    disk_free_mb: int
    network: bool
