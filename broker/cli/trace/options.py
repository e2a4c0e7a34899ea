"""Options that the commands about traces share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.simulation_options import NODES_HELP
from cloudsim.model.errors import SpecError
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats.named_columns import check_names

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A recorded file, plain or gzip.")]
NodesOption = Annotated[str | None, typer.Option(help=f"{NODES_HELP} Its cores are the capacity.")]
ErrorRateOption = Annotated[
    float, typer.Option(min=0, max=1, help="Share of a file's lines that may be bad.")
]

TimeZoneOption = Annotated[
    str | None,
    typer.Option(
        help="Zone of the site's clock, such as Europe/Berlin, where the file has times without one."
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="PART=COLUMN,...",
        help="Columns of a CSV in no known format: start, cores, end or duration, and instance.",
    ),
]


def parse_columns(columns: str | None) -> dict[str, str] | None:
    """Return the names of columns by part, from PART=COLUMN pairs separated by commas.

    Raises
    ------
    SpecError
        When a pair is none, or a part is unknown or missing; it names ``--columns``.
    """
    if columns is None:
        return None
    pairs = [pair.partition("=") for pair in columns.split(",")]
    if not all(part.strip() and equals and name.strip() for part, equals, name in pairs):
        raise SpecError("write PART=COLUMN,... such as start=begin,end=finish,cores=cpus", field="--columns")
    named = {part.strip(): name.strip() for part, _, name in pairs}
    try:
        check_names(named)
    except SpecError as error:
        raise SpecError(error.message, field="--columns") from None
    return named


def parse_capacity(nodes: str | None) -> int | None:
    """Return the cores of a cloud of this shape. Raises SpecError naming ``--nodes``."""
    return None if nodes is None else sum(parse_nodes(nodes, field="--nodes"))
