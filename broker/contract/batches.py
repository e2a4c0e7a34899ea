"""Everything that crosses a process boundary, defined once: frozen, versioned, JSON only.

Three groups: what a user sends (``SpotRequest`` and the others of ``broker.asked``), what the broker tells an
owner (``Command``) and hears back (``Reply`` and the others of ``broker.answers``), and what an owner makes
known (``Event`` in its journal, ``Advert``, ``CloudInfo``).

A field that a later version adds is declared with ``since``, see ``broker.versions``.
Times named ``*_s`` are seconds of the cloud's own time; timestamps (``at``) are RFC 3339 in UTC.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from broker.contract.fields import CloudId, Cores, Message
from broker.contract.version import VERSION


class Batch(Message):
    """A share of the samples of one flavour that a table needs; a Monte-Carlo worker makes it.

    ``chunks``: the first so many chunks of the history of that epoch. ``refresh`` names the table they are
    for. ``amounts``: of the flavour, beside ``cores``. ``node_resources``, ``node_labels``: what the nodes
    have beside cores, in their order; with ``lineup`` and ``grace_s`` they are the cloud's own.
    """

    version: int = VERSION
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

    @property
    def result(self) -> str:
        """Names the flavour's part of the table, for the key of the samples."""
        flavour = "".join(f":{name}={self.amounts[name]}" for name in sorted(self.amounts))
        return self.refresh + flavour
