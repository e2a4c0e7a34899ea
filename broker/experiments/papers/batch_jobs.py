"""P4: the printed numbers of SpotOn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from statistics import fmean

from broker.experiments.papers.number import (
    NotComputed,
    Ours,
    PrintedNumber,
    Rows,
    about,
    at_least,
    at_most,
    column,
    select,
)
from cloudsim.experiments.experiment import distinct
from cloudsim.experiments.jobs.mechanisms import BASELINE
from cloudsim.experiments.jobs.policies import CHECKPOINTS, COST_AWARE
from cloudsim.experiments.jobs.synthetic_job import BASE_PRICE

_FIGURE_7, _FIGURE_9, _FIGURE_10, _FIGURE_11 = (f"jobs-figure-{n}" for n in (7, 9, 10, 11))
#: P4 Figure 10: memory above which a job cannot be migrated.
_FITS_GB = 4.0


def _base(name: str, mechanism: str, change: Callable[[float], float]) -> Callable[[Rows], Ours]:
    """Return a simulated column of Figure 7a, changed; the interval is over jobs."""

    def ours(rows: Rows) -> Ours:
        made = column(rows, name, panel=BASELINE, mechanism=mechanism)
        assert not isinstance(made.value, str)
        ends = sorted((change(made.low), change(made.high)))
        return Ours(change(made.value), ends[0], ends[1], made.of)

    return ours


def _best_saving(rows: Rows) -> Ours:
    row = min(select(rows, policy=COST_AWARE), key=lambda row: float(row["cost"]))
    half = row["cost_plus_minus"]
    return Ours(1 - row["cost"], 1 - row["cost"] - half, 1 - row["cost"] + half, f"{row['jobs']} jobs")


def _saving_over_checkpoints(rows: Rows) -> Ours:
    return Ours(
        max(
            1 - select(rows, policy=COST_AWARE, value=value)[0]["cost"] / row["cost"]
            for row in select(rows, policy=CHECKPOINTS)
            for value in [row["value"]]
        )
    )


def _more_time(rows: Rows) -> Ours:
    return Ours(fmean(row["time"] for row in select(rows, policy=COST_AWARE)) - 1)


def _migration(rows: Rows) -> Ours:
    own = select(rows, policy=COST_AWARE)
    small, large = (
        fmean(row["cost"] for row in own if (row["value"] <= _FITS_GB) is fits) for fits in (True, False)
    )
    return Ours(large / small)


def _small_jobs(rows: Rows) -> Ours:
    return Ours(max(row["time"] for row in select(rows, policy=COST_AWARE) if row["value"] < _FITS_GB))


def _calm_markets(rows: Rows) -> Ours:
    return Ours(min(row["time"] for row in select(rows, policy=COST_AWARE)))


def _best_degree(rows: Rows) -> Ours:
    best = Counter(
        max(select(rows, zone=zone, hours=hours), key=lambda row: float(row["completes"]))["degree"]
        for zone in distinct(select(rows), "zone")
        for hours in distinct(rows, "hours")
    )
    return Ours(best.most_common(1)[0][0])


NUMBERS: tuple[PrintedNumber, ...] = (
    PrintedNumber(
        "P4 abstract, §1 and Figure 1", "on-demand price over mean spot price, cheapest market", "up to 10×",
        "jobs-figure-1", lambda rows: Ours(1 / min(row["price"] for row in select(rows))), within=about(10),
    ),
    PrintedNumber(
        "P4 §3.1, §6 and Figure 6", "largest memory that is saved within the warning, GB", "4",
        "jobs-figure-6",
        lambda rows: Ours(max(row["memory_gb"] for row in select(rows, migrates=True))), fitted=True,
    ),
    PrintedNumber(
        "P4 §4.3 and Figure 5", "replicas that complete most often", "2", "jobs-figure-5", _best_degree,
        reading="at most lengths and zones",
    ),
    *(
        PrintedNumber(
            "P4 §6.1 and Figure 7a", f"on-demand cost over that of {name}", "over 2×", _FIGURE_7,
            _base("simulated_cost", mechanism, lambda cost: 1 / cost), within=at_least(2),
        )
        for mechanism, name in (
            ("checkpoint", "checkpoints"), ("replicate", "two replicas"), ("backup", "a replica on-demand"),
        )
    ),
    PrintedNumber(
        "P4 §6.1 and Figure 7a", "probability that the job is revoked", "10 %", _FIGURE_7,
        lambda rows: Ours(select(rows, panel=BASELINE, mechanism="backup")[0]["revocations"]),
        within=about(0.1),
        reading="revocations of a job with a replica on-demand",
    ),
    PrintedNumber(
        "P4 §6.1 and Figure 7a", "time with checkpoints over on-demand's", "nearly 2×", _FIGURE_7,
        _base("simulated_time", "checkpoint", float), within=about(2),
    ),
    PrintedNumber(
        "P4 §6.1 and Figure 7a", "cost with checkpoints over that of a spot instance", "2×", _FIGURE_7,
        _base("simulated_cost", "checkpoint", lambda cost: cost / BASE_PRICE), within=about(2),
    ),
    PrintedNumber(
        "P4 §6.1 and Figure 7a", "cost with a replica on-demand over that of a spot instance", "2×",
        _FIGURE_7,
        _base("simulated_cost", "backup", lambda cost: cost / BASE_PRICE), within=about(2),
    ),
    PrintedNumber(
        "P4 abstract, §6.2 and Figure 9", "most saved beside on-demand", "up to 86 %", _FIGURE_9,
        _best_saving,
        within=about(0.86),
    ),
    PrintedNumber(
        "P4 abstract, §6.2 and Figure 9", "most saved beside checkpoints only", "up to 74 %", _FIGURE_9,
        _saving_over_checkpoints, within=about(0.74),
    ),
    PrintedNumber(
        "P4 abstract, §6.2 and Figure 9", "more time than on-demand, mean over lengths", "only 2 %",
        _FIGURE_9,
        _more_time, within=at_most(0.025),
    ),
    PrintedNumber(
        "P4 §6.2 and Figure 9", "highest cost of a policy over on-demand's", "below 1", _FIGURE_9,
        lambda rows: Ours(max(row["cost"] for row in select(rows))), within=at_most(1),
    ),
    PrintedNumber(
        "P4 §6.2 and Figure 10", "cost of jobs that cannot migrate over that of those which can", "over 4×",
        _FIGURE_10, _migration, within=at_least(4),
    ),
    PrintedNumber(
        "P4 §6.2 and Figure 10", "time of jobs below 4 GB over on-demand's, longest", "below 1", _FIGURE_10,
        _small_jobs, within=at_most(1),
    ),
    PrintedNumber(
        "P4 §6.2 and Figure 11", "time at the lowest rate of revocations over on-demand's", "below 1",
        _FIGURE_11, _calm_markets, within=at_most(1),
    ),
)  # fmt: skip

NOT_COMPUTED: tuple[NotComputed, ...] = (
    NotComputed(
        "P4 Figure 1", "volatility, spot and on-demand price of the ten most volatile markets", 30,
        "prices of 2014 and 2015 in regions that were not published",
    ),
    NotComputed(
        "P4 §1 and §2.1", "860, 1720, 2302 and 353 markets, 9 regions, 26 zones", 6,
        "EC2's offer in 2015, a count of the provider",
    ),
    NotComputed("P4 Figure 2", "use of CPU, memory and I/O by a Google cluster's jobs", 0,
        "dots without numbers"),
    NotComputed(
        "P4 §3.1, §5 and §6", "90 s, 62 s and 224 s to boot, 3399 s and 70 ¢ an hour of the job, disks", 5,
        "measured or paid on the authors' EC2 instances; they are our inputs",
    ),
    NotComputed(
        "P4 Figures 7 to 11", "times and costs", 0,
        "bars and dots without numbers; their order is judged below"
    ),
)  # fmt: skip
