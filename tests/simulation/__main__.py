"""``python -m tests.simulation --seeds 1000 [--from N] [--minutes M] [--json]``.

Exit status 1 when an invariant is broken, or a planted bug is not found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.simulation.bugs import BUGS, caught
from tests.simulation.world import Report, run_seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs seeds until there are enough, time is up, or one breaks."""
    made = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    made.add_argument("--seeds", type=int, default=100, help="how many")
    made.add_argument("--from", type=int, default=0, dest="first", help="the first one")
    made.add_argument("--minutes", type=float, default=None, help="no new seed after so long")
    made.add_argument("--json", action="store_true", help="the summary as JSON")
    made.add_argument("--keep-going", action="store_true", help="also after a violation")
    made.add_argument("--bugs", action="store_true", help="plant the known bugs, one after the other")
    told = made.parse_args(arguments)
    if told.bugs:
        return _bugs(told.seeds)
    began_s = time.monotonic()
    kinds: Counter[str] = Counter()
    befell: Counter[str] = Counter()
    broken: list[Report] = []
    done = 0
    for seed in range(told.first, told.first + told.seeds):
        if told.minutes is not None and time.monotonic() - began_s > 60 * told.minutes:
            break
        report = run_seed(seed)
        done += 1
        kinds.update(report.kinds)
        befell.update(report.befell)
        if report.violation is not None:
            broken.append(report)
            _tell(report)
            if not told.keep_going:
                break
    took_s = time.monotonic() - began_s
    summary = {
        "first_seed": told.first,
        "seeds": done,
        "violations": [{"seed": one.seed, "what": one.violation} for one in broken],
        "seconds": round(took_s, 1),
        "seeds_per_second": round(done / took_s, 2),
        "journal_entries": dict(sorted(kinds.items())),
        "faults": dict(sorted(befell.items())),
    }
    if told.json:
        print(json.dumps(summary, indent=2))  # noqa: T201
    else:
        for name, value in summary.items():
            print(f"{name}: {value}")  # noqa: T201
    return 1 if broken else 0


def _bugs(seeds: int) -> int:
    """Which seed finds which bug, and by which invariant. Exit status 1 when one is not found."""
    missed = 0
    for bug in BUGS:
        report = caught(bug, seeds)
        missed += report is None
        found = "missed" if report is None else f"{report.seed:4}  {report.violation}"
        print(f"{bug.name:34} {found.splitlines()[0][:140]}", flush=True)  # noqa: T201
    print(f"caught: {len(BUGS) - missed} of {len(BUGS)}")  # noqa: T201
    return int(missed > 0)


def _tell(report: Report) -> None:
    lines = [
        f"seed {report.seed}, step {report.steps}: {report.violation}",
        f"options: {json.dumps(report.options.as_json())}",
        *(f"  {line}" for line in report.tail),
        f"again: python -m tests.simulation --from {report.seed} --seeds 1",
    ]
    print("\n".join(lines), file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    raise SystemExit(main())
