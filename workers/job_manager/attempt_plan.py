"""Turn a chosen option into attempts for the job's journal, and explain the choice to people."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from broker.jobs.events import JobPlanned, PlannedAttempt
from broker.jobs.view import format_cost, format_duration
from cloudsim.jobs.mechanism_names import MechanismName
from cloudsim.model.requests import LEAST_S
from workers.job_manager.market import HomeOnDemand, JobMarket, SpotOffer
from workers.job_manager.planning_input import PlanningInput, PlanOption

#: The least and the largest SLA that leases of jobs are asked for.
LEAST_SLA, _MOST_SLA = 0.05, 0.99
_MARGIN = 0.05


def make_entry(planning: PlanningInput, market: JobMarket, option: PlanOption, why: str) -> JobPlanned:
    """Return the journal entry that plans the attempts of an option."""
    number = len(planning.job.attempts) + 1
    attempts: list[PlannedAttempt] = []
    for offer in option.offers:
        attempts.append(_on_spot(planning, option, offer, number + len(attempts), why))
    if option.mechanism.needs_backup:
        assert market.home is not None
        attempts.append(_backup(planning, option, market.home, number + 1))
    if not option.offers:
        assert market.home is not None
        attempts.append(_at_home(planning, option, market.home, number, why))
    return JobPlanned(
        at=planning.now,
        attempts=tuple(attempts),
        unit=market.unit,
        on_demand_cost=on_demand_cost(planning, market.home),
    )


def on_demand_cost(planning: PlanningInput, home: HomeOnDemand | None) -> float | None:
    """Return the cost of all the job's work on-demand, None if it is not known."""
    profile, request = planning.job.profile, planning.job.wish
    if profile is None or home is None:
        return None
    return profile.work_s / 3600.0 * request.cores * request.instances * home.price


def _common_fields(planning: PlanningInput, number: int, why: str) -> dict[str, object]:
    """Return the fields that all attempts share: they begin at the last safe state."""
    request, safe = planning.job.wish, planning.job.safe
    fields: dict[str, object] = {
        "number": number,
        "cores": request.cores,
        "instances": request.instances,
        "why": why,
    }
    if safe is not None:
        fields |= {
            "restored_from": safe.number,
            "restored_checkpoint": safe.checkpoint,
            "done_s": planning.job.safe_s,
        }
    return fields


def _on_spot(
    planning: PlanningInput, option: PlanOption, offer: SpotOffer, number: int, why: str
) -> PlannedAttempt:
    left, overheads = planning.left(), planning.overheads.of()
    mechanism = option.mechanism
    wall_s, interval_s = mechanism.wall_s(left, overheads), mechanism.interval_s(left, overheads)
    sla = choose_sla(offer.lifetimes.risk)
    alive = float(offer.lifetimes.survival(np.array([wall_s]))[0]) ** left.instances
    return PlannedAttempt.model_validate(
        _common_fields(planning, number, why)
        | {
            "role": "replica" if len(option.offers) > 1 else "main",
            "mechanism": mechanism.name,
            "storage": mechanism.storage,
            "cloud": offer.cloud,
            "spot": True,
            "price_usd_per_core_hour": offer.usd,
            "table_version": offer.table_version,
            "risk": 1.0 - alive,
            "expected_s": wall_s,
            "expected_cost": option.cost / len(option.offers),
            "speed": offer.lifetimes.speed,
            "lifetime_s": offer.wanted_s or offer.lifetimes.lifetime_s,
            "least_s": None if offer.wanted_s is None or sla is None else LEAST_S,
            "sla": sla,
            "checkpoint_s": None if interval_s is None else max(interval_s, 1.0),
            "saves_on_notice": mechanism.saves_on_notice,
            "pace": left.work_s / wall_s,
            "boots_agents": offer.boots_agents,
        }
    )


def _backup(planning: PlanningInput, option: PlanOption, home: HomeOnDemand, number: int) -> PlannedAttempt:
    (offer,) = option.offers
    jobs = max(math.floor(home.price / offer.price), 1)
    share = 1.0 / jobs
    why = f"a replica at 1/{jobs} of the pace, which nobody takes back: the job goes on from it if need be"
    return PlannedAttempt.model_validate(
        _common_fields(planning, number, why)
        | {
            "role": "backup",
            "mechanism": option.mechanism.name,
            "cloud": home.cloud,
            "spot": False,
            "price_usd_per_core_hour": home.usd,
            "expected_s": planning.left_s,
            "share": share,
            "pace": share,
        }
    )


def _at_home(
    planning: PlanningInput, option: PlanOption, home: HomeOnDemand, number: int, why: str
) -> PlannedAttempt:
    first = planning.job.profile is None
    return PlannedAttempt.model_validate(
        _common_fields(planning, number, why)
        | {
            "role": "profile" if first else "on-demand",
            "mechanism": option.mechanism.name,
            "cloud": home.cloud,
            "spot": False,
            "price_usd_per_core_hour": home.usd,
            "risk": 0.0,
            "expected_s": None if first else option.time_s,
            "expected_cost": None if first else option.cost,
        }
    )


def choose_sla(risk: float | None) -> float | None:
    """Return the SLA to ask for, given the probability that the lease is lost; None for no promise.

    It leaves some room for others who are placed meanwhile.
    """
    if risk is None:
        return None
    sla = max(math.ceil((risk + _MARGIN) * 100 - 1e-9) / 100, LEAST_SLA)
    return sla if sla <= _MOST_SLA else None


# -- in words ------------------------------------------------------------------------------------------------


def describe_mechanism(option: PlanOption) -> str:
    """Describe how the job survives evictions, in a few words for people."""
    name = option.mechanism.name
    return MechanismName(name).words if name in set(MechanismName) else f"by {name}"


def explain_choice(
    planning: PlanningInput,
    market: JobMarket,
    best: PlanOption,
    options: Sequence[PlanOption],
    late: Sequence[PlanOption],
) -> str:
    """Explain to people why an option was chosen.

    ``late``: the affordable options, including those that might miss the deadline.
    """
    unit = market.unit
    others = [option for option in options if option is not best]
    home = next((option for option in others if not option.offers), None)
    cheaper = [option for option in late if option.cost < best.cost]
    if cheaper:
        least = min(cheaper, key=lambda option: option.cost)
        return (
            f"expected {format_cost(best.cost, unit)} {describe_mechanism(best)}: "
            f"{format_cost(least.cost, unit)} {describe_mechanism(least)} would be cheaper, "
            f"but might miss the deadline in {format_duration(planning.to_deadline_s)}"
        )
    if not best.offers:
        why = f"nothing is cheaper than on-demand, {format_cost(best.cost, unit)}"
        spot = min((option for option in others if option.offers), key=lambda offer: offer.cost, default=None)
        if spot is not None:
            return (
                f"{why}: {format_cost(spot.cost, unit)} {describe_mechanism(spot)} on {spot.offers[0].cloud}"
            )
        return f"{why}: {explain_no_room(planning, market)}"
    clouds = len({offer.cloud for offer in market.offers if offer.cloud not in planning.avoided})
    several = f"cheapest of {clouds} clouds" if clouds > 1 else "the one cloud that offers room now"
    why = f"{several}: expected {format_cost(best.cost, unit)} {describe_mechanism(best)}"
    if home is not None:
        why += f" against {format_cost(home.cost, unit)} on-demand"
    second = min(
        (option for option in others if option.offers and type(option.mechanism) is not type(best.mechanism)),
        key=lambda offer: offer.cost,
        default=None,
    )
    if second is not None:
        why += f" ({format_cost(second.cost, unit)} {describe_mechanism(second)})"
    return why


def explain_no_room(planning: PlanningInput, market: JobMarket) -> str:
    """Explain to people why nothing can be had."""
    reasons = [f"{cloud}: {why}" for cloud, why in (*planning.avoided.items(), *market.refused)]
    if market.home is None:
        reasons.append("it has no home to run on-demand")
    elif planning.home_full:
        reasons.append(f"{market.home.cloud} has no room on-demand")
    if market.offers and not planning.job.wish.idempotent:
        reasons.append("it must not run twice, so spot must leave it the time to be saved")
    return "; ".join(reasons) if reasons else "no cloud offers spot on which commands run"
