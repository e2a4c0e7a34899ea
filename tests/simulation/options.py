"""What one seed expands to: the federation, its users, and which faults befall it how often."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

#: Shapes of clouds, in cores by node.
_SHAPES = ((4, 4), (8,), (2, 4, 8), (6, 6), (4,), (3, 5))
_OFTEN, _SELDOM, _RARELY = 0.6, 0.3, 0.2
_MOST_NODES = 4
#: The longest promise in seconds at the SLA of renewable requests.
LONGEST_PROMISE_S = 3.0
#: Entries of an inbox that nobody can read.
POISON = (b"{", b"[{}]", b'[{"kind":"tick","id":"t","version":99}]', b'[{"kind":"nonsense","id":"n"}]', b"")


@dataclass(frozen=True)
class CloudOptions:
    """One cloud. ``standby``: a second process waits for the first one's lease."""

    id: str
    node_cores: tuple[int, ...]
    grace_s: float
    standby: bool


@dataclass(frozen=True)
class Options:
    """Rates are probabilities a call or a message; ``*_every_s`` mean gaps in seconds, 0: never."""

    clouds: tuple[CloudOptions, ...]
    brokers: int
    faults_s: float
    calm_s: float
    latency_s: float
    spot_every_s: float
    own_every_s: float
    lost: float
    unheard: float
    repeated: float
    held_at_call: float
    bell_lost: float
    bell_late_s: float
    inbox_again: float
    reserve_held: float
    poison_every_s: float
    owner_crash_every_s: float
    owner_held_every_s: float
    broker_crash_every_s: float
    broker_held_every_s: float
    outage_every_s: float
    clock_jump_every_s: float
    drain_every_s: float
    record_lost_every_s: float
    reshape_every_s: float = 0.0
    failover_every_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _lost(state: object) -> float:
    """The mean gap between two losses of a record, drawn from chance that nothing else is drawn from."""
    rng = random.Random(repr(state))
    return rng.uniform(1.0, 4.0) if rng.random() < _RARELY else 0.0


def expand(rng: random.Random) -> Options:
    """Each kind of fault is there or not: runs that have few of them reach further than those with all."""

    def maybe(share: float, low: float, high: float) -> float:
        value = rng.uniform(low, high)
        return value if rng.random() < share else 0.0

    clouds = tuple(
        CloudOptions(
            name, rng.choice(_SHAPES), rng.choice((0.0, 0.0, 2.0, 6.0)), standby=rng.random() < _SELDOM
        )
        for name in "abcd"[: rng.choice((2, 2, 3, 4))]
    )
    return Options(
        clouds=clouds,
        brokers=rng.choice((1, 2, 2)),
        faults_s=rng.uniform(6.0, 14.0),
        calm_s=26.0,
        latency_s=rng.choice((0.002, 0.02, 0.1)),
        spot_every_s=rng.uniform(0.4, 2.0),
        own_every_s=rng.uniform(0.8, 4.0),
        lost=maybe(_OFTEN, 0.0, 0.05),
        unheard=maybe(_OFTEN, 0.0, 0.05),
        repeated=maybe(_OFTEN, 0.0, 0.08),
        held_at_call=maybe(_OFTEN, 0.0, 0.015),
        bell_lost=maybe(_OFTEN, 0.0, 0.8),
        bell_late_s=maybe(_OFTEN, 0.0, 1.0),
        inbox_again=maybe(_OFTEN, 0.0, 0.15),
        reserve_held=maybe(_SELDOM, 0.0, 0.2),
        poison_every_s=maybe(_SELDOM, 2.0, 7.0),
        owner_crash_every_s=maybe(_OFTEN, 2.0, 9.0),
        owner_held_every_s=maybe(_OFTEN, 2.5, 9.0),
        broker_crash_every_s=maybe(_OFTEN, 2.0, 9.0),
        broker_held_every_s=maybe(_OFTEN, 1.5, 7.0),
        outage_every_s=maybe(_SELDOM, 4.0, 12.0),
        clock_jump_every_s=maybe(_SELDOM, 3.0, 9.0),
        drain_every_s=maybe(_OFTEN, 3.0, 8.0),
        record_lost_every_s=_lost(rng.getstate()),
    )


def reshapes_every_s(rng: random.Random) -> float:
    """How often clouds get other nodes. ``rng`` is for that alone: seeds without it stay as they are."""
    return rng.uniform(2.0, 6.0) if rng.random() < _SELDOM else 0.0


def reshaped(rng: random.Random, node_cores: tuple[int, ...]) -> tuple[int, ...]:
    """Other nodes: fewer, more, smaller, larger, in another order, or wholly others."""
    nodes = list(node_cores)
    match rng.choice(("fewer", "fewer", "more", "smaller", "larger", "order", "others")):
        case "fewer" if len(nodes) > 1:
            nodes.pop()
        case "more" if len(nodes) < _MOST_NODES:
            nodes.append(rng.randint(2, 8))
        case "smaller":
            node = rng.randrange(len(nodes))
            nodes[node] = rng.randint(1, nodes[node])
        case "larger":
            nodes[rng.randrange(len(nodes))] += rng.randint(1, 4)
        case "order":
            rng.shuffle(nodes)
        case _:
            return rng.choice(_SHAPES)
    return tuple(nodes)


def failovers_every_s(rng: random.Random) -> float:
    """How often a replica is promoted that lacks the latest writes. ``rng`` is for that alone, too."""
    return rng.uniform(2.0, 6.0) if rng.random() < _RARELY else 0.0
