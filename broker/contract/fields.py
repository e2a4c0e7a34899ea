"""What a user sends, and the types of its fields. ``broker.contract`` gives all of it on."""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from cloudsim.model.nodes import CORES, LARGEST_AMOUNT, NAME
from cloudsim.model.requests import MOST_POOLS

#: Ids travel in Redis keys, URLs and file names: no separators, no white space, bounded.
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$", max_length=128)]

CloudId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]

Cores = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]

#: At most 100 years; longer ones are typing errors.
LONGEST_S = 3_200_000_000

Seconds = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]

#: Lifetime of an instance that its user will not stop by hand.
LivingSeconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

#: Of a resource, a label, a group.
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]


def _resources(amounts: dict[str, int]) -> dict[str, int]:
    """By name, and without those of which nothing is needed: the same wish is the same message."""
    if CORES in amounts:
        raise PydanticCustomError("cores", "cores are named apart from other resources")
    return {name: amounts[name] for name in sorted(amounts) if amounts[name]}


def _sorted(labels: dict[str, str]) -> dict[str, str]:
    return dict(sorted(labels.items()))


#: Amounts of resources beside cores, by name.
Resources = Annotated[
    dict[Name, Annotated[int, Field(strict=True, ge=0, le=LARGEST_AMOUNT)]],
    Field(max_length=16),
    AfterValidator(_resources),
]

Labels = Annotated[dict[Name, Name], Field(max_length=16), AfterValidator(_sorted)]


class Message(BaseModel):
    """Base of all messages: values that say so when something is misspelt."""

    model_config = ConfigDict(frozen=True, extra="forbid")


#: Of a cloud that sells its spot in pools, see ``cloudsim.admission.pools``.
PoolNumber = Annotated[int, Field(strict=True, ge=0, lt=MOST_POOLS)]
