"""What `[cloud.instances]` says of a Slurm cluster.

[cloud.instances]
driver = "slurm"
partition = "spot"                          # below the partitions of the cluster's own jobs, preemptible
script = "start-instance.sh"                # beside the federation file: what an instance does
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from pydantic import field_validator as checked

from workers.cloud_agent.drivers.common_options import BesideFile, CommonOptions, Cores, Duration, Word

#: As Slurm names partitions, accounts and the like: nothing that ends an option or begins another one.
SlurmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100)]


class SlurmOptions(CommonOptions):
    """Of the driver "slurm".

    partition, qos, account: of the jobs that leases become; the partition's nodes are the cloud. constraint:
    of their nodes. script: what each of these jobs runs. gres: Slurm's word for a resource that leases name
    (memory_mb needs none). time_limit: of these jobs, as Slurm writes it; None: the partition's. patience_s:
    a job that waits for room for longer counts as ended. programs: the directory of sbatch and the others;
    config: Slurm's configuration file; None of both: as a shell finds them. output: where jobs write, on
    their nodes.
    """

    driver: Literal["slurm"]
    partition: SlurmName
    script: BesideFile
    qos: SlurmName | None = None
    account: SlurmName | None = None
    constraint: Word | None = None
    gres: dict[str, SlurmName] = Field(default_factory=dict)
    time_limit: Annotated[str, StringConstraints(pattern=r"^(UNLIMITED|[0-9]+([:-][0-9]+){0,3})$")] | None = (
        None
    )
    patience_s: Duration = Field(60.0, alias="patience", ge=1, le=3600)
    programs: Path | None = Field(None, strict=False)
    config: BesideFile | None = None
    output: Annotated[str, StringConstraints(pattern=r"^/", max_length=1000)] = "/dev/null"
    sizes: dict[Cores, Word] = Field(default_factory=dict)

    @checked("sizes", "foreign_sizes")
    @classmethod
    def _any_size(cls, sizes: dict[Any, Any]) -> dict[Any, Any]:
        if sizes:
            raise ValueError("Slurm takes and tells numbers of cores: leave it out")
        return sizes

    @checked("programs")
    @classmethod
    def _with_programs(cls, path: Path | None) -> Path | None:
        if path is not None and not (path / "sbatch").is_file():
            raise ValueError(f"there is no sbatch in {path}")
        return path
