"""Pydantic models of a federation file: its tables, their fields and the values that each field accepts.

``cloudsim.federation.file`` documents the file, reads it, and turns these models into a ``Federation``. Rules
within one table are checked here; rules that involve nodes, traces or several clouds are checked there.
``FederationFile.model_json_schema()`` describes the file to editors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from cloudsim.disclosure.levels import Disclosure
from cloudsim.federation.direct_cloud import RETRY_S
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.model.nodes import (
    CORES,
    LARGEST_AMOUNT,
    NodeGroup,
    checked_amounts,
    checked_labels,
    checked_name,
)
from cloudsim.model.plugins import write_part
from cloudsim.model.requests import LEAST_S, MOST_POOLS, Amounts, Labels, Mode, Spread
from cloudsim.prediction.predictor import find_predictor
from cloudsim.scheduling.lineups import EVICTIONS, LIFO_POOLS, LINEUPS, eviction_lineup, lineup

T = TypeVar("T")

_MOST_NODES = 100_000
_MOST_CORES = 1_000_000
_MOST_OVERCOMMIT = 1000
_MOST_SLICES = 16
#: P3 §3.1 ends all intervals after two days; a year is generous.
_LONGEST_SLICE_H = 8784
_LINEUP_NAMES: list[JsonValue] = list(
    dict.fromkeys(policy.name for policy in (*LINEUPS, *EVICTIONS.values()))
)


def _field_error(field: str, message: str) -> PydanticCustomError:
    """Return an error for a field of the table under validation, written as ``.spot_caps.B``."""
    return PydanticCustomError("field", "{message}", {"message": message, "field": field})


def _check_with(check: Callable[..., T]) -> Callable[[Any], T]:
    """Turn a check of ``cloudsim``, which raises SpecError for a named field, into a validator."""

    def validate(value: Any) -> T:
        try:
            return check(value, field="")
        except SpecError as error:
            raise _field_error(error.field or "", error.message) from error

    return validate


def spec_error(error: ValidationError, file: str) -> SpecError:
    """Return the first mistake of a federation file as a SpecError that names file, table and field."""
    first = error.errors(include_url=False)[0]
    path = [part for part in first["loc"] if part not in _TAGS]
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    field += first.get("ctx", {}).get("field", "")
    return SpecError(_message(first), file=file, field=field.removeprefix(".") or None)


def _message(error: ErrorDetails) -> str:
    """Write an error so that it follows the name of its field: ``should be a valid string, not 7``."""
    match error["type"], error["loc"]:
        case "missing" | "too_short", ("cloud",):
            return "a federation needs at least one [[cloud]]"
        case "list_type", (str(name),):
            return f"write each as [[{name}]]"
        case "missing", _:
            return "is missing"
        case "model_type" | "dict_type", _:
            return f"should be a table, not {error['input']!r}"
    if error["msg"].startswith("Input should"):
        return f"{error['msg'].removeprefix('Input ')}, not {error['input']!r}"
    return error["msg"]


Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, AfterValidator(_check_with(checked_name))]
LabelTable = Annotated[
    Labels, PlainValidator(_check_with(checked_labels), json_schema_input_type=dict[str, str])
]
#: Seconds, from a number of seconds or from text such as ``15m``.
Duration = Annotated[
    float, BeforeValidator(_check_with(parse_duration_s), json_schema_input_type=float | str)
]
PositiveDuration = Annotated[Duration, Field(gt=0)]
Positive = Annotated[float, Field(gt=0)]
Price = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
Cores = Annotated[int, Field(ge=1, le=_MOST_CORES)]
CoreCap = Annotated[int, Field(ge=0)]
Amount = Annotated[int, Field(ge=0, le=LARGEST_AMOUNT)]
Seed = Annotated[int, Field(ge=0)]


class StrictTable(BaseModel):
    """Base of all tables of a federation file: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_fields(cls, table: Any) -> Any:
        """Name the first unknown field before anything else: misspelt, it explains why another is missing."""
        if isinstance(table, Mapping) and cls.model_config["extra"] == "forbid":
            known = sorted(field.alias or name for name, field in cls.model_fields.items())
            for name in table:
                if name not in known:
                    near = get_close_matches(name, known, n=1)
                    hint = f"; did you mean {near[0]}?" if near else ";"
                    raise _field_error(f".{name}", f"unknown field{hint} known are: {', '.join(known)}")
        return table


class _ResourceTable(StrictTable):
    """A table in which each further field is an amount of a resource."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Amount]

    cores: Cores

    @property
    def amounts(self) -> Amounts:
        """Amounts of the resources beside cores, by name."""
        return checked_amounts(self.__pydantic_extra__, field="")

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        _check_with(checked_amounts)(self.__pydantic_extra__)
        return self


class FlavourTable(_ResourceTable):
    """Amounts that instances of a number of cores need; every further field is an amount of a resource."""


class NodeGroupTable(_ResourceTable):
    """Nodes that are alike; every further field is an amount of a resource on each of them."""

    count: Annotated[int, Field(ge=1, le=_MOST_NODES)]
    labels: LabelTable = frozenset()
    overcommit: dict[str, Annotated[float, Field(gt=0, le=_MOST_OVERCOMMIT)]] = Field(
        {}, description="How much is sold of each real unit of a resource."
    )

    @property
    def node_group(self) -> NodeGroup:
        """Group as ``cloudsim.model.nodes`` represents it."""
        return NodeGroup(self.count, self.cores, self.amounts, self.labels, self.overcommit)

    @model_validator(mode="after")
    def _check_overcommit(self) -> Self:
        resources = {CORES, *dict(self.amounts)}
        for name in self.overcommit:
            if name not in resources:
                raise _field_error(
                    f".overcommit.{name}",
                    f"these nodes have no such resource; they have: {', '.join(sorted(resources))}",
                )
        if self.node_group.sold(CORES, self.cores) < 1:
            raise _field_error(f".overcommit.{CORES}", "leaves no core to sell")
        return self


def _check_node_count(groups: list[NodeGroupTable]) -> list[NodeGroupTable]:
    if sum(group.count for group in groups) > _MOST_NODES:
        raise _field_error("", f"more than {_MOST_NODES} nodes")
    return groups


class SyntheticTrace(StrictTable):
    """A trace made from published statistics: P1 Table I, or stand-ins for the production traces."""

    synthetic: Literal["table-1", "production-A", "production-B", "production-C", "production-D"]
    seed: Seed = 0
    hours: Positive | None = Field(None, description="Length of table-1; 240 if left out.")
    days: Positive | None = Field(None, description="Length of a production trace.")

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        if self.synthetic == "table-1" and self.days is not None:
            raise _field_error(".days", "goes with production traces; write hours")
        if self.synthetic != "table-1" and self.hours is not None:
            raise _field_error(".hours", "goes with table-1; write days")
        return self


class PriceTrace(StrictTable):
    """The own load of a public cloud, made from its price history."""

    prices: Text = Field(description="A file of prices, or a directory of them.")
    market: str | None = Field(None, description="TYPE/ZONE; may be left out if there is only one market.")
    bid_usd_per_hour: Positive | None = Field(
        None, description="Bid for an instance; by default the on-demand price."
    )


class PreemptionTrace(StrictTable):
    """The own load of a public cloud, made from the lifetimes of preempted instances."""

    preemptions: Text = Field(description="A file of preemptions.")
    market: str | None = Field(None, description="TYPE/ZONE; left out, the lifetimes of all markets count.")
    days: Positive = Field(60, description="Length of the load.")
    taken_s: PositiveDuration = Field(
        3600.0, alias="taken", description="How long nothing is free after each preemption."
    )
    seed: Seed = 0


def _trace_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "(file)"
    names = ("prices", "preemptions", "synthetic") if isinstance(value, Mapping) else ()
    return next((f"({name})" for name in names if name in value), None)


TraceSource = Annotated[
    Annotated[str, Tag("(file)")]
    | Annotated[PriceTrace, Tag("(prices)")]
    | Annotated[PreemptionTrace, Tag("(preemptions)")]
    | Annotated[SyntheticTrace, Tag("(synthetic)")],
    Discriminator(
        _trace_tag,
        custom_error_type="trace",
        custom_error_message="name a trace file, or write a table with synthetic, prices or preemptions",
    ),
]

Nodes = Annotated[
    Annotated[str, Tag("(shape)")]
    | Annotated[
        list[NodeGroupTable], Field(min_length=1), AfterValidator(_check_node_count), Tag("(groups)")
    ],
    Discriminator(
        lambda value: {str: "(shape)", list: "(groups)"}.get(type(value)),
        custom_error_type="nodes",
        custom_error_message='write a shape such as "7x12", or a list of groups of nodes',
    ),
]

#: Pydantic names the chosen member of a union in the place of an error; the file has no such key.
_TAGS = frozenset({"(file)", "(prices)", "(preemptions)", "(synthetic)", "(shape)", "(groups)"})


def _check_slices(hours: list[float]) -> list[float]:
    if sorted(set(hours)) != hours:
        raise _field_error("", "hours rise from one to the next")
    return hours


def _check_lineup(value: Any) -> Any:
    text = write_part(value)
    _check_with(lineup)(text)
    return text


def _check_predictor(value: Any) -> Any:
    _check_with(find_predictor)(value)
    return write_part(value)


def _check_eviction(name: Any) -> Any:
    _check_with(eviction_lineup)(name)
    return name


class DrainTable(StrictTable):
    """A drain of nodes for maintenance."""

    at_s: Duration = Field(alias="at", description="When the nodes close and their spot leaves.")
    nodes: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, min_length=1, description="Numbers of the nodes, from 0; left out: all."
    )
    until_s: Duration | None = Field(None, alias="until", description="When they open again.")

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if self.until_s is not None and self.until_s <= self.at_s:
            raise _field_error(".until", "is when the nodes open again, after at")
        return self


class CloudTable(StrictTable):
    """A member of the federation."""

    id: Text
    nodes: Nodes = Field(description='A shape such as "7x12" or "4x8,2x16", or groups of nodes.')
    trace: TraceSource | None = Field(None, description="Its on-demand load.")
    admission: Mode = Field(
        Mode.STRICT, strict=False, description="Whether the SLA holds for each request, or on average."
    )
    lineup: Annotated[str, BeforeValidator(_check_lineup)] | None = Field(
        None,
        description="How instances are placed, and which are evicted: a name, or a table of parts.",
        json_schema_extra={"enum": _LINEUP_NAMES},
    )
    predictor: Annotated[str, BeforeValidator(_check_predictor)] | None = Field(
        None, description="Predictor of an installed package: its name, or a table with name and parameters."
    )
    eviction: Annotated[str, BeforeValidator(_check_eviction)] | None = Field(
        None,
        description="Order of eviction, by the paper's name; instead of a line-up.",
        json_schema_extra={"enum": list(EVICTIONS)},
    )
    pools: int | None = Field(None, ge=1, le=MOST_POOLS, description="How many pools lifo-pools sells.")
    slices_h: Annotated[
        list[Annotated[float, Field(gt=0, le=_LONGEST_SLICE_H)]], AfterValidator(_check_slices)
    ] = Field([], max_length=_MOST_SLICES, description="The only durations of spot that are sold, in hours.")
    disclosure: Disclosure = Field(
        Disclosure.FULL, strict=False, description="How much is disclosed of the lifetimes of spot."
    )
    headroom: str | None = Field(None, description='Blocks of cores kept free of spot, such as "2x12".')
    direct: bool = Field(False, description="Own users call the cloud itself.")
    retry_s: PositiveDuration = Field(
        RETRY_S, alias="retry", description="How soon own users come again when there is no room."
    )
    grace_s: Duration = Field(0.0, alias="grace", description="Notice before an instance must leave.")
    drains: list[DrainTable] = Field([], description="When nodes are drained. Replays only.")
    overflow: bool = Field(False, description="Offer own requests that it must turn away to the others.")
    overflow_sla: Probability | None = Field(
        None, description="The promise asked for overflow; left out: no guarantee."
    )
    spot_cap_cores: CoreCap | None = Field(None, description="The most spot cores of one origin.")
    spot_caps: dict[str, CoreCap] = Field({}, description="The most spot cores of single origins.")
    fair_share_s: PositiveDuration | None = Field(
        None,
        alias="fair_share",
        description="How long an origin waits after a refusal for want of room.",
    )
    fair_share_weights: dict[str, Annotated[float, Field(ge=0.001, le=1000)]] = Field(
        {}, description="Weights of single origins; 1 for all others."
    )
    driver: Literal["process"] | None = Field(
        None, description="Its instances may run commands; simulated clouds leave it out."
    )
    spot_usd_per_core_hour: Price | None = None
    on_demand_usd_per_core_hour: Price | None = None
    sells_on_demand: bool = Field(False, description="Others may start on-demand instances here.")
    instances: dict[str, object] | None = Field(
        None, description="A real cloud: the driver that makes its leases instances, and its options."
    )

    @model_validator(mode="after")
    def _check_what_is_sold(self) -> Self:
        if self.eviction is not None and self.lineup is not None:
            raise _field_error(".eviction", "a line-up says who is evicted, too: leave one out")
        if self.pools is not None and not self.sells_pools:
            raise _field_error(".pools", 'goes with eviction = "lifo-pools"')
        if self.headroom is not None and self.sells_pools:
            raise _field_error(".headroom", "a cloud that sells pools keeps none: pool 0 is that room")
        if self.admission is Mode.POPULATION and self.disclosure is not Disclosure.FULL:
            raise _field_error(
                ".disclosure",
                'admission = "population" moves its bar with what became of earlier promises, which tells '
                f"more than {self.disclosure}: leave one of the two out",
            )
        return self

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        spot, on_demand = "spot_usd_per_core_hour", "on_demand_usd_per_core_hour"
        given = {name for name in (spot, on_demand) if getattr(self, name) is not None}
        if len(given) == 1:
            (missing,) = {spot, on_demand} - given
            raise _field_error(f".{missing}", f"is missing: {given.pop()} goes with it")
        if self.sells_on_demand and not given:
            raise _field_error(f".{on_demand}", "is missing: a cloud needs it to sell on-demand")
        return self

    @model_validator(mode="after")
    def _check_companions(self) -> Self:
        for name, needed, is_there in (
            ("overflow_sla", "overflow = true", self.overflow),
            ("retry", "direct = true", self.direct),
            ("fair_share_weights", 'fair_share, such as fair_share = "10m"', self.fair_share_s is not None),
        ):
            if not is_there and {name, f"{name}_s"} & self.model_fields_set:
                raise _field_error(f".{name}", f"goes with {needed}")
        return self

    @model_validator(mode="after")
    def _check_load(self) -> Self:
        if self.instances is None:
            if self.trace is None:
                raise _field_error(".trace", "is missing: name a trace file, or write a table")
            return self
        if self.driver is not None:
            raise _field_error(".driver", "does not go with instances, which name the driver of a real cloud")
        if self.overflow != ("overflow" in self.instances):
            raise _field_error(
                ".overflow",
                "of a real cloud goes with the table instances.overflow, which says what instances of its "
                "users are elsewhere; only the driver openstack has it",
            )
        return self

    @property
    def sells_pools(self) -> bool:
        """True if its spot cores are sold in pools."""
        return LIFO_POOLS.name in {self.eviction, self.lineup}


class WorkloadTable(StrictTable):
    """A trace that a member offers to others as spot requests."""

    origin: Text
    trace: TraceSource
    delay_s: Duration = Field(0.0, alias="delay", description="How much later than recorded it is offered.")
    sla: Probability | None = Field(None, description="The promise asked for; left out: no guarantee.")
    targets: list[str] | None = Field(None, description="Clouds to ask; left out: all but the origin.")
    labels: LabelTable = Field(frozenset(), description="It runs only on nodes with these labels.")
    group: Name | None = Field(None, description="A name for instances that are spread.")
    spread: Spread | None = Field(None, strict=False, description="Whether a group shares a node.")
    pool: int | None = Field(
        None, ge=0, lt=MOST_POOLS, description="Pool to ask for, of targets that sell pools."
    )
    renew: bool = Field(False, description="What cannot be promised at once is promised bit by bit.")
    least_s: PositiveDuration = Field(
        LEAST_S, alias="least", description="The least that renewable requests begin with."
    )

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if isinstance(self.trace, PriceTrace | PreemptionTrace):
            kind = "prices" if isinstance(self.trace, PriceTrace) else "preemptions"
            raise _field_error(f".trace.{kind}", "is the own load of a cloud, and no workload")
        if self.renew and (self.sla is None or self.sla == 1):
            raise _field_error(".renew", "goes with an sla below 1: without a promise nothing needs renewal")
        if "least_s" in self.model_fields_set and not self.renew:
            raise _field_error(".least", "goes with renew = true")
        if self.group is not None and self.spread is None:
            raise _field_error(".spread", f"is missing: a group is spread {' or '.join(Spread)}")
        if self.spread is not None and self.group is None:
            raise _field_error(".group", "is missing: spread needs the name of a group")
        return self


class FederationFile(StrictTable):
    """A federation file of spotfed: clouds, and the workloads they offer to each other."""

    until_s: Duration | None = Field(None, alias="until", description="Later requests are left out.")
    flavours: dict[str, FlavourTable] = Field({}, description="What instances need beside cores, by name.")
    cloud: list[CloudTable] = Field(min_length=1)
    workload: list[WorkloadTable] = Field([])

    @model_validator(mode="after")
    def _check_flavours(self) -> Self:
        names: dict[int, str] = {}
        for name, flavour in self.flavours.items():
            other = names.setdefault(flavour.cores, name)
            if other != name:
                raise _field_error(
                    f".flavours.{name}",
                    f"{other} has {flavour.cores} cores already, and traces tell nothing else",
                )
        return self
