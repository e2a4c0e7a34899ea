"""Count how often a cloud takes spot instances back by itself, without a request in its history.

A public cloud's spot market, hosts that fail and users that the owner never hears of end instances that no
replay of the history evicts. All that is known of these ends is how many there were, and for how long
instances lived altogether.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TakeBacks:
    """Ends that the cloud brought about by itself.

    Attributes
    ----------
    taken
        Number of spot instances that were taken back.
    lived_s
        Seconds that all spot instances have lived, those included that ended otherwise or still run.
    """

    taken: int = 0
    lived_s: float = 0.0

    def after(self, lived_s: float, *, taken: bool) -> TakeBacks:
        """Return the counts with one more instance, which lived for ``lived_s`` seconds."""
        return TakeBacks(self.taken + taken, self.lived_s + lived_s)

    def risk(self, lifetime_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that an instance is taken back before each lifetime, in seconds.

        Take-backs come at a constant rate of which nothing was known before: after n of them in E seconds it
        is gamma-distributed (n + 1, E), and an instance lives for L seconds with probability
        (E / (E + L))^(n + 1). Without any take-back the risk falls below p after about L / p seconds.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            lives = np.where(lifetime_s > 0, self.lived_s / (self.lived_s + lifetime_s), 1.0)
        return np.asarray(1.0 - lives ** (self.taken + 1), dtype=np.float64)
