"""What recorded traces are like, in few enough numbers to print: for stand-ins where the data is not at
hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class SizeProfile:
    """The instances of one size: how many there are, and how long they live (seconds)."""

    cores: int
    count: int
    median_s: float
    mean_s: float


@dataclass(frozen=True)
class TraceProfile:
    """A recorded trace in numbers, enough to make another like it."""

    name: str
    nodes: int
    cores_per_node: int
    span_s: float
    peak_cores: int
    sizes: tuple[SizeProfile, ...]

    @property
    def instances(self) -> int:
        """Instances of all sizes."""
        return sum(size.count for size in self.sizes)

    @property
    def mean_cores(self) -> float:
        """Cores in use, averaged over the span."""
        return sum(size.cores * size.count * size.mean_s for size in self.sizes) / self.span_s


def _sizes_of(*rows: tuple[int, int, float, float]) -> tuple[SizeProfile, ...]:
    return tuple(SizeProfile(*row) for row in rows)


#: The four production traces of P1 and P2. Nodes, spans, sizes, counts and peaks are those of
#: data/eucalyptus/PROVENANCE.md; medians and means of lifetimes were measured on DS2, DS3, DS5 and DS6.
PRODUCTION: Mapping[str, TraceProfile] = MappingProxyType(
    {
        "A": TraceProfile(
            "A",
            nodes=7,
            cores_per_node=12,
            span_s=24_531_071.0,
            peak_cores=83,
            sizes=_sizes_of(
                (1, 296, 4072, 594226),
                (2, 407, 3816, 81482),
                (4, 119, 3604, 127201),
                (8, 27, 166976, 500959),
                (12, 51, 27233, 74105),
            ),
        ),
        "B": TraceProfile(
            "B",
            nodes=7,
            cores_per_node=8,
            span_s=24_176_472.0,
            peak_cores=44,
            sizes=_sizes_of(
                (1, 1430, 879, 44246),
                (2, 842, 1815, 42808),
                (4, 328, 3938, 32017),
            ),
        ),
        "C": TraceProfile(
            "C",
            nodes=31,
            cores_per_node=32,
            span_s=2_886_162.0,
            peak_cores=749,
            sizes=_sizes_of(
                (1, 4375, 1190, 3264),
                (2, 2658, 490, 8493),
                (4, 1325, 1620, 195217),
                (6, 24, 676964, 1347213),
                (12, 21, 6902, 134206),
                (16, 13, 60875, 112438),
                (24, 40, 183091, 298794),
            ),
        ),
        "D": TraceProfile(
            "D",
            nodes=31,
            cores_per_node=32,
            span_s=2_994_952.0,
            peak_cores=816,
            sizes=_sizes_of(
                (1, 969, 1157, 1118),
                (2, 1880, 467, 3553),
                (4, 1175, 679, 109882),
                (6, 3, 1963263, 1686818),
                (12, 35, 40420, 836724),
                (16, 19, 729, 4141),
                (24, 71, 115542, 556839),
                (30, 5, 409158, 351386),
            ),
        ),
    }
)
