"""The cases that both schedulers are measured in (the preemption paper, §4.3 and §4.5). Standard library
only: two virtual environments read this file.

Hosts have 8 vCPU and 16,000 MB. *Empty*: nothing runs. *Saturated*: eight small preemptible instances fill
each host, so every normal request must end at least one. Requests of a round follow each other and keep
what they took, as the paper's 130 do.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

VCPUS, MEMORY_MB, DISK_GB = 8, 16_000, 140  # of a host: Table 1
RESIDENTS = 8  # small preemptible instances of a saturated host
SEED = 1
_RUN_TIMES_S = (600, 18_000)  # §4.4.1: between 10 and 300 minutes

SCHEDULERS = ("plain", "aware", "retry")
STATES = ("empty", "saturated")
KINDS = ("normal", "preemptible")


@dataclass(frozen=True)
class Size:
    """An instance size of Table 2."""

    vcpus: int
    memory_mb: int
    disk_gb: int


SIZES = {"small": Size(1, 2000, 20), "medium": Size(2, 4000, 40), "large": Size(4, 8000, 80)}


@dataclass(frozen=True)
class Scenario:
    """Who schedules what, and where.

    ``scheduler``: ``plain`` (one cycle on the full host states, knows no preemption), ``aware`` (one cycle,
    normal requests filtered on the states without preemptible instances) or ``retry`` (a plain cycle and,
    for a normal request that it failed, an aware one). ``state``: ``empty`` or ``saturated``. ``kind`` and
    ``size`` are those of the request: ``normal`` or ``preemptible``; ``small``, ``medium`` or ``large``.
    Anything else, and a request that the state must refuse (saturated and plain, or saturated and
    preemptible), is a ``ValueError``.
    """

    scheduler: str
    state: str = "empty"
    kind: str = "normal"
    size: str = "small"

    def __post_init__(self) -> None:
        known = {"scheduler": SCHEDULERS, "state": STATES, "kind": KINDS, "size": tuple(SIZES)}
        for field, values in known.items():
            if getattr(self, field) not in values:
                raise ValueError(f"{field}: {getattr(self, field)!r} is none of {', '.join(values)}")
        if self.state == "saturated" and self.scheduler == "plain":
            raise ValueError("scheduler: plain finds no room on a saturated infrastructure")
        if self.state == "saturated" and self.kind == "preemptible":
            raise ValueError("kind: a preemptible request finds no room on a saturated infrastructure")

    def most(self, hosts: int) -> int:
        """So many requests of one round find a place."""
        size = SIZES[self.size]
        return hosts * min(VCPUS // size.vcpus, MEMORY_MB // size.memory_mb)

    def check(self, hosts: int, requests: int) -> None:
        """Raises ``ValueError`` when a round of so many requests would run out of room, or has none."""
        if hosts < 1 or requests < 1:
            raise ValueError(f"at least one host and one request: {hosts} and {requests}")
        if requests > self.most(hosts):
            raise ValueError(
                f"requests: {requests} {self.size} ones do not fit {hosts} hosts ({self.most(hosts)} do)"
            )

    def as_row(self) -> dict[str, Any]:
        """Its fields, for JSON and CSV."""
        return asdict(self)


#: The bars of Figure 2, its scenarios in the order of §4.5.
FIGURE_2 = (
    Scenario("plain"),
    Scenario("aware"),
    Scenario("retry"),
    Scenario("aware", kind="preemptible"),
    Scenario("retry", kind="preemptible"),
    Scenario("aware", state="saturated"),
    Scenario("retry", state="saturated"),
)


def run_times_s(hosts: int) -> list[list[float]]:
    """How long each resident of each saturated host has run, seconds: ``hosts`` lists of ``RESIDENTS``.

    The same for both schedulers; whole seconds, so that costs compare exactly.
    """
    generator = random.Random(SEED)
    return [[float(generator.randint(*_RUN_TIMES_S)) for _ in range(RESIDENTS)] for _ in range(hosts)]
