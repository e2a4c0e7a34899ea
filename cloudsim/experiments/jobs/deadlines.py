"""Policies for jobs with a deadline, on availability as it was recorded: of markets and of private clouds.

Spot of a market of 2015 can be had while its price is at most the on-demand price; spot of a private cloud
while its own users leave as many cores free as they do half of the time, or four fifths. Whenever there is
any, it costs .3 of on-demand, so that policies differ by when they use it, as in the evaluation of *Can't Be
Late* (NSDI 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from cloudsim.experiments.drawing import LINES, Figure, grid, legend_below, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, distinct, where
from cloudsim.experiments.jobs.runs import DAY_S, MARKETS_2015, mean, series_2015
from cloudsim.experiments.promise.pairs import TRACES
from cloudsim.jobs.deadlines import DEADLINE_POLICIES
from cloudsim.jobs.job import OVERHEADS, Job
from cloudsim.jobs.policy_names import PolicyName
from cloudsim.jobs.simulation import simulate_job
from cloudsim.jobs.world import World
from cloudsim.markets.revocation import HOUR_S, WINDOW_S, PriceHistory
from cloudsim.model.arrays import BoolArray, FloatArray
from cloudsim.traces.formats import read
from cloudsim.traces.statistics import usage

#: Prices over on-demand while there is spot, and while there is none.
PRICE, NONE = 0.3, 10.0
#: A job of a day, whose state is saved within a warning of two minutes.
WORK_S, MEMORY_GB = DAY_S, 2.0
#: Time until the deadline over the work.
ROOM = (1.1, 1.25, 1.5, 2.0)
_JOBS = 40
#: Shares of the time for which a private cloud has the cores that a job needs.
_CLOUD_SHARES = (0.5, 0.8)


#: Bounds of the shares of time with spot by which the picture groups markets and clouds.
_SHARES = (0.0, 0.6, 0.9, 1.0)
_POLICIES = tuple(policy.name for policy in DEADLINE_POLICIES)
GREEDY, UNIFORM = PolicyName.GREEDY.value, PolicyName.UNIFORM_PROGRESS.value
OURS, WAY_BACK = PolicyName.COST_AWARE.value, PolicyName.WAY_BACK.value


@lru_cache(maxsize=1)
def _markets(data: Path) -> dict[str, PriceHistory]:
    """Return the availability of each market of 2015."""
    found = {}
    for series in series_2015(data):
        assert series.on_demand_usd_per_hour is not None  # series_2015 has looked
        history = PriceHistory.of(series, 1.0 / series.on_demand_usd_per_hour)
        found[series.name] = _binary(series.name, history.at_s, history.carried <= 1.0)
    return found


def _cloud(data: Path, letter: str, available: float) -> PriceHistory:
    """Return when a private cloud has the most cores free that it has for this share of the time."""
    at_s, used = usage(read(data / TRACES[letter][0])[0])
    order = np.argsort(used[:-1], kind="stable")
    length_s = np.diff(at_s)[order]
    most_used = used[order][np.searchsorted(np.cumsum(length_s) / length_s.sum(), available)]
    return _binary(f"cloud {letter}", at_s, used <= most_used)


def _binary(name: str, at_s: FloatArray, available: BoolArray) -> PriceHistory:
    changes = np.append(True, available[1:] != available[:-1])
    changes[-1] = True  # the end of the recording
    return PriceHistory(name, at_s[changes].astype(float), np.where(available[changes], PRICE, NONE))


def measure(data: Path, *, source: str, jobs: int, room: Sequence[float]) -> list[Row]:
    """Run jobs that arrive at random under each policy, on the availability of one market or cloud.

    Columns: source; available, share of the time; per_day, how often it ends; room (time until the deadline
    over the work), policy, jobs; cost over on-demand, with _plus_minus; kept (share of deadlines); latest
    (longest time over that until the deadline); bound, the least cost of a policy that knows the future and
    changes instances at once.
    """
    if source.startswith("cloud "):
        _, letter, share = source.split()
        history = _cloud(data, letter, float(share))
    else:
        history = _markets(data)[source]
    length_s, up = np.diff(history.at_s), history.carried[:-1] == PRICE
    facts = {
        "source": source,
        "available": float(length_s[up].sum() / length_s.sum()),
        "per_day": float((up[:-1] & ~up[1:]).sum() / (length_s.sum() / DAY_S)),
    }
    world, job = World([history], 1.0), Job(WORK_S, MEMORY_GB)
    first_s, last_s = history.at_s[0] + WINDOW_S, history.at_s[-1] - max(room) * WORK_S
    at_s = np.random.default_rng(0).uniform(first_s, last_s, jobs).tolist()
    whole_usd = WORK_S / HOUR_S
    rows: list[Row] = []
    for factor in room:
        due_s = factor * WORK_S
        bound = float(np.mean([_least_cost(history, begin_s, due_s) for begin_s in at_s]))
        for policy in DEADLINE_POLICIES:
            ends = [simulate_job(job, policy, world, begin_s, OVERHEADS, due_s) for begin_s in at_s]
            latest = max(end.time_s / due_s for end in ends)
            rows.append(
                {**facts, "room": factor, "policy": policy.name, "jobs": jobs, "bound": bound}
                | mean("cost", [end.cost_usd / whole_usd for end in ends])
                | {"kept": float(np.mean([end.time_s <= due_s for end in ends])), "latest": latest}
            )
    return rows


def _least_cost(history: PriceHistory, begin_s: float, due_s: float) -> float:
    """Return the least cost over on-demand: spot for as long as there is any until the deadline."""
    inside = (history.at_s > begin_s) & (history.at_s < begin_s + due_s)
    edges = np.concatenate([[begin_s], history.at_s[inside], [begin_s + due_s]])
    prices = np.array([history.price_at(float(at_s)) for at_s in edges[:-1]])
    spot_s = min(float(np.diff(edges)[prices == PRICE].sum()), WORK_S)
    return (PRICE * spot_s + WORK_S - spot_s) / WORK_S


def _cases(quick: bool) -> list[Case]:
    zones = ("us-east-1a", "us-east-1b")
    types = ("c3.xlarge", "d2.8xlarge", "g2.2xlarge", "m3.medium", "r3.large")
    markets = [f"{name} {zone}" for zone in zones for name in types]
    clouds = [f"cloud {letter} {share}" for letter in TRACES for share in _CLOUD_SHARES]
    options = {"jobs": 4 if quick else _JOBS, "room": ROOM[::3] if quick else ROOM}
    cases = [
        Case(source, measure, {"source": source, **options}, (MARKETS_2015,))
        for source in (markets[:1] if quick else markets)
    ]
    return cases + [
        Case(source, measure, {"source": source, **options}, (TRACES[source.split()[1]][0],))
        for source in (clouds[:1] if quick else clouds)
    ]


def _mean(rows: Sequence[Row], column: str = "cost") -> float:
    return float(np.mean([row[column] for row in rows]))


def _each(rows: Sequence[Row], policy: str) -> dict[float, float]:
    """Return the room until the deadline → the mean cost of a policy over all sources."""
    return {room: _mean(where(rows, policy=policy, room=room)) for room in distinct(rows, "room")}


def _list(costs: dict[float, float]) -> str:
    return ", ".join(f"{cost:.3f} at {room:g}" for room, cost in costs.items())


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for policy in _POLICIES:
        own = where(rows, policy=policy)
        kept = _mean(own, "kept")
        texts.append(
            f"{policy}: costs {_list(_each(rows, policy))} of on-demand, in the mean of "
            f"{len(distinct(rows, 'source'))} sources, by the time until the deadline over the work; "
            f"{kept:.1%} of deadlines are kept, the latest end comes at "
            f"{max(row['latest'] for row in own):.3f} of the time."
        )
    bounds = {room: _mean(where(rows, room=room), "bound") for room in distinct(rows, "room")}
    texts.append(f"Whoever knew the future and changed at once would pay {_list(bounds)}.")
    for source in distinct(rows, "source"):
        own = where(rows, source=source)
        costs = ", ".join(f"{policy} {_mean(where(own, policy=policy)):.3f}" for policy in _POLICIES)
        texts.append(
            f"{source}: available {own[0]['available']:.0%} of the time, ends {own[0]['per_day']:.2f} "
            f"times a day; cost in the mean of all deadlines: {costs}, bound {_mean(own, 'bound'):.3f}."
        )
    return texts


def _all_kept(rows: Sequence[Row]) -> Verdict:
    least = min(rows, key=lambda row: row["kept"])
    return Verdict(least["kept"] == 1.0, f"at least {least['kept']:.1%}, by {least['policy']}")


def _beats(first: str, second: str, rows: Sequence[Row]) -> Verdict:
    ours, other = _each(rows, first), _each(rows, second)
    return Verdict(
        all(ours[room] <= other[room] + 1e-9 for room in ours), f"{_list(ours)}; {second} {_list(other)}"
    )


def _claim(where_: str, text: str, first: str, second: str) -> Claim:
    return Claim(where_, text, lambda rows: _beats(first, second, rows))


def _draw(rows: Sequence[Row]) -> Figure:
    """Draw the mean cost of each policy over the room until the deadline, by how much spot there is."""
    groups = [
        (f"spot {low:.0%} to {high:.0%} of the time", own)
        for low, high in pairwise(_SHARES)
        if (own := [row for row in rows if low <= row["available"] < high or row["available"] == high == 1])
    ]
    with panels("Cost of jobs with a deadline", 1, len(groups), size=(10.5, 4.2), sharey=True) as (
        figure,
        axes,
    ):
        for axis, (title, group) in zip(axes.flat, groups, strict=True):
            rooms = distinct(group, "room")
            for policy, (colour, marker) in zip(_POLICIES, LINES, strict=False):
                costs = _each(group, policy)
                axis.plot(
                    list(costs), list(costs.values()), marker=marker, lw=1.2, color=colour, ms=6,
                    mec="white", mew=0.4, label=policy,
                )  # fmt: skip
            bounds = [_mean(where(group, room=room), "bound") for room in rooms]
            axis.plot(rooms, bounds, ":", color="black", lw=1.2, label="knows the future")
            grid(axis)
            axis.set_title(f"{title}\n{len(distinct(group, 'source'))} markets and clouds", fontsize=9)
            axis.set(xlabel="time until the deadline / work", ylim=(0, 1.08))
            axis.set_xticks(rooms, [f"{room:g}" for room in rooms])
        axes[0, 0].set_ylabel("cost / on-demand")
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="jobs-deadlines",
    title="Batch jobs: policies for deadlines, on recorded availability",
    source="our own question; Wu and others, “Can't Be Late”, NSDI 2024",
    cases=_cases,
    pictures=(
        Picture(
            "jobs-deadlines",
            "Mean cost of jobs of a day by the time until their deadline, on markets and private clouds that "
            "have spot for more or less of the time; spot costs .3 of on-demand.",
            _draw,
        ),
    ),
    sentences=_sentences,
    claims=(
        Claim("Can't Be Late", "every policy keeps every deadline", _all_kept),
        _claim("Can't Be Late", "uniform progress costs no more than greedy", UNIFORM, GREEDY),
        _claim("docs/concepts/jobs.md", "a way back to spot costs no more than none", WAY_BACK, OURS),
        _claim("docs/concepts/jobs.md", "a way back costs no more than uniform progress", WAY_BACK, UNIFORM),
    ),
)
