"""Names of the mechanisms by which jobs survive evictions, and how people are told of them."""

from __future__ import annotations

from cloudsim.model.codes import Code


class MechanismName(Code):
    """The name of a mechanism, as it stands in the journals of jobs."""

    def __init__(self, _code: str, words: str = "", meaning: str = ""):
        #: How a job survives evictions, in a few words that follow its cost.
        self.words = words
        #: What it means for the job, a clause.
        self.meaning = meaning

    ON_DEMAND = "on-demand", "on-demand", "nobody takes the instance back"
    BEGIN_AGAIN = "begin again", "beginning again after each eviction", "after an eviction it begins anew"
    CHECKPOINT = "checkpoint", "with checkpoints", "its state is kept again and again"
    MIGRATE = (
        "migrate",
        "moving on when the cloud gives notice",
        "its state is kept when the cloud wants the instance back",
    )
    REPLICATE = "replicate", "by two replicas", "it runs in several places at once"
    BACKUP = (
        "backup",
        "with a backup replica",
        "a slow copy of it runs on an instance that nobody takes back",
    )
