"""``python -m tests.simulation [--seeds N] [--minutes M] [--from SEED|now] [--jobs 2] [--json]``.

``--from now`` begins at a seed that nobody ran. It is printed, and a seed is one history wherever it runs:
``--from SEED --seeds 1`` has it again. ``--state FILE`` goes on where the file says that an earlier call
ended. Exit status 1 when an invariant is broken, or a planted bug is not found.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.simulation.bugs import BUGS, caught
from tests.simulation.campaign import Campaign, Summary, fresh_seed

_SAID_EVERY_S = 10.0
_SEEDS = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs seeds until there are enough, time is up, or one breaks."""
    made = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument(
        "--seeds", type=int, help=f"how many; {_SEEDS}, and with --minutes as many as there is time for"
    )
    made.add_argument("--from", type=_first, default=0, dest="first", help="the first one, or: now")
    made.add_argument("--minutes", type=float, default=None, help="no new seed after so long")
    made.add_argument("--jobs", type=int, default=1, help="processes")
    made.add_argument("--state", type=Path, default=None, help="a file to keep the counts in")
    made.add_argument("--json", action="store_true", help="the summary as JSON")
    made.add_argument("--keep-going", action="store_true", help="also after a violation")
    made.add_argument("--bugs", action="store_true", help="plant the known bugs, one after the other")
    told = made.parse_args(arguments)
    seeds = told.seeds or (_SEEDS if told.minutes is None else sys.maxsize)
    if told.bugs:
        return _bugs(seeds)
    if told.jobs > 1:  # beside others, as a test, signals are not ours
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    summary = Campaign(
        told.first,
        seeds,
        jobs=told.jobs,
        minutes=told.minutes,
        keep_going=told.keep_going,
        state=told.state,
        told=lambda text: print(text, file=sys.stderr),  # noqa: T201
        progress=reporter(seeds, told.minutes) if told.jobs > 1 else lambda _: None,
    ).run()
    found = summary.as_json()
    if told.json:
        print(json.dumps(found, indent=2))  # noqa: T201
    else:
        for name, value in found.items():
            print(f"{name}: {value}")  # noqa: T201
        print(said(summary))  # noqa: T201
    return 1 if summary.violations else 0


def _first(text: str) -> int:
    return fresh_seed() if text == "now" else int(text)


def said(summary: Summary) -> str:
    """The gist of it, in one line."""
    return (
        f"simulation: {summary.seeds:,} seeds from {summary.first_seed}, "
        f"{len(summary.violations)} violations, {summary.seeds / summary.seconds:.1f} a second"
    )


def reporter(seeds: int, minutes: float | None) -> Callable[[Summary], None]:
    """A bar on a terminal, now and then a line elsewhere."""
    said_s = [0.0]
    limit_s = float("inf") if minutes is None else 60 * minutes

    def report(summary: Summary) -> None:
        share = min(1.0, max(summary.seeds / seeds, summary.seconds / limit_s))
        text = f"{said(summary)}, {share:.0%}"
        if sys.stderr.isatty():
            bar = "#" * round(20 * share)
            print(f"\r[{bar:20}] {text}", end="", file=sys.stderr, flush=True)  # noqa: T201
        elif time.monotonic() - said_s[0] > _SAID_EVERY_S:
            said_s[0] = time.monotonic()
            print(text, file=sys.stderr, flush=True)  # noqa: T201

    return report


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


if __name__ == "__main__":
    raise SystemExit(main())
