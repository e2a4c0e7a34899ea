"""Conversions between instances and their changes (``cloudsim``) and leases (``broker.contract``)."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from broker.contract import Lease, LeaseState
from cloudsim.cloud.cloud import Cloud
from cloudsim.disclosure.levels import Disclosure
from cloudsim.model.changes import End, Ended, Extended
from cloudsim.model.instances import Instance, Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Request
from cloudsim.scheduling.pipeline import explain

_STATE = {
    End.COMPLETED: LeaseState.COMPLETED,
    End.EVICTED: LeaseState.EVICTED,
    End.CANCELLED: LeaseState.CANCELLED,
    End.FAILED: LeaseState.FAILED,
}
#: Fields that an instance and its lease have alike, by name and form.
_SHARED = tuple(
    field.name
    for field in fields(Instance)
    if field.name in Lease.model_fields and field.name not in ("amounts", "labels")
)
_read_shared = attrgetter(*_SHARED)
_NO_FITTING_NODE = frozenset({RefusalReason.TOO_LARGE, RefusalReason.NO_SUCH_NODE, RefusalReason.NO_CAPACITY})
_END = {state: end for end, state in _STATE.items()}


def _shared_fields(value: Instance | Lease) -> dict[str, Any]:
    return dict(zip(_SHARED, _read_shared(value), strict=True))


def lease_of(
    instance: Instance,
    cloud: str,
    fence: int,
    state: LeaseState,
    *,
    request: Request | None = None,
    quote: Quote | None = None,
) -> Lease:
    """Return the lease of an instance. ``request`` and ``quote`` are those of a spot instance."""
    return Lease(
        **_shared_fields(instance),
        request=request.id if request else instance.id,
        cloud=cloud,
        starts_at_s=instance.start_s,
        ends_at_s=_end_s(instance),
        promised_sla=request.sla if request else None,
        eviction_probability=quote.eviction_probability if quote else None,
        table_version=quote.table_version if quote else None,
        fence=fence,
        state=state,
        amounts=dict(instance.amounts),
        labels=dict(sorted(instance.labels)),
    )


def ended(lease: Lease, change: Ended) -> Lease:
    """Return the lease after its end."""
    return lease.model_copy(
        update={"state": _STATE[change.how], "ended_at_s": change.at_s, "cause": change.cause}
    )


def withdrawn(lease: Lease, at_s: float) -> Lease:
    """Return a booked lease after its user has given it up."""
    return lease.model_copy(update={"state": LeaseState.CANCELLED, "ended_at_s": at_s})


def started(booked: Lease, instance: Instance) -> Lease:
    """Return a booked lease after its instance has started."""
    times = {"starts_at_s": instance.start_s, "ends_at_s": _end_s(instance)}
    return booked.model_copy(update={"state": LeaseState.RUNNING, **times})


def extended(lease: Lease, change: Extended, table_version: str | None) -> Lease:
    """Return the lease with its later end, the promise until then, and what else the extension changed."""
    instance = change.instance
    promise = {
        "promised_sla": instance.sla,
        "eviction_probability": instance.risk,
        "table_version": None if instance.risk is None else table_version,
        "promised_at_s": change.at_s,
        "extensions": lease.extensions + 1,
        "warned_at_s": None,
    }
    return lease.model_copy(update={**_shared_fields(instance), "ends_at_s": instance.end_s, **promise})


def extension_of(lease: Lease, cause: str | None) -> Extended:
    """Return the change that gave a lease its present end."""
    assert lease.promised_at_s is not None
    return Extended(instance_of(lease), lease.promised_at_s, cause)


def instance_of(lease: Lease) -> Instance:
    """Return the instance that a lease is about."""
    return Instance(
        **_shared_fields(lease),
        start_s=lease.starts_at_s,
        end_s=math.inf if lease.ends_at_s is None else lease.ends_at_s,
        sla=lease.promised_sla,
        risk=lease.eviction_probability,
        amounts=tuple(sorted(lease.amounts.items())),
        labels=frozenset(lease.labels.items()),
    )


def _end_s(instance: Instance) -> float | None:
    return instance.end_s if math.isfinite(instance.end_s) else None


def explained(refusal: Refusal, request: Request, cloud: Cloud) -> Refusal:
    """Add to a refusal for lack of a node what each filter removed, and whether evictions would help.

    Other refusals, and those of clouds that do not disclose their room, stay as they are.
    """
    if refusal.reason not in _NO_FITTING_NODE or cloud.spec.disclosure is not Disclosure.FULL:
        return refusal
    removed, would_help = explain(cloud.inventory, request, cloud.spec.lineup)
    return replace(refusal, removed=removed, eviction_would_help=would_help)


def end_of(lease: Lease) -> Ended:
    """Return the change that ended a lease."""
    assert lease.ended_at_s is not None
    return Ended(instance_of(lease), lease.ended_at_s, _END[lease.state], lease.cause)
