"""Options that the commands about traces share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.simulation_options import NODES_HELP
from cloudsim.scheduling.inventory import parse_nodes

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A recorded file, plain or gzip.")]
NodesOption = Annotated[str | None, typer.Option(help=f"{NODES_HELP} Its cores are the capacity.")]
ErrorRateOption = Annotated[
    float, typer.Option(min=0, max=1, help="Share of a file's lines that may be bad.")
]


def parse_capacity(nodes: str | None) -> int | None:
    """Return the cores of a cloud of this shape. Raises SpecError naming ``--nodes``."""
    return None if nodes is None else sum(parse_nodes(nodes, field="--nodes"))
