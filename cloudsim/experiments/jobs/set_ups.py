"""P4 Figures 8, 9 and 11 under other set-ups: which of their statements hold for which (§6.1 and §6.2).

The paper does not print all of its set-up: the job's share of I/O, whether revocations of markets come
together, how hours are billed. Each set-up here changes one of these, some two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cloudsim.experiments.drawing import LINES, Figure, legend_below, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
from cloudsim.experiments.jobs.equations import PrintedCheckpoint
from cloudsim.experiments.jobs.mechanisms import FIGURE_8, RATE, RATIO, VALUES
from cloudsim.experiments.jobs.mechanisms import HOURS as HOURS_PANEL
from cloudsim.experiments.jobs.policies import (
    CHECKPOINTS,
    COST_AWARE,
    FIGURE_9,
    FIGURE_11,
    HOURS,
    PER_DAY,
)
from cloudsim.experiments.jobs.runs import (
    BASE_GB,
    INTERVAL_S,
    MARKETS_2015,
    PRICES_OD_2015,
    job_of,
    policy_rows,
    world_2015,
)
from cloudsim.experiments.jobs.synthetic_job import BASE_GB as MADE_GB
from cloudsim.experiments.jobs.synthetic_job import (
    BASE_IO,
    BASE_PER_DAY,
    BASE_PRICE,
    BASE_S,
    baseline,
    quoted,
)
from cloudsim.experiments.jobs.synthetic_job import MECHANISMS as MADE_MECHANISMS
from cloudsim.jobs.attempts import AttemptPlan, JobPosition, Mechanism
from cloudsim.jobs.job import IMMEDIATE, OVERHEADS, Overheads, StorageKind
from cloudsim.jobs.mechanisms import MECHANISMS, Backup, Checkpoint, Migration
from cloudsim.jobs.planner import ON_DEMAND, Basic, CostAware, PlacementPolicy, list_plans
from cloudsim.jobs.replicas import Replicate
from cloudsim.markets.billing import Billing
from cloudsim.markets.revocation import HOUR_S, Markets, Odds
from cloudsim.model.arrays import FloatArray
from cloudsim.plots import GREY

#: Jobs at each point: more than the paper's 30, because set-ups are compared.
_JOBS = 100
#: The paper's mechanisms: what saves a job uses remote storage, and replicas wait until all are revoked.
_AS_IN_THE_PAPER = (Migration(), Checkpoint(), Replicate(waits=True), Backup())
_EQUATION_4 = (Migration(), PrintedCheckpoint(), Replicate(waits=True), Backup())
_ANY_STORAGE = (Checkpoint(), Checkpoint(StorageKind.LOCAL))


@dataclass(frozen=True)
class _AtPriceNow:
    """Markets whose present price counts as that of the future, not the mean of the window."""

    markets: Markets

    @property
    def on_demand(self) -> float:
        return self.markets.on_demand

    @property
    def price_now(self) -> FloatArray:
        return self.markets.price_now

    @property
    def memory_gb(self) -> FloatArray:
        return self.markets.memory_gb

    def odds(self, bid: FloatArray, wall_s: float, instances: int) -> Odds:
        """Return the odds of the window, at the present price."""
        return replace(self.markets.odds(bid, wall_s, instances), price=self.markets.price_now)


@dataclass(frozen=True)
class _PresentPrice:
    """A policy that expects the present price to last."""

    policy: PlacementPolicy

    @property
    def name(self) -> str:
        return self.policy.name

    def plan(self, state: JobPosition, markets: Markets, overheads: Overheads) -> AttemptPlan:
        """Plan as the policy does, at present prices."""
        return self.policy.plan(state, _AtPriceNow(markets), overheads)


@dataclass(frozen=True)
class PolicySetUp:
    """A set-up of §6.2; the defaults are those of ``jobs-figure-9``.

    Attributes
    ----------
    io_share
        Share of the job's time that waits for storage.
    interval_s
        Seconds of work between checkpoints.
    save_s_per_gb
        Seconds to save a gigabyte.
    zone
        Only markets of this zone.
    together
        Injected revocations hit all markets of a zone at once.
    choices
        Mechanisms that the cost-aware policy has.
    only
        Mechanisms that it has with checkpoints only.
    present_price
        Expect the present price to last, instead of the mean of the week.
    """

    io_share: float = 0.0
    interval_s: float = INTERVAL_S
    save_s_per_gb: float = OVERHEADS.save_s_per_gb
    billing: Billing = Billing.CONTINUOUS
    zone: str = ""
    together: bool = False
    choices: tuple[Mechanism, ...] = MECHANISMS
    only: tuple[Mechanism, ...] = _ANY_STORAGE
    present_price: bool = False

    def policies(self) -> tuple[PlacementPolicy, ...]:
        """Return the paper's three policies."""
        aware = (CostAware(CHECKPOINTS, self.only), CostAware(COST_AWARE, self.choices))
        return (Basic(), *(map(_PresentPrice, aware) if self.present_price else aware))


_REMOTE = PolicySetUp(choices=_AS_IN_THE_PAPER, only=(Checkpoint(),))
SET_UPS: Mapping[str, PolicySetUp] = MappingProxyType(
    {
        "as in Figure 9": PolicySetUp(),
        "one zone": PolicySetUp(zone="us-east-1a"),
        "half I/O, remote": replace(_REMOTE, io_share=0.5),
        "all I/O, remote": replace(_REMOTE, io_share=1.0),
        "saved every 15 min": PolicySetUp(interval_s=900.0),
        "half I/O, remote, 15 min": replace(_REMOTE, io_share=0.5, interval_s=900.0),
        "half I/O, local too": PolicySetUp(io_share=0.5),
        "saving 4 × as fast": PolicySetUp(save_s_per_gb=OVERHEADS.save_s_per_gb / 4),
        "billed by the hour": PolicySetUp(billing=Billing.HOURLY),
        "zones revoked at once": PolicySetUp(together=True),
        "present price": PolicySetUp(present_price=True),
        "may begin again": PolicySetUp(choices=(*MECHANISMS, Replicate(1))),
        "Equation 4 as printed": PolicySetUp(choices=_EQUATION_4, only=(PrintedCheckpoint(),)),
        "present price, fast saving": PolicySetUp(
            save_s_per_gb=OVERHEADS.save_s_per_gb / 4, present_price=True
        ),
    }
)


@dataclass(frozen=True)
class MadeSetUp:
    """A set-up of §6.1; the defaults are those of ``jobs-figure-8``."""

    io_share: float = BASE_IO
    memory_gb: float = MADE_GB
    per_day: float = BASE_PER_DAY
    price: float = BASE_PRICE


MADE_SET_UPS: Mapping[str, MadeSetUp] = MappingProxyType(
    {
        "as in Figure 8": MadeSetUp(),
        "no I/O": MadeSetUp(io_share=0.0),
        "a quarter I/O": MadeSetUp(io_share=0.25),
        "all I/O": MadeSetUp(io_share=1.0),
        "4 GB": MadeSetUp(memory_gb=4.0),
        "24 GB": MadeSetUp(memory_gb=24.0),
        "revoked .5 × a day": MadeSetUp(per_day=0.5),
        "revoked 12 × a day": MadeSetUp(per_day=12.0),
        "spot at 40 %": MadeSetUp(price=0.4),
    }
)
#: Set-ups under which each figure's statements are judged.
_OF_FIGURE = {FIGURE_8: MADE_SET_UPS, FIGURE_9: SET_UPS, FIGURE_11: SET_UPS}
_QUICK = ("as in Figure 9", "half I/O, remote, 15 min")


def measure(
    data: Path, *, set_up: str, hours: Sequence[float], per_day: Sequence[float], jobs: int
) -> list[Row]:
    """Run the policies at the lengths of Figure 9 and at the rates of Figure 11.

    Columns: set_up, figure (the experiment's name), value, and those of ``jobs.runs.policy_rows``.
    """
    chosen = SET_UPS[set_up]
    overheads = replace(OVERHEADS, save_s_per_gb=chosen.save_s_per_gb)
    slack = min(chosen.save_s_per_gb * BASE_GB / chosen.interval_s, 1.0)
    points = [(FIGURE_9.name, length, 0.0) for length in hours]
    points += [(FIGURE_11.name, 10.0, rate) for rate in per_day]
    rows: list[Row] = []
    for figure, length, rate in points:
        world = world_2015(data, rate, chosen.billing, zone=chosen.zone, together=chosen.together)
        job = replace(job_of(length, io_share=chosen.io_share), slack=slack)
        found = policy_rows([job] * jobs, world, policies=chosen.policies(), overheads=overheads)
        value = length if figure == FIGURE_9.name else rate
        rows += [{"set_up": set_up, "figure": figure, "value": value, **row} for row in found]
    return rows


def measure_made(_data: Path | None, *, set_up: str) -> list[Row]:
    """Estimate the mechanisms at all values of Figure 8; one whose bid is below the price runs on-demand.

    Columns: set_up, figure, panel, value, mechanism; cost and time over on-demand.
    """
    chosen = MADE_SET_UPS[set_up]
    rows: list[Row] = []
    for panel, values in VALUES.items():
        for value in values:
            work_s = value * HOUR_S if panel == HOURS_PANEL else BASE_S
            job = baseline(work_s, chosen.memory_gb, chosen.io_share)
            markets = quoted(
                value if panel == RATE else chosen.per_day, 1.0 / value if panel == RATIO else chosen.price
            )
            for name, mechanism in MADE_MECHANISMS.items():
                plan = list_plans(job, (mechanism, ON_DEMAND), markets, IMMEDIATE)[0]
                rows.append(
                    {"set_up": set_up, "figure": FIGURE_8.name, "panel": panel, "value": value}
                    | {"mechanism": name, "cost": plan.cost_usd * HOUR_S / work_s}
                    | {"time": plan.time_s / work_s}
                )
    return rows


def _cases(quick: bool) -> list[Case]:
    ends = {"hours": HOURS[::5], "per_day": PER_DAY[::3], "jobs": 6}
    whole = {"hours": HOURS, "per_day": PER_DAY, "jobs": _JOBS}
    return [
        Case(name, measure, {"set_up": name, **(ends if quick else whole)}, (MARKETS_2015, PRICES_OD_2015))
        for name in (_QUICK if quick else SET_UPS)
    ] + [Case(name, measure_made, {"set_up": name}) for name in MADE_SET_UPS]


def _verdicts(rows: Sequence[Row], figure: Experiment, claim: Claim) -> Iterator[tuple[str, Verdict]]:
    """Yield each set-up with the verdict on a statement there."""
    for name in _OF_FIGURE[figure]:
        own = where(rows, set_up=name, figure=figure.name)
        if own:
            yield name, claim.check(own)


def _in_each(figure: Experiment, claim: Claim) -> Claim:
    def check(rows: Sequence[Row]) -> Verdict:
        verdicts = dict(_verdicts(rows, figure, claim))
        holds = [name for name, verdict in verdicts.items() if verdict.holds]
        fails = [name for name in verdicts if name not in holds]
        text = f"in {len(holds)} of {len(verdicts)} set-ups"
        if holds and fails:
            few = min(holds, fails, key=len)
            text += f"; {'only' if few is holds else 'not'} with: {', '.join(few)}"
        return Verdict(not fails, text)

    return Claim(claim.where, claim.text, check)


def _all_claims() -> list[tuple[Experiment, Claim]]:
    return [(figure, claim) for figure in _OF_FIGURE for claim in figure.claims]


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for name in SET_UPS:
        own = where(rows, set_up=name, figure=FIGURE_9.name, policy=COST_AWARE)
        only = {
            row["value"]: row for row in where(rows, set_up=name, figure=FIGURE_9.name, policy=CHECKPOINTS)
        }
        if not own:
            continue
        used: dict[str, int] = {}
        for row in own:
            for mechanism, attempts in row["used"].items():
                used[mechanism] = used.get(mechanism, 0) + attempts
        whole = sum(used.values())
        saved = ", ".join(
            f"{1 - row['cost'] / only[row['value']]['cost']:.1%} at {row['value']:g} h" for row in own
        )
        shares = ", ".join(f"{mechanism} {attempts / whole:.0%}" for mechanism, attempts in used.items())
        texts.append(
            f"{name}: cost-aware costs {own[0]['cost']:.3f} to {own[-1]['cost']:.3f} of on-demand, "
            f"{saved} less than with checkpoints only, in {np.mean([row['time'] for row in own]):.3f} of its "
            f"time; attempts: {shares}."
        )
    return texts


def _table(rows: Sequence[Row]) -> dict[str, Any]:
    """Return statement → set-up → whether it holds, and the figures."""
    return {
        "statements": [
            {"where": claim.where, "text": claim.text}
            | {
                "set_ups": {
                    name: {"holds": bool(verdict.holds), "figures": verdict.figures}
                    for name, verdict in _verdicts(rows, figure, claim)
                }
            }
            for figure, claim in _all_claims()
        ]
    }


def _draw(set_ups: Mapping[str, Any], title: str) -> Callable[[Sequence[Row]], Figure]:
    """Return a function that draws a dot for each statement and set-up, filled where it holds."""

    def draw(rows: Sequence[Row]) -> Figure:
        claims = [(figure, claim) for figure, claim in _all_claims() if _OF_FIGURE[figure] is set_ups]
        names = [name for name in set_ups if where(rows, set_up=name)]
        with panels(title, 1, 1, size=(11, 0.34 * len(claims) + 2.6)) as (figure, axes):
            axis = axes[0, 0]
            verdicts = [
                (names.index(name), place, bool(verdict.holds))
                for place, (experiment, claim) in enumerate(claims)
                for name, verdict in _verdicts(rows, experiment, claim)
            ]
            for holds, colour, face in ((True, LINES[0][0], LINES[0][0]), (False, GREY, "none")):
                at = [(x, y) for x, y, held in verdicts if held is holds]
                label = "holds" if holds else "does not hold"
                axis.plot(
                    [x for x, _ in at], [y for _, y in at], "o", color=colour, mfc=face, ms=8, label=label
                )
            axis.set_xticks(range(len(names)), names, rotation=35, ha="right")
            texts = [f"{claim.text.split(' (here')[0]} ({claim.where})" for _, claim in claims]
            axis.set_yticks(range(len(claims)), texts)
            axis.invert_yaxis()
            axis.margins(x=0.06)
            legend_below(figure, axis)
        return figure

    return draw


EXPERIMENT = Experiment(
    name="jobs-set-ups",
    title="Batch jobs: which statements of the paper hold for which set-up",
    source="our own question; P4 §6.1 and §6.2, Figures 8, 9 and 11",
    cases=_cases,
    pictures=(
        Picture(
            "jobs-set-ups",
            "Statements of the paper on its policies, judged under each set-up with the markets of 2015.",
            _draw(SET_UPS, "Which statements on policies hold for which set-up"),
        ),
        Picture(
            "jobs-set-ups-mechanisms",
            "Statements of the paper on its mechanisms, judged under each set-up of its synthetic job.",
            _draw(MADE_SET_UPS, "Which statements on mechanisms hold for which set-up"),
        ),
    ),
    sentences=_sentences,
    claims=tuple(_in_each(figure, claim) for figure, claim in _all_claims()),
    own_keys=_table,
)
