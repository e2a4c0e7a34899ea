"""Known bugs, planted one at a time into the real classes, functions and scripts: each must be found.

``scripts`` holds those of the Lua scripts, ``owner`` those of an owner process, ``cloud`` those of the cloud
that it decides about, ``broker`` those of the submission of requests.
"""

from __future__ import annotations

from tests.simulation.bugs.broker import BROKER_BUGS
from tests.simulation.bugs.bug import Bug
from tests.simulation.bugs.cloud import CLOUD_BUGS
from tests.simulation.bugs.owner import OWNER_BUGS
from tests.simulation.bugs.scripts import SCRIPT_BUGS
from tests.simulation.world import Report, run_seed

BUGS: tuple[Bug, ...] = (*SCRIPT_BUGS, *OWNER_BUGS, *CLOUD_BUGS, *BROKER_BUGS)


def caught(bug: Bug, seeds: int) -> Report | None:
    """Return the report of the first seed that finds a bug, or None.

    seeds: how many are tried, after the one that found it before.
    """
    with bug.planted():
        for seed in (bug.seed, *range(seeds)):
            report = run_seed(seed)
            if report.violation is not None:
                return report
    return None
