"""All experiments by name. Their modules are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module

from cloudsim.errors import SpecError
from cloudsim.experiments.experiment import Experiment

#: Name → module, in the order of the report: the papers' figures and tables, then our own questions.
MODULES = {
    "figure-1": "figure_1",
    "figures-2-3": "figures_2_3",
    "tables-3-4": "tables_3_4",
    "preemption-tables": "preemption_tables",
    "scaling": "scaling",
    "censoring": "censoring",
    "sampling-error": "sampling_error",
    "calibration": "calibration",
    "bursts": "bursts",
    "mixed": "mixed",
    "information": "information",
    "upper-bound": "upper_bound",
    "evidence": "evidence",
    "overestimates": "overestimates",
    "placement": "placement",
    "line-ups": "lineups",
    "overflow": "overflow",
    "headroom": "headroom",
    "volatile-simple": "volatile_simple",
    "volatile-exemplars": "volatile_exemplars",
    "volatile-policies": "volatile_policies",
    "volatile-markets": "volatile_markets",
    "volatile-values": "volatile_values",
    "volatile-disclosure": "volatile_disclosure",
    "jobs-figure-1": "jobs_figure_1",
    "jobs-figure-2": "jobs_figure_2",
    "jobs-figure-5": "jobs_figure_5",
    "jobs-figure-6": "jobs_figure_6",
    "jobs-table-1": "jobs_table_1",
    "jobs-figure-7": "jobs_figure_7",
    "jobs-figure-8": "jobs_figure_8",
    "jobs-figure-9": "jobs_figure_9",
    "jobs-figure-10": "jobs_figure_10",
    "jobs-figure-11": "jobs_figure_11",
    "jobs-equations": "jobs_equations",
    "jobs-ablations": "jobs_ablations",
    "jobs-logs": "jobs_logs",
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
