"""Requests: what a user of the federation or of one cloud asks for."""

from __future__ import annotations

import operator
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from broker.contract.fields import (
    CloudId,
    Cores,
    Id,
    Labels,
    LivingSeconds,
    Message,
    Name,
    PoolNumber,
    Probability,
    Resources,
    Seconds,
)
from broker.contract.launch import Launch
from broker.contract.version import since
from cloudsim.model.requests import Spread


def _wrap_in_list(value: Any) -> Any:
    """Return a single size as a list of one."""
    return value if isinstance(value, list) else [value]


#: Declares a field that is not written while it is empty. A function, for pydantic copies a shared default
#: deeply.
_unused = partial(Field, exclude_if=operator.not_)


class Needs(Message):
    """The needs of an instance beside cores, to be met by one node. Those that are not used are not written.

    Attributes
    ----------
    resources:
        Amounts by name, ``{"memory_mb": 4000}``.
    labels:
        Labels that the node must all have.
    group:
        The name of the group of instances that ``spread`` is about, shared by all users of a cloud.
    spread:
        "apart": on a node without other instances of the group; "together": on the node where they run. The
        instances of the same cloud that run when this one starts are considered.
    """

    resources: Resources = _unused(default_factory=dict, json_schema_extra={"default": {}})
    labels: Labels = _unused(default_factory=dict, json_schema_extra={"default": {}})
    group: Name | None = _unused(default=None)
    spread: Spread | None = _unused(default=None)

    @field_validator("spread")
    @classmethod
    def _require_group(cls, spread: Spread | None, info: ValidationInfo) -> Spread | None:
        if spread is not None and info.data.get("group") is None:
            raise PydanticCustomError("group", "says how a group is spread: name the group too")
        return spread

    @property
    def needs(self) -> dict[str, Any]:
        """The needs as arguments of ``cloudsim.model.requests.Request``."""
        return {
            "amounts": tuple(self.resources.items()),
            "labels": frozenset(self.labels.items()),
            "group": self.group,
            "spread": self.spread,
        }

    @property
    def needs_more(self) -> bool:
        """True if anything beside cores is needed."""
        return bool(self.resources or self.labels or self.group)

    def dump_needs(self) -> dict[str, Any]:
        """Return the needs as fields of another message that has them."""
        return {name: getattr(self, name) for name in _NEEDS}


_NEEDS = frozenset(Needs.model_fields)


class SpotNeeds(Needs):
    """The needs of a spot instance.

    ``pool`` is the number of a spot pool; pool 0 is evicted first. None leaves the choice to the cloud, which
    takes the uppermost pool that keeps the promise. A pool is refused by clouds that do not sell it, and by
    all clouds where the request asks for no promise. ``launch``: what the instance runs, on a real cloud.
    """

    pool: PoolNumber | None = since(3)
    launch: Launch | None = since(4)

    @property
    def needs(self) -> dict[str, Any]:
        """The needs and the pool as arguments of ``cloudsim.model.requests.Request``."""
        return {**super().needs, "pool": self.pool}

    def dump_needs(self) -> dict[str, Any]:
        """Return the needs, the pool and the launch as fields of another message that has them."""
        return {**super().dump_needs(), "pool": self.pool, "launch": self.launch}


class SpotRequest(SpotNeeds):
    """A federated request for one spot instance.

    ``sla`` is the largest acceptable probability of eviction before ``lifetime_s``: 0 only when the
    estimated risk is zero, null or 1 for no guarantee. ``at_s`` is the time of the federation and belongs
    to federations that run in trace time; only there may a lifetime be 0. Without a lifetime (null, with an
    SLA) the lease is renewed for as long as the SLA can be kept from one renewal to the next. ``targets``
    limits the clouds that may be asked (default: all but the origin). With ``least_s`` the request is
    renewable: where its lifetime cannot be promised at once it begins with as much as the SLA allows, at
    least so long, and is promised more from one renewal to the next until it has had all of its lifetime.
    """

    id: Id | None = None
    origin: CloudId = "user"
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None = None
    targets: tuple[CloudId, ...] | None = None
    at_s: Seconds | None = None
    least_s: LivingSeconds | None = since(4)

    def dump_terms(self) -> dict[str, Any]:
        """Return what the request asks for as fields of a command to an owner."""
        names = ("origin", "cores", "lifetime_s", "sla", "at_s", "least_s")
        terms = {name: getattr(self, name) for name in names}
        return {"request": self.id, **terms, **self.dump_needs()}


class SpotRequests(Message):
    """Requests for spot instances that are all admitted, on whichever clouds, or none is.

    Each has its own terms, and its lease the promise of its own SLA.
    """

    all_or_nothing: Literal[True]
    requests: Annotated[tuple[SpotRequest, ...], Field(min_length=1, max_length=100)]


class QuoteRequest(SpotNeeds):
    """A question what would be promised, for one size or several: a ``SpotRequest`` without effect.

    With ``least_s`` a quote may be for the first promise alone: as much of the lifetime as ``survives_s``.
    """

    id: Id | None = None
    origin: CloudId = "user"
    cores: Annotated[list[Cores], BeforeValidator(_wrap_in_list), Field(min_length=1, max_length=16)]
    lifetime_s: Seconds | None
    sla: Probability | None = None
    targets: tuple[CloudId, ...] | None = None
    at_s: Seconds | None = None
    least_s: LivingSeconds | None = since(4)

    def requests(self) -> list[SpotRequest]:
        """Return one request for each size, in the order of the sizes."""
        shared = self.model_dump(exclude={"cores"})
        return [SpotRequest(**shared, cores=cores) for cores in dict.fromkeys(self.cores)]


class ExtensionRequest(Message):
    """A later end for a running spot lease: its new whole ``lifetime_s`` since it started, or ``until_s``.

    ``sla`` is the largest acceptable probability of eviction from now to the new end; null keeps the lease's.
    """

    id: Id | None = None
    lifetime_s: LivingSeconds | None = None
    until_s: Seconds | None = None
    sla: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = None
    at_s: Seconds | None = None


class OnDemandRequest(Needs):
    """A request of a cloud's own users. Without ``lifetime_s`` it runs until it is stopped.

    ``launch``: what the instance runs, where a real cloud sells on-demand to others.
    """

    id: Id | None = None
    cores: Cores
    lifetime_s: LivingSeconds | None = None
    launch: Launch | None = since(4)


class OnDemandRequests(Message):
    """Requests of a cloud's own users that are placed together, or not at all.

    Where there is no room for all of them, nothing is evicted and nothing is offered to the federation.
    """

    all_or_nothing: Literal[True]
    requests: Annotated[tuple[OnDemandRequest, ...], Field(min_length=1, max_length=100)]
