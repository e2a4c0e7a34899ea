"""Options that describe a spot instance: what ``quote``, ``submit`` and ``fleet keep`` ask for."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer

from broker.cli.formatting import parse_sla
from broker.cli.options import build_model, parse_pairs
from broker.contract import SpotRequest
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Spread

CoresOption = Annotated[int, typer.Option(min=1, help="Cores of the instance, all on one node.")]
LifetimeOption = Annotated[
    str,
    typer.Option(
        help="How long it is to run, in the cloud's time: 90s, 40m, 2h, 3d; none: renewed while it can be."
    ),
]
SlaOption = Annotated[
    str, typer.Option(help="Largest acceptable probability of eviction before that; 'none': no guarantee.")
]
OriginOption = Annotated[str, typer.Option(help="On whose behalf; that member itself is not asked.")]
CloudOption = Annotated[
    list[str] | None,
    typer.Option(help="Ask this cloud only; may be repeated.", show_default="all but the origin"),
]
ResourceOption = Annotated[
    list[str] | None,
    typer.Option("--resource", help="What it needs beside cores: memory_mb=4000; may be repeated."),
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", help="Only on nodes with this label: zone=north; may be repeated."),
]
GroupOption = Annotated[str | None, typer.Option(help="Group of instances for --apart and --together.")]
ApartOption = Annotated[
    bool | None,
    typer.Option("--apart/--together", help="Away from all of its group, or on the node where they run."),
]
LeastOption = Annotated[
    str | None,
    typer.Option(
        help="Begin with at least so much of the lifetime, where all of it cannot be promised yet: 1h."
    ),
]
PoolOption = Annotated[
    int | None,
    typer.Option(
        help="Pool, on clouds that sell pools: 0 is evicted first.",
        show_default="uppermost that keeps the SLA",
    ),
]

#: Options that set a field of ``SpotRequest`` or ``QuoteRequest`` under another name.
OPTION_OF_FIELD = {
    "targets": "--cloud",
    "lifetime_s": "--lifetime",
    "least_s": "--least",
    "resources": "--resource",
    "labels": "--label",
    "spread": "--apart/--together",
}


class NeedsOptions(NamedTuple):
    """Needs of an instance beside cores, as they were written on the command line."""

    resources: list[str] | None = None
    labels: list[str] | None = None
    group: str | None = None
    apart: bool | None = None
    pool: int | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of ``SpotRequest`` that these options set. Raises SpecError naming an option."""
        amounts = parse_pairs(self.resources, field="--resource")
        return {
            "resources": {name: _parse_amount(text) for name, text in amounts.items()},
            "labels": parse_pairs(self.labels, field="--label"),
            "group": self.group,
            "spread": None if self.apart is None else Spread.APART if self.apart else Spread.TOGETHER,
            "pool": self.pool,
        }


def build_request(
    cores: int,
    lifetime: str,
    sla: str,
    origin: str,
    clouds: list[str] | None,
    needs: NeedsOptions,
    request_id: str | None = None,
    least: str | None = None,
) -> SpotRequest:
    """Build the request that the options describe. Raises SpecError naming an option."""
    is_renewed = lifetime.strip().lower() == "none"
    lifetime_s = None if is_renewed else parse_duration_s(lifetime, field="--lifetime")
    if lifetime_s is not None and lifetime_s <= 0:
        raise SpecError(f"{lifetime!r} is no time at all", field="--lifetime")
    fields = {
        "id": request_id,
        "origin": origin,
        "cores": cores,
        "lifetime_s": lifetime_s,
        "least_s": None if least is None else parse_duration_s(least, field="--least"),
        "sla": parse_sla(sla, field="--sla"),
        "targets": tuple(clouds) if clouds else None,
        **needs.fields(),
    }
    return build_model(SpotRequest, fields, OPTION_OF_FIELD)


def _parse_amount(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise SpecError(f"{text!r} is not a whole number", field="--resource")
    return int(text)
