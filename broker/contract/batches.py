"""Batches: the shares of a table's samples that an owner hands to Monte-Carlo workers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from broker.contract.fields import CloudId, Cores, Message
from broker.contract.version import since, written_version


class Batch(Message):
    """A share of the samples that a table needs for one size; a Monte-Carlo worker makes it.

    Attributes
    ----------
    epoch, chunks:
        The history to replay: the first ``chunks`` chunks of that epoch.
    refresh:
        The table that the samples are for.
    cores, amounts:
        The size: cores, and amounts of other resources.
    share, shares:
        Which share this is, from 0, and of how many.
    node_cores, node_resources, node_labels:
        The cloud's nodes in their order.
    births:
        The number of Monte-Carlo samples of this size.
    lineup, grace_s:
        The cloud's line-up of policies, and the length of its notices in seconds.
    predictor:
        The predictor of an installed package that samples instead of ours.
    """

    version: int = written_version()
    cloud: CloudId
    epoch: int
    refresh: str
    chunks: Annotated[int, Field(ge=1)]
    cores: Cores
    share: Annotated[int, Field(ge=0)]
    shares: Annotated[int, Field(ge=1)]
    node_cores: tuple[Cores, ...]
    seed: int
    births: Annotated[int, Field(ge=1)]
    amounts: dict[str, int] = Field(default_factory=dict)
    node_resources: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    node_labels: tuple[dict[str, str], ...] = ()
    lineup: str = "youngest-job-first"
    grace_s: float = 0.0
    predictor: str | None = since(4)

    @property
    def result(self) -> str:
        """The name of this size's part of the table, for the key of the samples."""
        flavour = "".join(f":{name}={self.amounts[name]}" for name in sorted(self.amounts))
        return self.refresh + flavour
