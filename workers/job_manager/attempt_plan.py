"""A way that was chosen, as attempts for the job's journal, and why, for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from broker.jobs.events import JobPlanned, PlannedAttempt
from broker.jobs.view import money, span
from cloudsim.jobs.job import StorageKind
from cloudsim.jobs.mechanisms import Backup, Checkpoint, Migration
from cloudsim.jobs.replicas import Replicate
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotOffer
from workers.job_manager.planning_input import PlanningInput, PlanOption

_LEAST_SLA, _MOST_SLA = 0.05, 0.99
_MARGIN = 0.05


def make_entry(standing: PlanningInput, market: JobMarket, way: PlanOption, why: str) -> JobPlanned:
    """The entry."""
    number = len(standing.job.places) + 1
    attempts: list[PlannedAttempt] = []
    for offer in way.offers:
        attempts.append(_on_spot(standing, way, offer, number + len(attempts), why))
    if isinstance(way.mechanism, Backup):
        assert market.home is not None
        attempts.append(_backup(standing, way, market.home, number + 1))
    if not way.offers:
        assert market.home is not None
        attempts.append(_at_home(standing, way, market.home, number, why))
    return JobPlanned(
        at=standing.now,
        attempts=tuple(attempts),
        unit=market.unit,
        on_demand_cost=on_demand_cost(standing, market.home),
    )


def on_demand_cost(standing: PlanningInput, home: HomeOnDemand | None) -> float | None:
    """What all of the job's work costs on-demand, where it is known what that is."""
    profile, wish = standing.job.profile, standing.job.wish
    if profile is None or home is None:
        return None
    return profile.work_s / 3600.0 * wish.cores * wish.instances * home.price


def _shared(standing: PlanningInput, number: int, why: str) -> dict[str, object]:
    """What all attempts have in common: the last safe state is where they begin."""
    wish, safe = standing.job.wish, standing.job.safe
    found: dict[str, object] = {
        "number": number,
        "cores": wish.cores,
        "instances": wish.instances,
        "why": why,
    }
    if safe is not None:
        found |= {
            "restored_from": safe.number,
            "restored_checkpoint": safe.checkpoint,
            "done_s": standing.job.safe_s,
        }
    return found


def _on_spot(
    standing: PlanningInput, way: PlanOption, offer: SpotOffer, number: int, why: str
) -> PlannedAttempt:
    left, overheads = standing.left(), standing.overheads.of()
    storage, wall_s, checkpoint_s = StorageKind.LOCAL, left.work_s, None
    mechanism = way.mechanism
    if isinstance(mechanism, Checkpoint | Migration):
        storage, wall_s = mechanism.storage, mechanism.wall_s(left, overheads)
    if isinstance(mechanism, Checkpoint):
        checkpoint_s = max(mechanism.interval_s(left, overheads), 1.0)
    role = "replica" if len(way.offers) > 1 else "main"
    name = "begin again" if isinstance(mechanism, Replicate) and role == "main" else mechanism.name
    alive = float(offer.lifetimes.survival(np.array([wall_s]))[0]) ** left.instances
    return PlannedAttempt.model_validate(
        _shared(standing, number, why)
        | {
            "role": role,
            "mechanism": name,
            "storage": storage,
            "cloud": offer.cloud,
            "spot": True,
            "price_usd_per_core_hour": offer.usd,
            "table_version": offer.table_version,
            "risk": 1.0 - alive,
            "expected_s": wall_s,
            "expected_cost": way.cost / len(way.offers),
            "speed": offer.lifetimes.speed,
            "lifetime_s": offer.lifetimes.lifetime_s,
            "sla": asked_sla(offer.lifetimes.risk),
            "checkpoint_s": checkpoint_s,
            "saves_on_notice": isinstance(mechanism, Migration),
            "pace": left.work_s / wall_s,
        }
    )


def _backup(standing: PlanningInput, way: PlanOption, home: HomeOnDemand, number: int) -> PlannedAttempt:
    (offer,) = way.offers
    jobs = max(math.floor(home.price / offer.price), 1)
    share = 1.0 / jobs
    why = f"a replica at 1/{jobs} of the pace, which nobody takes back: the job goes on from it if need be"
    return PlannedAttempt.model_validate(
        _shared(standing, number, why)
        | {
            "role": "backup",
            "mechanism": way.mechanism.name,
            "cloud": home.cloud,
            "spot": False,
            "price_usd_per_core_hour": home.usd,
            "expected_s": standing.left_s,
            "share": share,
            "pace": share,
        }
    )


def _at_home(
    standing: PlanningInput, way: PlanOption, home: HomeOnDemand, number: int, why: str
) -> PlannedAttempt:
    first = standing.job.profile is None
    return PlannedAttempt.model_validate(
        _shared(standing, number, why)
        | {
            "role": "profile" if first else "on-demand",
            "mechanism": way.mechanism.name,
            "cloud": home.cloud,
            "spot": False,
            "price_usd_per_core_hour": home.usd,
            "risk": 0.0,
            "expected_s": None if first else way.time_s,
            "expected_cost": None if first else way.cost,
        }
    )


def asked_sla(risk: float | None) -> float | None:
    """The promise to ask for where a lease is lost with this probability, with some room for others who are
    placed meanwhile; None: none."""
    if risk is None:
        return None
    sla = max(math.ceil((risk + _MARGIN) * 100 - 1e-9) / 100, _LEAST_SLA)
    return sla if sla <= _MOST_SLA else None


# -- in words ------------------------------------------------------------------------------------------------

_HOW = {
    "checkpoint": "with checkpoints",
    "migrate": "moving on when the cloud gives notice",
    "backup": "with a backup replica",
    "on-demand": "on-demand",
}


def describe_mechanism(way: PlanOption) -> str:
    """A way for people."""
    if isinstance(way.mechanism, Replicate):
        return "by two replicas" if len(way.offers) > 1 else "beginning again after each eviction"
    return _HOW[way.mechanism.name]


def explain_choice(
    standing: PlanningInput,
    market: JobMarket,
    best: PlanOption,
    found: Sequence[PlanOption],
    late: Sequence[PlanOption],
) -> str:
    """Why this one, for people. late: the affordable ones, those included that might miss the deadline."""
    unit = market.unit
    others = [one for one in found if one is not best]
    home = next((one for one in others if not one.offers), None)
    cheaper = [one for one in late if one.cost < best.cost]
    if cheaper:
        least = min(cheaper, key=lambda one: one.cost)
        return (
            f"expected {money(best.cost, unit)} {describe_mechanism(best)}: "
            f"{money(least.cost, unit)} {describe_mechanism(least)} would be cheaper, "
            f"but might miss the deadline in {span(standing.to_deadline_s)}"
        )
    if not best.offers:
        why = f"nothing is cheaper than on-demand, {money(best.cost, unit)}"
        spot = min((one for one in others if one.offers), key=lambda one: one.cost, default=None)
        if spot is not None:
            return f"{why}: {money(spot.cost, unit)} {describe_mechanism(spot)} on {spot.offers[0].cloud}"
        return f"{why}: {explain_no_room(standing, market)}"
    clouds = len({one.cloud for one in market.offers if one.cloud not in standing.avoided})
    several = f"cheapest of {clouds} clouds" if clouds > 1 else "the one cloud that offers room now"
    why = f"{several}: expected {money(best.cost, unit)} {describe_mechanism(best)}"
    if home is not None:
        why += f" against {money(home.cost, unit)} on-demand"
    second = min(
        (one for one in others if one.offers and type(one.mechanism) is not type(best.mechanism)),
        key=lambda one: one.cost,
        default=None,
    )
    if second is not None:
        why += f" ({money(second.cost, unit)} {describe_mechanism(second)})"
    return why


def explain_no_room(standing: PlanningInput, market: JobMarket) -> str:
    """Why nothing can be had, for people."""
    said = [f"{cloud}: {why}" for cloud, why in (*standing.avoided.items(), *market.refused)]
    if market.home is None:
        said.append("it has no home to run on-demand")
    elif standing.home_full:
        said.append(f"{market.home.cloud} has no room on-demand")
    if market.offers and not standing.job.wish.idempotent:
        said.append("it must not run twice, so spot must leave it the time to be saved")
    return "; ".join(said) if said else "no cloud offers spot on which commands run"
