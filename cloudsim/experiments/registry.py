"""The experiments by name; a module is imported when its experiment is loaded."""

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
    "scaling": "promise.scaling",
    "censoring": "promise.censoring",
    "readings": "promise.readings",
    "sampling-error": "ours.sampling_error",
    "calibration": "promise.reliability",
    "bursts": "promise.reliability",
    "mixed": "promise.reliability",
    "information": "ours.information",
    "upper-bound": "ours.upper_bound",
    "evidence": "ours.evidence",
    "promise-map": "ours.promise_map",
    "overestimates": "promise.overestimates",
    "placement": "promise.placement",
    "line-ups": "preemption.lineups",
    "overflow": "ours.overflow",
    "headroom": "promise.headroom",
    "volatile-simple": "volatile.simple",
    "volatile-exemplars": "volatile.exemplars",
    "volatile-policies": "volatile.recorded_pools",
    "volatile-markets": "volatile.recorded_pools",
    "volatile-values": "volatile.recorded_pools",
    "volatile-disclosure": "volatile.disclosure",
    "jobs-figure-1": "jobs.figure_1",
    "jobs-figure-2": "jobs.figure_2",
    "jobs-figure-5": "jobs.figure_5",
    "jobs-figure-6": "jobs.figure_6",
    "jobs-table-1": "jobs.table_1",
    "jobs-figure-7": "jobs.mechanisms",
    "jobs-figure-8": "jobs.mechanisms",
    "jobs-figure-9": "jobs.policies",
    "jobs-figure-10": "jobs.policies",
    "jobs-figure-11": "jobs.policies",
    "jobs-set-ups": "jobs.set_ups",
    "jobs-deadlines": "jobs.deadlines",
    "jobs-equations": "jobs.equations",
    "jobs-ablations": "jobs.ablations",
    "jobs-logs": "jobs.logs",
}


def load(name: str) -> Experiment:
    """Return the experiment with this name: a constant of its module.

    Raises
    ------
    SpecError
        When no experiment has this name.
    """
    if name not in MODULES:
        raise SpecError(f"{name!r} is not one of {', '.join(MODULES)}", field="experiment")
    constants = vars(import_module(f"cloudsim.experiments.{MODULES[name]}")).values()
    (experiment,) = (value for value in constants if isinstance(value, Experiment) and value.name == name)
    return experiment
