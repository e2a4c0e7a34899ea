"""What a user sends, and the types of its fields. ``broker.contract`` gives all of it on."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

#: Ids travel in Redis keys, URLs and file names: no separators, no white space, bounded.
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$", max_length=128)]
CloudId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]
Cores = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
#: At most 100 years; longer ones are typing errors.
Seconds = Annotated[float, Field(ge=0, le=3_200_000_000, allow_inf_nan=False)]
#: Lifetime of an instance that its user will not stop by hand.
LivingSeconds = Annotated[float, Field(gt=0, le=3_200_000_000, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _listed(value: Any) -> Any:
    """One size is a list of one."""
    return value if isinstance(value, list) else [value]


class Message(BaseModel):
    """Base of all messages: values that say so when something is misspelt."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SpotRequest(Message):
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


class QuoteRequest(Message):
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


class OnDemandRequest(Message):
    """A request of a cloud's own users. Without ``lifetime_s`` it runs until it is stopped."""

    id: Id | None = None
    cores: Cores
    lifetime_s: LivingSeconds | None = None
