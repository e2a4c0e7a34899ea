"""Types of fields that messages share, with their bounds, and the base class of all messages."""

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

#: An id of a request, a lease or an instance. Ids travel in Redis keys, URLs and file names: no separators,
#: no white space, bounded.
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$", max_length=128)]

CloudId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]

Cores = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]

#: The longest duration that is accepted, about 100 years; longer ones are typing errors.
LONGEST_S = 3_200_000_000

Seconds = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]

#: The lifetime of an instance that ends by itself.
LivingSeconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

#: The name of a resource, a label or a group.
Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]


def _sort_amounts(amounts: dict[str, int]) -> dict[str, int]:
    """Sort the amounts by name and leave out zeros, so that equal needs are equal messages."""
    if CORES in amounts:
        raise PydanticCustomError("cores", "cores are named apart from other resources")
    return {name: amounts[name] for name in sorted(amounts) if amounts[name]}


def _sort_labels(labels: dict[str, str]) -> dict[str, str]:
    return dict(sorted(labels.items()))


#: Amounts of resources beside cores, by name of the resource.
Resources = Annotated[
    dict[Name, Annotated[int, Field(strict=True, ge=0, le=LARGEST_AMOUNT)]],
    Field(max_length=16),
    AfterValidator(_sort_amounts),
]

Labels = Annotated[dict[Name, Name], Field(max_length=16), AfterValidator(_sort_labels)]


class Message(BaseModel):
    """The base of all messages: immutable values that reject unknown fields."""

    # Most processes use few of the messages: each validator is built when it is first needed.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


#: The number of a spot pool, see ``cloudsim.admission.pools``; pool 0 is evicted first.
PoolNumber = Annotated[int, Field(strict=True, ge=0, lt=MOST_POOLS)]

#: The id of the API call that a piece of work belongs to; it is named in logs, and nothing is decided by it.
REQUEST_ID_PATTERN = r"^[A-Za-z0-9._:=+-]{1,64}$"
RequestId = Annotated[str, StringConstraints(pattern=REQUEST_ID_PATTERN)]
