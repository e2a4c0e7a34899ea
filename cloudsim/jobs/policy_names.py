"""Names of the policies by which jobs are placed, and how people are told of them."""

from __future__ import annotations

from cloudsim.model.codes import Code


class PolicyName(Code):
    """The name of a policy, as it is given with a job."""

    def __init__(self, _code: str, meaning: str = "", needs: tuple[str, ...] = ()):
        #: What the policy does, a clause.
        self.meaning = meaning
        #: Fields of a job without which the policy cannot be carried out.
        self.needs = needs

    COST_AWARE = "cost-aware", "the least expected cost of what is left, over clouds and mechanisms"
    WAY_BACK = (
        "way-back",
        "as cost-aware, and back from on-demand to spot as soon as the deadline allows it",
        ("deadline_s", "checkpoint"),
    )
    UNIFORM_PROGRESS = (
        "uniform-progress",
        "spot whenever there is any, on-demand only while it is behind even progress to its deadline",
        ("deadline_s", "checkpoint"),
    )
    GREEDY = (
        "greedy",
        "spot whenever there is any, else it waits until only on-demand keeps its deadline",
        ("deadline_s", "checkpoint"),
    )
    CHECKPOINT_ONLY = "checkpoint-only", "the least expected cost with checkpoints", ("checkpoint",)
    BASIC = "basic", "the lowest price, and on-demand after the first eviction", ("checkpoint",)
    ON_DEMAND = "on-demand", "always on-demand at its home"
