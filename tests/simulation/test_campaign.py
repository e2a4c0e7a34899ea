"""Many seeds: the same counts whatever the number of processes, and however often it is stopped."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.simulation.bugs import BUGS
from tests.simulation.campaign import Campaign, Summary

SEEDS = 6


def counts(summary: Summary) -> Summary:
    """Without the time that it took."""
    return dataclasses.replace(summary, seconds=0.0)


def test_processes_count_together_what_one_counts(tmp_path: Path) -> None:
    alone = Campaign(0, SEEDS).run()
    assert (alone.seeds, alone.violations, alone.ended) == (SEEDS, [], "all seeds ran")
    assert alone.journal_entries["reserved"] > 0
    together = Campaign(0, SEEDS, jobs=2).run()
    assert counts(together) == counts(alone)
    file = tmp_path / "counts" / "state.json"
    begun = Campaign(0, SEEDS - 4, state=file).run()
    assert begun.seeds == SEEDS - 4
    assert counts(Campaign(0, SEEDS, state=file).run()) == counts(alone), "only the others ran now"


def test_what_is_stopped_tells_what_was_done(tmp_path: Path) -> None:
    heard: list[Summary] = []

    def stop(summary: Summary) -> None:
        heard.append(summary)
        if summary.seeds == 2:
            raise KeyboardInterrupt

    file = tmp_path / "state.json"
    summary = Campaign(3, SEEDS, state=file, progress=stop).run()
    assert (summary.first_seed, summary.seeds, summary.ended) == (3, 2, "interrupted")
    assert Campaign(0, 2, state=file).run().first_seed == 3, "what the file says goes on"


def test_time_is_up() -> None:
    summary = Campaign(0, SEEDS, minutes=0.0).run()
    assert (summary.seeds, summary.ended) == (1, "time is up")


def test_a_violation_ends_it_unless_told_to_go_on() -> None:
    told: list[str] = []
    bug = next(one for one in BUGS if one.name == "every end an eviction")
    with bug.planted():
        first = Campaign(0, SEEDS, told=told.append).run()
        every = Campaign(0, SEEDS, keep_going=True).run()
    assert (len(first.violations), first.ended) == (1, "a violation")
    assert f"again: python -m tests.simulation --from {first.violations[0]['seed']} --seeds 1" in told[0]
    assert (every.seeds, every.ended) == (SEEDS, "all seeds ran")
    assert len(every.violations) > 1
