"""What a user sends, and the types of its fields. ``broker.contract`` gives all of it on."""

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
from broker.contract.version import since
from cloudsim.model.requests import Spread


def _listed(value: Any) -> Any:
    """One size is a list of one."""
    return value if isinstance(value, list) else [value]


#: A field that is not written while it is not used. A factory, since pydantic copies a shared default deeply.
_unused = partial(Field, exclude_if=operator.not_)


class Needs(Message):
    """What an instance needs beside cores, all on one node.

    ``resources``: amounts by name, ``{"memory_mb": 4000}``. ``labels``: the node must have them all.
    ``group``: instances that ``spread`` speaks of, by a name that all who use a cloud share. ``spread``:
    "apart" from all of its group (each on a node of its own) or "together" with them (on the same node), as
    they run when this one starts, on the same cloud. None of these is written when it is not used.
    """

    resources: Resources = _unused(default_factory=dict, json_schema_extra={"default": {}})
    labels: Labels = _unused(default_factory=dict, json_schema_extra={"default": {}})
    group: Name | None = _unused(default=None)
    spread: Spread | None = _unused(default=None)

    @field_validator("spread")
    @classmethod
    def _of_a_group(cls, spread: Spread | None, told: ValidationInfo) -> Spread | None:
        if spread is not None and told.data.get("group") is None:
            raise PydanticCustomError("group", "says how a group is spread: name the group too")
        return spread

    @property
    def needs(self) -> dict[str, Any]:
        """The same as arguments of ``cloudsim.model.requests.Request``."""
        return {
            "amounts": tuple(self.resources.items()),
            "labels": frozenset(self.labels.items()),
            "group": self.group,
            "spread": self.spread,
        }

    @property
    def needs_more(self) -> bool:
        """Whether it needs anything beside cores."""
        return bool(self.resources or self.labels or self.group)

    def told_needs(self) -> dict[str, Any]:
        """The same as fields of another message that has them."""
        return {name: getattr(self, name) for name in _NEEDS}


_NEEDS = frozenset(Needs.model_fields)


class SpotNeeds(Needs):
    """What a spot instance needs. ``pool``: of clouds that sell pools; 0 is evicted first. None: the
    uppermost one that keeps the promise. Clouds without that pool refuse, and all do where no promise is
    asked."""

    pool: PoolNumber | None = since(3)

    @property
    def needs(self) -> dict[str, Any]:
        """The same as arguments of ``cloudsim.model.requests.Request``."""
        return {**super().needs, "pool": self.pool}

    def told_needs(self) -> dict[str, Any]:
        """The same as fields of another message that has them."""
        return {**super().told_needs(), "pool": self.pool}


class SpotRequest(SpotNeeds):
    """A federated request for one spot instance.

    ``sla`` is the largest acceptable probability of eviction before ``lifetime_s``: 0 only when the
    estimated risk is zero, null or 1 for no guarantee. ``at_s`` is the time of the federation and belongs
    to federations that run in trace time; only there may a lifetime be 0. Without a lifetime (null, with an
    SLA) the lease is renewed for as long as the SLA can be kept from one renewal to the next. ``targets``
    limits the clouds that may be asked (default: all but the origin).
    """

    id: Id | None = None
    origin: CloudId = "user"
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None = None
    targets: tuple[CloudId, ...] | None = None
    at_s: Seconds | None = None


class QuoteRequest(SpotNeeds):
    """What would be promised: a ``SpotRequest`` without an effect, for one size or several at once."""

    id: Id | None = None
    origin: CloudId = "user"
    cores: Annotated[list[Cores], BeforeValidator(_listed), Field(min_length=1, max_length=16)]
    lifetime_s: Seconds | None
    sla: Probability | None = None
    targets: tuple[CloudId, ...] | None = None
    at_s: Seconds | None = None

    def requests(self) -> list[SpotRequest]:
        """One request a size, in the order of the sizes."""
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
    """A request of a cloud's own users. Without ``lifetime_s`` it runs until it is stopped."""

    id: Id | None = None
    cores: Cores
    lifetime_s: LivingSeconds | None = None


class OnDemandRequests(Message):
    """Requests of a cloud's own users that make sense together only: all of them are placed, or none is and
    nobody is evicted. What is refused so is not offered to the federation."""

    all_or_nothing: Literal[True]
    requests: Annotated[tuple[OnDemandRequest, ...], Field(min_length=1, max_length=100)]
