"""Warming up runs every line-up for real: each evicts on a cloud of one core."""

import pytest

from cloudsim.model.instances import Placement
from cloudsim.scheduling import pipeline
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import LINEUPS, LineUp


@pytest.mark.parametrize("lineup", LINEUPS, ids=lambda one: one.name)
def test_it_plans_an_eviction(lineup: LineUp, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    plan = pipeline.plan

    def noted(inventory: Inventory, *rest: object) -> object:
        planned.append(plan(inventory, *rest))  # type: ignore[arg-type]
        return planned[-1]

    monkeypatch.setattr(pipeline, "plan", noted)
    pipeline.warm_up(lineup)
    (placement,) = planned
    assert isinstance(placement, Placement)
    assert [one.id for one in placement.victims] == ["victim"]
