"""Batch jobs, and how long saving, restoring and starting take."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum

from cloudsim.model.errors import SpecError


class StorageKind(StrEnum):
    """Place where a job writes while it runs."""

    #: Fast, and gone with the instance: it is saved together with the memory.
    LOCAL = "local"
    #: Slow, and stays: only the memory is saved.
    REMOTE = "remote"


@dataclass(frozen=True)
class Job:
    """The rest of a job, and its profile on one reference instance.

    Raises
    ------
    SpecError
        When a number is negative, not finite, or outside its range.
    """

    #: Seconds still to run on the reference type with local storage: T.
    work_s: float
    memory_gb: float
    #: Share of ``work_s`` that waits for storage, 0 to 1.
    io_share: float = 0.0
    #: Data on local storage.
    disk_gb: float = 0.0
    #: Share of its time that may go into checkpoints: S, which makes the interval T_c / S.
    slack: float = 0.0625
    #: May run twice, or again from an earlier state.
    idempotent: bool = True
    #: Number of instances that run it together; losing one is losing all.
    instances: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise SpecError(f"is finite and at least 0, not {value}", field=field.name)
        for name in ("work_s", "memory_gb"):
            if not getattr(self, name):
                raise SpecError("is above 0", field=name)
        if not 0 < self.slack <= 1:
            raise SpecError(f"is a share above 0 and up to 1, not {self.slack}", field="slack")
        if self.io_share > 1:
            raise SpecError(f"is a share from 0 to 1, not {self.io_share}", field="io_share")
        if self.instances < 1:
            raise SpecError(f"is at least 1, not {self.instances}", field="instances")


@dataclass(frozen=True)
class Overheads:
    """Times that do not depend on the market (P4 Figure 6 and §6; docs/design/batch-jobs.md "Constants")."""

    save_s_per_gb: float = 30.0
    restore_s_per_gb: float = 30.0
    #: Factor by which remote storage is slower than local storage.
    remote_slowdown: float = 2.08
    #: From the warning until the instance is gone.
    warning_s: float = 120.0
    #: Until a warning is noticed.
    poll_s: float = 5.0
    boot_spot_s: float = 224.0
    boot_on_demand_s: float = 62.0

    def state_gb(self, job: Job, storage: StorageKind) -> float:
        """Return the size of the state that must be saved to go on elsewhere."""
        return job.memory_gb + (job.disk_gb if storage is StorageKind.LOCAL else 0.0)

    def save_s(self, job: Job, storage: StorageKind) -> float:
        """Return T_c: how long saving takes, in seconds."""
        return self.save_s_per_gb * self.state_gb(job, storage)

    def restore_s(self, state_gb: float) -> float:
        """Return how long it takes until a saved state runs again, in seconds."""
        return self.restore_s_per_gb * state_gb

    def stretch(self, job: Job, storage: StorageKind) -> float:
        """Return the running time on this storage over that on local storage."""
        return (
            1.0 if storage is StorageKind.LOCAL else 1.0 - job.io_share + job.io_share * self.remote_slowdown
        )


#: The papers' constants.
OVERHEADS = Overheads()
#: Only saving and restoring take time: instances start at once, and warnings are noticed at once.
IMMEDIATE = Overheads(poll_s=0.0, boot_spot_s=0.0, boot_on_demand_s=0.0)
