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
    "volatile-simple": "volatile_simple",
    "volatile-exemplars": "volatile_exemplars",
    "volatile-policies": "volatile_policies",
    "volatile-markets": "volatile_markets",
    "volatile-values": "volatile_values",
    "volatile-disclosure": "volatile_disclosure",
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
