"""The papers' production pairs: one trace on its own platform, the other offered to it as spot requests."""

from __future__ import annotations

from pathlib import Path

from cloudsim.experiments.experiment import Row

#: Trace → file, cores of a node. The nodes are those of the platform it was recorded on (PREDICTION.md).
TRACES = {
    "A": ("eucalyptus/DS2-trace.txt", 12),
    "B": ("eucalyptus/DS3-trace.txt", 8),
    "C": ("eucalyptus/DS5-trace.txt", 32),
    "D": ("eucalyptus/DS6-trace.txt", 32),
}
FULL_NODES = {"A": 7, "B": 7, "C": 31, "D": 31}


def needs(pair: str) -> tuple[str, ...]:
    """The data files of a pair such as "A-B"."""
    return tuple(TRACES[letter][0] for letter in pair.split("-"))


def run(data: Path, *, pair: str, nodes: int, sla: float | None, seed: int, most: int | None) -> list[Row]:
    """One pair on so many nodes at one SLA; ``most``: only so many requests of each trace."""
    from cloudsim.experiments.runs import single_cloud_row
    from cloudsim.traces.formats import read

    on_demand, spot = (read(data / name)[0] for name in needs(pair))
    if most is not None:
        on_demand, spot = on_demand.head(most), spot.head(most)
    cores = TRACES[pair[0]][1]
    return [
        single_cloud_row(
            pair=pair, nodes=f"{nodes}x{cores}", on_demand=on_demand, spot=spot, sla=sla, seed=seed
        )
    ]
