"""Logs of batch systems on nodes of other sizes than their machines': the same load, to the core."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import Change, TurnedAway
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats import read

JOBS = 3_000
LOGS = {
    "KTH-SP2-1996-2.1-cln.swf.gz": ("100x1", "50x2", "25x4", "6x16,1x4"),
    "SDSC-SP2-1998-4.2-cln.swf.gz": ("128x1", "64x2", "32x4", "8x16"),
    "NASA-iPSC-1993-3.1-cln.swf.gz": ("128x1", "64x2", "32x4", "8x16"),
}


def happened(change: Change) -> tuple[str, str, float]:
    """What a change is about, and when, without the nodes."""
    if isinstance(change, TurnedAway):
        return "turned away", change.request.id, change.at_s
    instance = change.instance  # type: ignore[union-attr]
    return (
        type(change).__name__,
        f"{instance.id} on {instance.cores}",
        getattr(change, "at_s", instance.start_s),
    )


@pytest.mark.parametrize("log", LOGS)
def test_the_occupancy_is_the_same_on_all_shapes(data_dir: Path, log: str) -> None:
    trace, _ = read(data_dir / "swf" / log)
    trace = trace.head(JOBS)
    first = None
    for shape in LOGS[log]:
        cloud = Cloud(CloudSpec("machine", parse_nodes(shape)), trace)
        changes = [happened(change) for change in cloud.advance(math.inf)]
        first = first or changes
        assert changes == first, shape
    assert first
    lost = sum(what == "turned away" for what, *_ in first)
    assert lost < 0.01 * JOBS  # the logs overbook their machines now and then
