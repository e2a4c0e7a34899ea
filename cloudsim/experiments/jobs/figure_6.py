"""P4 Figure 6: the time to save and restore a job, and the cost of remote storage.

All other figures rest on these constants; they are the paper's and not measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cloudsim.experiments.drawing import LINES, Figure, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict
from cloudsim.jobs.job import OVERHEADS, Job, StorageKind
from cloudsim.jobs.mechanisms import Migration

MEMORY_GB = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 15.0)


def measure(_data: Path | None) -> list[Row]:
    """Return a row for each memory size.

    Columns: memory_gb, save_s, restore_s; migrates: whether it is saved within the warning; hour_on_remote:
    hours that remote storage makes of one hour which is half I/O.
    """
    rows: list[Row] = []
    for memory_gb in MEMORY_GB:
        job = Job(3600.0, memory_gb, io_share=0.5)
        rows.append(
            {
                "memory_gb": memory_gb,
                "save_s": OVERHEADS.save_s(job, StorageKind.REMOTE),
                "restore_s": OVERHEADS.restore_s(memory_gb),
                "migrates": Migration().suits(job, OVERHEADS),
                "hour_on_remote": OVERHEADS.stretch(job, StorageKind.REMOTE),
            }
        )
    return rows


def _four_gb(rows: Sequence[Row]) -> Verdict:
    fits = [row["memory_gb"] for row in rows if row["migrates"]]
    return Verdict(max(fits) == 4.0, f"the largest that fits has {max(fits):g} GB")


def _sentences(rows: Sequence[Row]) -> list[str]:
    last = rows[-1]
    text = (
        f"Saving {last['memory_gb']:g} GB takes {last['save_s']:.0f} s, restoring as long; an hour that is "
        f"half I/O takes {last['hour_on_remote']:.2f} h on remote storage."
    )
    return [text]


def _draw(rows: Sequence[Row]) -> Figure:
    with panels("Saving and restoring a job", 1, 1, size=(6, 4)) as (figure, axes):
        axis = axes[0, 0]
        memory = [row["memory_gb"] for row in rows]
        axis.plot(
            memory, [row["save_s"] for row in rows], color=LINES[0][0], marker="o", label="save, restore"
        )
        axis.axhline(OVERHEADS.warning_s, color="black", lw=0.8, ls=":", label="warning")
        axis.set(xlabel="memory, GB", ylabel="seconds", ylim=(0, None))
        axis.legend(loc="upper left")
    return figure


EXPERIMENT = Experiment(
    name="jobs-figure-6",
    title="Batch jobs: what saving and restoring take",
    source="P4 §6, Figure 6",
    cases=lambda _quick: [Case("constants", measure, {})],
    pictures=(
        Picture(
            "jobs-figure-6", "Seconds to save or restore a job by its memory, beside the warning.", _draw
        ),
    ),
    sentences=_sentences,
    claims=(Claim("§6", "jobs up to about 4 GB are saved within the warning of two minutes", _four_gb),),
)
