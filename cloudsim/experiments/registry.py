"""All experiments by name. Their modules are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module

from cloudsim.experiments.experiment import Experiment
from cloudsim.model.errors import SpecError

#: Name → module, in the order of the report: the papers' figures and tables, then our own questions.
MODULES = {
    "figure-1": "promise.figure_1",
    "figures-2-3": "promise.figures_2_3",
    "tables-3-4": "promise.tables_3_4",
    "preemption-tables": "preemption.tables",
    "scaling": "ours.scaling",
    "censoring": "promise.censoring",
    "sampling-error": "ours.sampling_error",
    "calibration": "promise.calibration",
    "bursts": "promise.bursts",
    "mixed": "promise.mixed_sizes",
    "information": "ours.information",
    "upper-bound": "ours.upper_bound",
    "evidence": "ours.evidence",
    "overestimates": "promise.overestimates",
    "placement": "promise.placement",
    "line-ups": "preemption.lineups",
    "overflow": "ours.overflow",
    "headroom": "promise.headroom",
    "volatile-simple": "volatile.simple",
    "volatile-exemplars": "volatile.exemplars",
    "volatile-policies": "volatile.policies",
    "volatile-markets": "volatile.markets",
    "volatile-values": "volatile.values",
    "volatile-disclosure": "volatile.disclosure",
    "jobs-figure-1": "jobs.figure_1",
    "jobs-figure-2": "jobs.figure_2",
    "jobs-figure-5": "jobs.figure_5",
    "jobs-figure-6": "jobs.figure_6",
    "jobs-table-1": "jobs.table_1",
    "jobs-figure-7": "jobs.figure_7",
    "jobs-figure-8": "jobs.figure_8",
    "jobs-figure-9": "jobs.figure_9",
    "jobs-figure-10": "jobs.figure_10",
    "jobs-figure-11": "jobs.figure_11",
    "jobs-equations": "jobs.equations",
    "jobs-ablations": "jobs.ablations",
    "jobs-logs": "jobs.logs",
}


def load(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        SpecError: no experiment has this name.
    """
    if name not in MODULES:
        raise SpecError(f"{name!r} is not one of {', '.join(MODULES)}", field="experiment")
    experiment: Experiment = import_module(f"cloudsim.experiments.{MODULES[name]}").EXPERIMENT
    assert experiment.name == name, f"{MODULES[name]} calls itself {experiment.name}"
    return experiment
