"""Data frames of replays and tables say what their reports and rows say."""

from __future__ import annotations

import numpy as np

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.federation.request_outcomes import RequestOutcomes
from cloudsim.history.event_log import PHASE_STOP
from cloudsim.prediction.predictor import LocalPredictor
from cloudsim.prediction.samplers.replay import SamplerSpec
from cloudsim.traces.synthesis import lognormal_trace


def test_one_row_a_request_adds_up_to_the_report() -> None:
    own, spot = (lognormal_trace(np.random.default_rng(seed), hours=60) for seed in (1, 2))
    clouds = tuple(
        FederatedCloud(CloudSpec(name, (4,) * 3), "3x4", own, overflow=name == "full", overflow_sla=None)
        for name in ("full", "other")
    )
    workload = Workload("guests", spot, 86_400, 0.5, ("full", "other"))
    outcomes = RequestOutcomes()
    report = replay(Federation(clouds, (workload,)), seed=3, births=200, outcomes=outcomes)
    frame = outcomes.to_frame()
    for overflow, told in ((False, report["origins"]["guests"]), (True, report["overflow"]["full"])):
        part = frame[frame.overflow == overflow]
        admitted, reasons = part.cloud.notna(), part.refusals.str.split("; ").explode().str.partition(": ")[2]
        assert len(part) == told["requests"] > 0
        assert (admitted.sum(), (part.end == "evicted").sum()) == (told["admitted"], told["evicted"])
        assert reasons[reasons != ""].value_counts().to_dict() == told["refusals"]
        assert (part.end.notna() == admitted).all()
        assert (part.ended_at_s[admitted] > part.asked_at_s[admitted]).all()
    assert (frame.end == "evicted").any()
    assert frame[~frame.overflow].eviction_probability.between(0, 0.5).any()
    assert frame.asked_at_s.is_monotonic_increasing


def test_no_requests_have_its_columns() -> None:
    frame = RequestOutcomes().to_frame()
    assert (len(frame), str(frame.free_slots.dtype), str(frame.sla.dtype)) == (0, "Int64", "float64")


def test_a_table_has_one_row_a_cell_and_sla() -> None:
    nodes, until_s = (4,) * 4, 40 * 3600.0
    cloud = Cloud(CloudSpec("c", nodes), lognormal_trace(np.random.default_rng(1), hours=40), until_s)
    cloud.advance(until_s, PHASE_STOP)
    predictor = LocalPredictor(SamplerSpec(nodes, seed=1, births=300), (1, 2))
    table = predictor.table(cloud.history.cut(until_s), until_s)
    frame = table.to_frame((0.05, 0.25))
    rows = table.rows((0.05, 0.25))
    assert len(frame) == 2 * len(rows) > 4
    for row in rows:
        mine = frame[(frame.cores == row["cores"]) & (frame.free_slots_from == row["free_slots_from"])]
        assert dict(zip(mine.sla, mine.survives_s, strict=True)) == row["quantiles_s"]
        assert mine.samples.tolist() == [row["samples"]] * 2
        assert [tuple(pair) for pair in mine[["risk_low", "risk_high"]].to_numpy().tolist()] == list(
            row["risk_intervals"].values()
        )
