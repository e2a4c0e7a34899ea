"""Experiments about volatile resources: rows, sentences and pictures; on recorded prices where they are."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Claim, Experiment, Row, Verdict, where
from cloudsim.experiments.volatile import disclosure, exemplars, ordinal, simple
from cloudsim.experiments.volatile.runs import INTERVALS, MODELS, POLICIES, VALUE, over_pools
from cloudsim.volatile.synthetic import EXEMPLARS as EXEMPLAR_SHAPES

SIMPLE, EXEMPLARS = simple.EXPERIMENT, exemplars.EXPERIMENT


@cache
def rows_of(experiment: Experiment, data: Path | None = None) -> list[Row]:
    """Without data, the rows of the cases that need none."""
    cases = [case for case in experiment.cases(True) if data is not None or not case.needs]
    return [row for case in cases for row in case.function(data, **case.options)]


def said_and_drawn(experiment: Experiment, rows: list[Row]) -> list[str]:
    """Its findings, when rows travel as JSON, sentences have figures and pictures show something."""
    rows = json.loads(json.dumps(rows))
    findings = experiment.findings(rows)
    assert all(sentence.endswith(".") and any(map(str.isdigit, sentence)) for sentence in findings)
    for picture in experiment.pictures:
        figure = picture.draw(rows)
        figure.canvas.draw()
        assert any(len(axes.lines) for axes in figure.axes)
    return findings


def test_the_daily_ramp_bears_the_paper_out() -> None:
    findings = said_and_drawn(SIMPLE, [r for c in SIMPLE.cases(False) for r in c.function(None, **c.options)])
    assert sum("holds here" in sentence for sentence in findings) == len(simple.CLAIMS)


def test_exemplars_are_judged_claim_by_claim() -> None:
    rows = rows_of(EXEMPLARS)
    findings = said_and_drawn(EXEMPLARS, rows)
    verdicts = [one for one in findings if "holds here" in one or "does not hold here" in one]
    assert len(verdicts) == len(exemplars.CLAIMS)
    for pool in {row["pool"] for row in rows}:
        hours = {
            policy: sum(row["unit_hours"] for row in where(rows, row=INTERVALS, pool=pool, policy=policy))
            for policy in POLICIES
        }
        assert list(hours.values()) == pytest.approx([hours["random"]] * len(POLICIES))


def test_made_pools_alone_say_something_of_the_fit_only() -> None:
    claim = exemplars.CLAIMS[0]
    verdict = claim.check(rows_of(EXEMPLARS))
    assert verdict.figures.startswith("made pools, which say something of the fit only")


def test_statements_on_exemplars_are_judged_on_recorded_pools_by_both_readings(data_dir: Path) -> None:
    rows = rows_of(EXEMPLARS, data_dir)
    recorded = where(rows, quartet=1)
    markets = {row["pool"]: row["market"] for row in recorded}
    assert set(markets) == set(EXEMPLAR_SHAPES)
    assert len(set(markets.values())) == 4, "no pool stands for two"
    for claim in exemplars.CLAIMS:
        figures = claim.check(rows).figures
        assert "of 1 sets of recorded pools" in figures
        assert "becomes the newest" in figures
    policies = registry.load("volatile-policies")
    findings = policies.findings(rows_of(policies, data_dir))
    both = [one for one in findings if "becomes the newest it" in one]
    assert len(both) == len(policies.claims)


def test_programs_get_the_mean_share_of_the_oracle(data_dir: Path) -> None:
    experiment = registry.load("volatile-policies")
    keys = experiment.own_keys(rows_of(experiment, data_dir))
    mean = keys["mean_value_over_oracle"]
    assert set(mean) == {"random", "fifo", "lifo", "lifo-pools"}
    for shares in mean.values():
        assert set(shares) == {"mttr", "p10", "p90", "full"}
        assert max(shares.values()) == shares["full"]


def test_users_are_told_and_what_they_get_is_counted() -> None:
    values = disclosure.VALUE_FUNCTIONS[:1]
    rows = disclosure.measure(None, bed="synthetic", seed=1, births=100, hours=36.0, value_functions=values)
    assert len(rows) == len(disclosure.LEVELS) * len(disclosure.ASKS)
    for row in rows:
        assert row["completed"] + row["evicted"] == row["admitted"] <= row["asked"] <= row["requests"]
        assert 0 <= row["value_per_core_hour"] <= 1, "an hour of work is worth an hour at most"
    unpromised = {row["level"]: row for row in rows if row["asks"] == "without a promise"}
    assert all(row["value"] > 0 for row in unpromised.values())
    aims = {row["mean_lifetime_h"] for row in unpromised.values()}
    assert len(aims) > 2, "what is told makes users aim elsewhere"
    rows += [row | {"value_function": other} for row in rows for other in ("polynomial", "checkpointed")]
    assert said_and_drawn(disclosure.EXPERIMENT, rows)


# -- the ordinal table ---------------------------------------------------------------------------------------


def value_rows(pool: str, **shares: Any) -> list[Row]:
    """Rows of a pool with the same share in all configurations but those that are named policy_model."""
    return [
        {
            "row": VALUE,
            "pool": pool,
            "window": "whole",
            "volatility": 0.1,
            "policy": policy,
            "value_function": "linear",
            **{f"of_oracle_{m}": shares.get(f"{policy.replace('-', '_')}_{m}", 0.5) for m in MODELS},
        }
        for policy in POLICIES
    ]


def line(table: list[Row], configuration: str, relation: str) -> Row:
    (found,) = [one for one in table if (one["configuration"], one["relation"]) == (configuration, relation)]
    return found


def test_the_best_is_top_and_ties_with_it_are_too() -> None:
    best = value_rows("a z", lifo_pools_full=0.9)
    second = value_rows("b z", lifo_pools_full=0.8, lifo_full=0.9)
    tied = value_rows("c z", lifo_pools_full=0.9, lifo_full=0.9)
    table = ordinal.ordinal([*best, *second, *tied])
    assert line(table, "LIFO-pools + full", "top 1")["count"] == 2
    assert line(table, "LIFO-pools + full", "top 1")["pools"] == 3


def test_full_is_left_out_where_the_paper_does() -> None:
    rows = value_rows("a z", lifo_full=1.0, lifo_p90=0.6, lifo_pools_p90=0.7, random_p90=0.65)
    table = ordinal.ordinal(rows)
    assert line(table, "LIFO-pools + 90pctile", "top 2")["count"] == 1
    assert line(table, "LIFO + 90pctile", "top 2")["count"] == 0
    assert line(table, "LIFO-pools + 90pctile", "within 10 % of best")["count"] == 1
    assert line(table, "LIFO + 90pctile", "within 10 % of best")["count"] == 0


def test_the_least_volatile_are_chosen_by_pool() -> None:
    rows = [row | {"volatility": place / 10} for place in range(10) for row in value_rows(f"m{place} z")]
    kept = ordinal.least_volatile(rows)
    assert {row["pool"] for row in kept} == {f"m{place} z" for place in range(8)}
    assert len(kept) == 8 * len(POLICIES)


def test_means_are_over_pools() -> None:
    mean = over_pools([*value_rows("a z", fifo_p90=0.2), *value_rows("b z", fifo_p90=0.4)])
    assert mean["fifo"]["p90"] == pytest.approx(0.3)
    assert mean["fifo"]["full"] == 0.5


def test_a_claim_that_fails_is_said_to_fail() -> None:
    claims = (
        Claim("§1", "one", lambda rows: Verdict(len(rows) > 0, f"{len(rows)}")),
        Claim("§2", "two", lambda rows: Verdict(len(rows) > 5, f"{len(rows)}")),
    )
    assert [claim.judge(value_rows("a z")) for claim in claims] == [
        "§1: one: holds here (4).",
        "§2: two: does not hold here (4).",
    ]
