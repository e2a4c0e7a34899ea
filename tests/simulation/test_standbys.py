"""A standby on another machine takes over within the time that the documentation names, in simulated time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tests.simulation.processes import SETTINGS
from tests.simulation.world import World

#: The lease of an owner that died, the pause between two looks at it, and calls of some milliseconds.
BOUND_S = 1.25 * SETTINGS.owner_lease_ttl_s + 0.1


class DyingHosts(World):
    """A quiet federation, whose owners' hosts die. ``took_s``: until the next owners had opened."""

    def __init__(self, seed: int, lived_s: float):
        super().__init__(seed)
        faults = ("lost", "unheard", "repeated", "held_at_call", "bell_lost", "inbox_again")
        gaps = [name for name in vars(self.options) if "_every_s" in name]
        quiet: dict[str, Any] = dict.fromkeys((*gaps, *faults), 0.0)
        self.options = replace(
            self.options,
            clouds=tuple(replace(cloud, standby=True) for cloud in self.options.clouds),
            **{**quiet, "spot_every_s": 0.5, "latency_s": 0.002, "faults_s": lived_s + 4.0},
        )
        self.lived_s = lived_s
        self.took_s: list[float] = []

    async def _live(self) -> None:
        self.act(self._die())
        await super()._live()

    async def _die(self) -> None:
        await asyncio.sleep(self.lived_s)
        died_s = self.clock.time()
        for cloud in self.owners:
            owner = self._owner(cloud)
            assert owner is not None
            owner.kill("its host died")
        for cloud in self.owners:
            while self._owner(cloud) is None:
                await asyncio.sleep(0.005)
            self.took_s.append(self.clock.time() - died_s)


def test_a_standby_takes_over_in_bounded_time():
    took_s: list[float] = []
    for seed, lived_s in enumerate((2.0, 2.3, 2.9)):
        world = DyingHosts(seed, lived_s)
        world.run()
        assert world.violation is None
        assert len(world.took_s) == len(world.options.clouds)
        took_s += world.took_s
    assert max(took_s) <= BOUND_S
    assert min(took_s) > 0.5 * SETTINGS.owner_lease_ttl_s, "nobody takes what its owner may still hold"
