"""The papers' production pairs: one trace on its own platform, the other offered to it as spot requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloudsim.experiments.experiment import Row
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.traces.formats import read
from cloudsim.traces.trace import Trace

#: Trace → file, cores of a node. The nodes are those of the platform it was recorded on
#: (docs/design/prediction.md).
TRACES = {
    "A": ("eucalyptus/DS2-trace.txt", 12),
    "B": ("eucalyptus/DS3-trace.txt", 8),
    "C": ("eucalyptus/DS5-trace.txt", 32),
    "D": ("eucalyptus/DS6-trace.txt", 32),
}
FULL_NODES = {"A": 7, "B": 7, "C": 31, "D": 31}


def needs(pair: str) -> tuple[str, ...]:
    """Return the data files of a pair, for example of "A-B"."""
    return tuple(TRACES[letter][0] for letter in pair.split("-"))


def shape(pair: str, nodes: int | None = None) -> str:
    """Return the first cloud's nodes as written, for example "7x12"; None: as many as its platform had."""
    return f"{FULL_NODES[pair[0]] if nodes is None else nodes}x{TRACES[pair[0]][1]}"


def read_pair(data: Path, pair: str, most: int | None = None) -> tuple[Trace, Trace]:
    """Return the traces of a pair: on-demand, then spot; ``most``: only the first requests of each."""
    on_demand, spot = (read(data / name)[0] for name in needs(pair))
    return (on_demand, spot) if most is None else (on_demand.head(most), spot.head(most))


def pair_row(
    data: Path, pair: str, nodes: str | None = None, *, most: int | None = None, **options: Any
) -> Row:
    """Run a pair on a platform and return its row; ``options`` are those of ``single_cloud_row``."""
    on_demand, spot = read_pair(data, pair, most)
    return single_cloud_row(pair=pair, nodes=nodes or shape(pair), on_demand=on_demand, spot=spot, **options)


def run(data: Path, *, pair: str, nodes: int, sla: float | None, seed: int, most: int | None) -> list[Row]:
    """Run one pair on this many nodes at one SLA; ``most``: only the first requests of each trace."""
    return [pair_row(data, pair, shape(pair, nodes), most=most, sla=sla, seed=seed)]
