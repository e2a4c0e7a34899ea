"""P4 Figure 2: the diversity of jobs, here those of batch logs.

The Google trace is not among our data. The logs record running times and processors, but neither memory nor
I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import LINES, Figure, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict
from cloudsim.traces.formats import read

LOGS = {
    "KTH SP2": "swf/KTH-SP2-1996-2.1-cln.swf.gz",
    "NASA iPSC": "swf/NASA-iPSC-1993-3.1-cln.swf.gz",
    "SDSC SP2": "swf/SDSC-SP2-1998-4.2-cln.swf.gz",
}
_SMALLEST = "NASA iPSC"
_SHOWN = 400


def measure(data: Path, *, log: str) -> list[Row]:
    """Return the statistics of one log.

    Columns: log, jobs, hours_p50, hours_p90, cores_p50, cores_p90; parallel: share on more than one
    processor; correlation: of the logarithms of hours and cores; sample: a list of [hours, cores] over their
    99th percentiles.
    """
    trace, _ = read(data / LOGS[log])
    hours, cores = trace.lifetime_s / 3600.0, trace.cores.astype(np.float64)
    shown = np.random.default_rng(0).choice(len(trace), _SHOWN, replace=False)
    tops = np.percentile(hours, 99), np.percentile(cores, 99)
    return [
        {
            "log": log,
            "jobs": len(trace),
            **{f"hours_p{share}": float(np.percentile(hours, share)) for share in (50, 90)},
            **{f"cores_p{share}": float(np.percentile(cores, share)) for share in (50, 90)},
            "parallel": float((cores > 1).mean()),
            "correlation": float(np.corrcoef(np.log(hours), np.log(cores))[0, 1]),
            "sample": [[float(hours[job] / tops[0]), float(cores[job] / tops[1])] for job in shown],
        }
    ]


def _diverse(rows: Sequence[Row]) -> Verdict:
    ratios = ", ".join(f"{row['log']} {row['hours_p90'] / row['hours_p50']:.0f} times" for row in rows)
    diverse = all(row["hours_p90"] >= 10 * row["hours_p50"] for row in rows)
    return Verdict(diverse, f"the 90th percentile of running times over the median: {ratios}")


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row['log']}: {row['jobs']:,} jobs, half of them below {row['hours_p50']:.2f} h and a tenth above "
        f"{row['hours_p90']:.1f} h; {row['parallel']:.0%} are parallel; hours and cores correlate by "
        f"{row['correlation']:+.2f}."
        for row in rows
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    with panels("Jobs of batch logs", 1, len(rows), size=(10, 3.8), sharey=True) as (figure, axes):
        for axis, row, (colour, marker) in zip(axes.flat, rows, LINES, strict=False):
            axis.plot(*zip(*row["sample"], strict=True), marker, color=colour, ms=3, mew=0, alpha=0.6)
            axis.set_title(row["log"], loc="left")
            axis.set(xlabel="running time / 99th percentile", xlim=(0, 1.05), ylim=(0, 1.05))
        axes[0, 0].set_ylabel("cores / 99th percentile")
    return figure


EXPERIMENT = Experiment(
    name="jobs-figure-2",
    title="Batch jobs: what logs know of them",
    source="P4 §2.1, Figure 2",
    cases=lambda quick: [
        Case(log, measure, {"log": log}, (file,))
        for log, file in LOGS.items()
        if not quick or log == _SMALLEST
    ],
    pictures=(
        Picture(
            "jobs-figure-2",
            "Running time and cores of 400 jobs of each log, over their 99th percentiles.",
            _draw,
        ),
    ),
    sentences=_sentences,
    claims=(Claim("Figure 2", "jobs differ widely in what they use", _diverse),),
)
