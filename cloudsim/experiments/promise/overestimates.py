"""The cost of a promise to users who do not know how long they will need their instances.

People overestimate: in batch logs half the jobs are over well before the time that was asked for. Here a spot
request names the requested time and its user stops it at the actual end, as a release; to compare, the same
requests come with exact knowledge of their lifetimes.

The log is that of the KTH SP2 (Parallel Workloads Archive): every job in it has a requested time, half of
them ask for more than 2.4 times what they use, and it runs on for 340 days. It is cut into windows of eight
weeks; one window is the on-demand load of a cloud, the next one its spot requests: the same kind of users,
but other days. An instance never spans nodes, so jobs wider than a node are left out; on 80 cores the rest
would use .34 to .57 (on-demand) and .45 to .57 (spot). Jobs that ran longer than they asked for (2 %) are cut
there in both cases, as a batch system would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import Dot, Figure, dots_by_group, legend_below, panels, share_axis
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, ratio, total, where
from cloudsim.experiments.promise.outcomes import keeps_promise
from cloudsim.experiments.runs import share_of_work, single_cloud_row
from cloudsim.traces.formats import read
from cloudsim.traces.trace import Trace

LOG = "swf/KTH-SP2-1996-2.1-cln.swf.gz"
NODES, NODE_CORES = "5x16", 16
WINDOW_S = 56 * 86_400.0
SLAS: tuple[float | None, ...] = (None, 0.10, 0.05, 0.01)
PAIRS = (0, 1, 2)
#: Births a size. There are sixteen sizes: as many samples in all as four sizes have elsewhere.
BIRTHS, QUICK_BIRTHS = 2_500, 100
_QUICK_S = 10 * 86_400.0

EXACT, REQUESTED = "exact", "requested"


def window(log: Trace, number: int, length_s: float = WINDOW_S) -> Trace:
    """Return the jobs of a window that fit on a node; none outlives its requested time.

    number: of the window of eight weeks, from 0. length_s: shortens the window. Times are from its beginning.
    """
    begin_s = number * WINDOW_S
    inside = (log.start_s >= begin_s) & (log.start_s < begin_s + length_s) & (log.cores <= NODE_CORES)
    jobs = log.select(inside).delayed(-begin_s)
    at_most_s = np.where(np.isnan(jobs.requested_s), np.inf, jobs.requested_s)
    return replace(jobs, stop_s=np.minimum(jobs.stop_s, jobs.start_s + at_most_s))


def run(data: Path, *, pair: int, sla: float | None, births: int, length_s: float) -> list[Row]:
    """Run two windows, 2 × pair as on-demand load and the next as spot, at one SLA: exact, then as requested.

    Rows are those of ``single_cloud_row``, with knowledge and spot_core_hours_wanted (of the actual
    lifetimes).
    """
    log, _ = read(data / LOG)
    on_demand, spot = window(log, 2 * pair, length_s), window(log, 2 * pair + 1, length_s)
    rows: list[Row] = []
    for knowledge in (EXACT, REQUESTED):
        row = single_cloud_row(
            pair=f"weeks {16 * pair + 1} to {16 * pair + 16}", nodes=NODES, on_demand=on_demand, spot=spot,
            sla=sla, births=births, asks_requested=knowledge == REQUESTED,
        )  # fmt: skip
        wanted = rows[0]["spot_core_hours_wanted"] if rows else row["spot_core_hours_requested"]
        row["knowledge"], row["spot_core_hours_wanted"] = knowledge, wanted
        rows.append(row)
    return rows


def _cases(quick: bool) -> list[Case]:
    pairs, slas = (PAIRS[:1], SLAS[:2]) if quick else (PAIRS, SLAS)
    births, length_s = (QUICK_BIRTHS, _QUICK_S) if quick else (BIRTHS, WINDOW_S)
    return [
        Case(
            f"pair {pair}, SLA {sla}", run,
            {"pair": pair, "sla": sla, "births": births, "length_s": length_s}, (LOG,),
        )
        for pair in pairs
        for sla in slas
    ]  # fmt: skip


#: Shares that sentences and pictures show: the columns whose ratio each is.
_ADMITTED, _EVICTED, _COMPLETED = (
    ("spot_admitted", "spot_requests"),
    ("evicted", "spot_admitted"),
    ("spot_core_hours_completed", "spot_core_hours_wanted"),
)


def _slas(rows: Sequence[Row]) -> list[float | None]:
    return sorted({row["sla"] for row in rows}, key=lambda sla: 2.0 if sla is None else sla)


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for sla in _slas(rows):
        parts = []
        for knowledge in (EXACT, REQUESTED):
            own = where(rows, sla=sla, knowledge=knowledge)
            broken = sum(sla is not None and not keeps_promise(row) for row in own)
            parts.append(
                f"{knowledge} lifetimes {ratio(own, *_ADMITTED):.3f} admitted, "
                f"{ratio(own, *_EVICTED):.4f} of them evicted"
                + ("" if sla is None else f" (broken in {broken} of {len(own)} runs)")
                + f", {ratio(own, *_COMPLETED):.3f} of the core-hours completed; as asked, "
                + share_of_work(*own)
            )
        texts.append(f"{'No SLA' if sla is None else f'SLA {sla:g}'}: {'; '.join(parts)}.")
    promised = [row for row in rows if row["sla"] is not None]
    exact, requested = (where(promised, knowledge=knowledge) for knowledge in (EXACT, REQUESTED))
    factor = ratio(requested, "spot_core_hours_requested", "spot_core_hours_wanted")
    possible = max(total(exact, "spot_core_hours_completed"), 1e-9)
    lost = 1 - total(requested, "spot_core_hours_completed") / possible
    texts.append(
        f"Users ask for {factor:.2f} times the core-hours they need; over all promises that costs {lost:.1%} "
        "of the core-hours which exact knowledge completes."
    )
    return texts


def _draw(rows: Sequence[Row]) -> Figure:
    slas = _slas(rows)
    groups = ["none" if sla is None else f"{sla:g}" for sla in slas]
    columns = {
        "admitted ÷ requested": _ADMITTED,
        "evicted ÷ admitted": _EVICTED,
        "core-hours completed ÷ wanted": _COMPLETED,
    }
    title = "Users who overestimate: exact lifetimes against requested ones"
    with panels(title, 1, 3, size=(9, 3.4)) as (figure, axes):
        for panel, (label, share) in zip(axes[0], columns.items(), strict=True):
            series: dict[str, dict[str, Dot]] = {}
            for knowledge in (EXACT, REQUESTED):
                for group, sla in zip(groups, slas, strict=True):
                    own = where(rows, sla=sla, knowledge=knowledge)
                    shares = [ratio([row], *share) for row in own]
                    dot = Dot(ratio(own, *share), min(shares), max(shares))
                    series.setdefault(f"{knowledge} lifetimes", {})[group] = dot
            share_axis(panel, label)
            dots_by_group(panel, groups, series)
            panel.set_ylim(bottom=0)
            panel.set_xlabel("SLA")
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="overestimates",
    title="Users who overestimate their lifetimes",
    source="our own question, on the log of the KTH SP2 (Parallel Workloads Archive)",
    cases=_cases,
    pictures=(
        Picture(
            "overestimates",
            "Spot requests that name the requested time of a batch log and stop at the actual one, against "
            f"exact knowledge: {NODES} cores, three pairs of eight weeks of the KTH SP2 log; dots are over "
            "all pairs, lines reach from the lowest pair to the highest.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
