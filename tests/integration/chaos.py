"""Hours of proof: 100,000 new seeds of the simulation and 2,000 kills of real processes, with a summary.

    python -m tests.integration.chaos [--seeds 100000] [--kills 2000] [--jobs 2] [--directory build/chaos]

Stop it with Ctrl-C whenever you like: what was done counts, is summed up, and is not done again by the next
call with the same directory. Exit status 1 when anything was violated, 3 when it was stopped before the end.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration.kill_storm import storm
from tests.simulation.__main__ import reporter
from tests.simulation.campaign import Campaign, Summary, fresh_seed

STOPPED = 3
#: One federation is killed at so often; then a new one takes its place.
_ROUND = 200


def simulate(seeds: int, jobs: int, directory: Path) -> Summary:
    """New seeds; those that the directory has begun with go on."""
    return Campaign(
        fresh_seed(),
        seeds,
        jobs=jobs,
        keep_going=True,
        state=directory / "simulation.json",
        told=_say,
        progress=reporter(seeds, None),
    ).run()


def kill(kills: int, directory: Path) -> list[dict[str, Any]]:
    """Storms until there were so many kills, those of earlier calls included, or one is stopped."""
    file = directory / "kills.json"
    rounds: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    while (left := kills - _killed(rounds)) > 0:
        wanted = min(_ROUND, left)
        _say(f"kill storm {len(rounds) + 1}: {wanted} kills, {left} are left")
        found = storm(wanted, seed=len(rounds) + 1)
        rounds.append(found)
        file.write_text(json.dumps(rounds, indent=2), encoding="utf-8")
        for breach in found["breaches"]:
            _say(breach)
        if found["kills"] < wanted:
            break
    return rounds


def _killed(rounds: Sequence[dict[str, Any]]) -> int:
    return sum(one["kills"] for one in rounds)


def summed_up(simulated: Summary, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all of it came to."""
    killed: Counter[str] = Counter()
    for one in rounds:
        killed.update(one["killed"])
    return {
        "first_seed": simulated.first_seed,
        "seeds": simulated.seeds,
        "seeds_violated": simulated.violations,
        "simulated_journal_entries": sum(simulated.journal_entries.values()),
        "simulated_faults": dict(sorted(simulated.faults.items())),
        "simulation_s": round(simulated.seconds, 1),
        "kills": _killed(rounds),
        "killed": dict(sorted(killed.items())),
        "kill_storm_breaches": [breach for one in rounds for breach in one["breaches"]],
        "kill_storm_s": round(sum(one["seconds"] for one in rounds), 1),
        "requests_answered": sum(one["requests"] for one in rounds),
        "events_heard": sum(sum(one["heard"].values()) for one in rounds),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def main(arguments: Sequence[str] | None = None) -> int:
    """The seeds first, then the kills: both use all of a machine."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seeds", type=int, default=100_000)
    made.add_argument("--kills", type=int, default=2_000)
    made.add_argument("--jobs", type=int, default=2, help="processes of the simulation")
    made.add_argument("--directory", type=Path, default=Path("build/chaos"), help="where counts are kept")
    told = made.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    told.directory.mkdir(parents=True, exist_ok=True)
    simulated = simulate(told.seeds, told.jobs, told.directory)
    rounds: list[dict[str, Any]] = []
    if simulated.seeds >= told.seeds:
        try:
            rounds = kill(told.kills, told.directory)
        except KeyboardInterrupt:
            _say("stopped while a federation started or was judged: this round does not count")
            file = told.directory / "kills.json"
            rounds = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    summary = summed_up(simulated, rounds)
    text = json.dumps(summary, indent=2)
    (told.directory / "summary.json").write_text(text, encoding="utf-8")
    print(text)  # noqa: T201
    if summary["seeds_violated"] or summary["kill_storm_breaches"]:
        return 1
    return 0 if summary["seeds"] >= told.seeds and summary["kills"] >= told.kills else STOPPED


if __name__ == "__main__":
    sys.exit(main())
