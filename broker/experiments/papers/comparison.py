"""All printed numbers beside ours: which experiments they need, and a row for each."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from broker.experiments.papers import batch_jobs, preemptible, spot_sla, volatile
from broker.experiments.papers.number import MissingRowError, NotComputed, Ours, PrintedNumber
from cloudsim.experiments import registry
from cloudsim.experiments.experiment import Case, Experiment, Row
from cloudsim.experiments.promise.published_numbers import UNAWARE
from cloudsim.experiments.volatile.runs import Pool, pool_rows
from cloudsim.volatile.synthetic import EXEMPLARS, make_exemplar

NUMBERS: Mapping[str, Sequence[PrintedNumber]] = {
    "P1 and P2": spot_sla.NUMBERS, "P3": volatile.NUMBERS, "P4": batch_jobs.NUMBERS,
    "P5": preemptible.NUMBERS,
}  # fmt: skip
NOT_COMPUTED: Mapping[str, Sequence[NotComputed]] = {
    "P1 and P2": spot_sla.NOT_COMPUTED, "P3": volatile.NOT_COMPUTED, "P4": batch_jobs.NOT_COMPUTED,
    "P5": preemptible.NOT_COMPUTED,
}  # fmt: skip

HOLDS, DIFFERS, NOT_RUN = "holds", "does not hold", "not run"

#: Further draws of the made pools, beside the experiment's own.
_DRAWS = range(1, 5)
#: Of figure-1, whose seeds each take some seconds under a rule; without one all are run.
_SEEDS = range(10)


def measure_draw(_data: Path | None, *, name: str, draw: int) -> list[Row]:
    """Study another draw of an exemplar: the rows of ``volatile.runs.pool_rows``, with the draw as window."""
    pool = make_exemplar(name, np.random.default_rng([zlib.crc32(name.encode()), draw]))
    return pool_rows(Pool("made", f"draw {draw}", pool))


#: Its rows are put behind those of volatile-exemplars.
FURTHER_POOLS = Experiment(
    name="papers-exemplars", title="Further draws of the made pools", source="", pictures=(),
    cases=lambda quick: [
        Case(f"{name}, draw {draw}", measure_draw, {"name": name, "draw": draw})
        for name in EXEMPLARS
        for draw in (() if quick else _DRAWS)
    ],
    sentences=lambda _rows: [],
)  # fmt: skip
_FURTHER = {"volatile-exemplars": FURTHER_POOLS.name}


def experiments() -> list[Experiment]:
    """Return the experiments that the numbers and the papers' statements need."""
    named = {number.experiment for numbers in NUMBERS.values() for number in numbers}
    known = [registry.load(name) for name in registry.MODULES]
    return [
        *(
            _without_many_seeds(each)
            for each in known
            if each.name in named or (each.claims and _paper(each))
        ),
        FURTHER_POOLS,
    ]


def _without_many_seeds(experiment: Experiment) -> Experiment:
    if experiment.name != "figure-1":
        return experiment

    def cases(quick: bool) -> list[Case]:
        return [
            case
            for case in experiment.cases(quick)
            if case.options["rule"] == UNAWARE or case.options["seed"] in _SEEDS
        ]

    return replace(experiment, cases=cases)


def _paper(experiment: Experiment) -> str:
    """Return the paper whose statements an experiment judges."""
    return next((paper for paper in ("P3", "P4") if paper in experiment.source), "")


def compare(results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return a row for each printed number.

    Columns: paper, where, what, reading, printed, ours, low, high, of (what the 95 % interval is over),
    verdict ("holds", "does not hold", "not run"), fitted, experiment.

    Raises
    ------
    MissingRowError
        When an experiment ran whole and has no row for a number.
    """
    rows: list[Row] = []
    for paper, numbers in NUMBERS.items():
        for number in numbers:
            names = [number.experiment]
            if number.experiment in _FURTHER:
                names.append(_FURTHER[number.experiment])
            own = [row for name in names for row in results[name]["rows"]]
            whole = not any(
                results[name]["manifest"]["quick"] or results[name]["skipped"] or results[name]["failed"]
                for name in names
            )
            rows.append({"paper": paper, **_row(number, own, whole=whole)})
    return rows


def _row(number: PrintedNumber, rows: Sequence[Row], *, whole: bool) -> Row:
    ours: Ours | None = None
    try:
        ours = number.ours(rows)
    except (LookupError, ValueError, ZeroDivisionError) as error:
        if whole:
            what = f"{number.experiment} has nothing for {number.where}, {number.what!r}"
            raise MissingRowError(f"{what}: {error!r}") from error
    return {
        "where": number.where,
        "what": number.what,
        "reading": number.reading,
        "printed": number.printed,
        "ours": None if ours is None else ours.value,
        "low": None if ours is None or math.isnan(ours.low) else ours.low,
        "high": None if ours is None or math.isnan(ours.high) else ours.high,
        "of": ours.of if ours else "",
        "verdict": NOT_RUN if ours is None else HOLDS if number.holds(ours) else DIFFERS,
        "fitted": number.fitted,
        "experiment": number.experiment,
    }


def statements(results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return a row for each statement of P3 and P4 that an experiment judges.

    Columns: paper, where, what, figures, verdict, experiment.
    """
    rows: list[Row] = []
    for each in experiments():
        paper, result = _paper(each), results[each.name]
        whole = not (result["failed"] or result["skipped"]) and bool(result["rows"])
        judged = each.judged(result["rows"])
        for claim in each.claims if paper else ():
            if claim.where.startswith("docs/"):
                continue
            verdict = claim.check(judged) if whole else None
            rows.append({
                "paper": paper, "where": claim.where, "what": claim.text,
                "figures": verdict.figures if verdict else "",
                "verdict": NOT_RUN if verdict is None else HOLDS if verdict.holds else DIFFERS,
                "experiment": each.name,
            })  # fmt: skip
    return rows


def count(rows: Sequence[Row]) -> int:
    """Return how many printed numbers rows compare: each once, whatever readings, without fitted ones."""
    return len({
        (row["where"], row["what"]) for row in rows if not row["fitted"] and row["verdict"] != NOT_RUN
    })  # fmt: skip
