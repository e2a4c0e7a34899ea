"""The specification of a cloud, and what follows from it for its history and its tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cloudsim.admission.fair_share import FairShare
from cloudsim.admission.origin_caps import NO_CAPS, SpotCaps
from cloudsim.admission.pools import LEVELS, POOLS, Pools
from cloudsim.admission.products import Products
from cloudsim.admission.rule import STRICT_RULE, AdmissionRule
from cloudsim.disclosure.levels import Disclosure
from cloudsim.model.errors import SpecError
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from cloudsim.prediction.rule import OUR_RULE, PredictionRule
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.scheduling.lineups import LIFO_POOLS, YOUNGEST_JOB_FIRST, LineUp

HOUR_S = 3600.0


@dataclass(frozen=True)
class CloudSpec:
    """The specification of one cloud.

    node_cores: the cores of each node. details: what its nodes have beside cores. lineup: who is placed where
    and who leaves. grace_s: the notice in seconds before an eviction; 0, as in the papers, evicts at once.
    Only spot without a guarantee that gives way to spot with one gets no notice. admission, prediction: the
    rules of its promises and of its tables. Tables are made at k x ``refresh_s``, the first at
    ``first_table_s`` (P2 §3.1). spot_caps, fair_share: limits of origins. disclosure: how much of the
    lifetimes is told, and so how much can be promised. pools: the number of pools that it sells, with the
    line-up lifo-pools. slices_s: the durations that it sells, none for any. headroom: the cores of each block
    that it keeps free of spot (``cloudsim.cloud.headroom``). takes_back: True if it is known to take spot
    back by itself, so that nothing is promised before enough instances were seen to live. predictor: that of
    an installed package (``cloudsim.prediction.predictor.find_predictor``); None for ours.

    Raises
    ------
    SpecError
        When pools do not go with its nodes or with headroom.
    """

    id: str
    node_cores: tuple[int, ...]
    details: NodeDetails = CORES_ONLY
    lineup: LineUp = YOUNGEST_JOB_FIRST
    grace_s: float = 0.0
    admission: AdmissionRule = STRICT_RULE
    prediction: PredictionRule = OUR_RULE
    first_table_s: float = 24 * HOUR_S
    refresh_s: float = 6 * HOUR_S
    spot_caps: SpotCaps = NO_CAPS
    fair_share: FairShare | None = None
    disclosure: Disclosure = Disclosure.FULL
    pools: int = POOLS
    slices_s: tuple[float, ...] = ()
    headroom: tuple[int, ...] = ()
    takes_back: bool = False
    predictor: str | None = None

    def __post_init__(self) -> None:
        if self.products.pools and (self.details.amounts or self.details.labels):
            raise SpecError(
                "pools divide cores: a cloud that sells pools has nodes without further resources and labels",
                field="eviction",
            )
        if self.products.pools and self.headroom:
            raise SpecError("a cloud that sells pools keeps none: its pool 0 is that room", field="headroom")

    @cached_property
    def products(self) -> Products:
        """The products that the cloud sells."""
        pools = None
        if self.lineup == LIFO_POOLS:
            steps = LEVELS if self.disclosure is Disclosure.FULL else 1
            pools = Pools.cut(sum(self.node_cores), self.pools, steps)
        return Products(pools, self.slices_s)


def sampler_spec(spec: CloudSpec, seed: int, births: int) -> SamplerSpec:
    """Return what the cloud's tables are sampled from: line-up, grace and nodes shape the lifetimes."""
    return SamplerSpec(
        spec.node_cores,
        seed=seed,
        births=births,
        details=spec.details,
        lineup=spec.lineup.name,
        grace_s=spec.grace_s,
        predictor=spec.predictor,
    )


def recorded_resources(spec: CloudSpec) -> tuple[str, ...] | None:
    """Return the resources that the history must record for replays of the line-up; None for cores alone."""
    details = spec.details
    if spec.lineup.name == YOUNGEST_JOB_FIRST.name and not details.amounts and not details.labels:
        return None
    return details.resources[1:]
