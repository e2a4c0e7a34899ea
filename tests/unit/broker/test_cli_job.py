"""``spotfed job`` as its user sees it, and how options become a wish."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import get_args

import pytest

from broker import cli
from broker.cli import job
from broker.cli.views.job import MOST_COLUMNS, OUTCOMES, ROLES, list_rows, status_lines
from broker.jobs.models import Attempt, Checkpoints, JobWish, Outcome, Profile
from broker.settings import settings
from cloudsim.jobs.policy_names import PolicyName
from tests.unit.broker.job_views import HOUR, JOURNALS, MINUTE, NOON, shown

FINISHED = """\
job nightly-3f2a9c81de: finished

Finished on forge, 2 h 11 min after it was submitted, for 0.097 $ (on-demand
from the start: 0.40 $). It has moved once.

  name:         nightly
  command:      python3 count.py --steps '100 000'
  needs:        2 cores, 2 h of work, 1.5 GB to save
  submitted:    2026-11-28 12:00:00 UTC, 3 h 20 min ago by acme, for north
  cost:         0.097 $; on-demand from the start: 0.40 $, so 76% was saved
  deadline:     2026-11-28 20:00:00 UTC, kept
  evictions:    1
  exit code:    0

Where did it run, why did it move, what did it cost?

   where         as       from (UTC)     ran  then         cost
1  meadow, spot  the job  12:01:01    46 min  evicted   0.031 $
   why there:    cheapest of 3 clouds: expected 0.09 $ with checkpoints against
                 0.40 $ on-demand
   terms:        0.02 $ a core-hour; 2 cores; expected to take 2 h and 0.09 $;
                 risk of eviction before that 18% (by table 7.3); its state is
                 kept again and again, on storage that all clouds reach
   kept:         its state 4 times
   why it ended: meadow took its instance back for its own users
   lost:         7 min of work, to be done again

2  forge, spot   the job  12:49:01    82 min  finished  0.066 $
   why there:    cheapest of 2 clouds (meadow has just evicted it): expected
                 0.07 $ with checkpoints
   terms:        0.024 $ a core-hour; 2 cores; expected to take 84 min and 0.07
                 $; risk of eviction before that 4% (by table 4.1); its state is
                 kept again and again, on storage that all clouds reach
   began with:   the state that attempt 1 had kept
   why it ended: its command ended

   together                                             0.097 $

In these words
  spot:         idle cores of a cloud, cheap, and taken back when the cloud's
                own users need them
  evicted:      the cloud took the instance back

What next?
  spotfed job logs nightly-3f2a9c81de  what it wrote
"""

FAILED = """\
job nightly-3f2a9c81de: failed

Failed: its command ended with exit code 3, and it was not to be retried. It had cost 0.0067 $.

  name:         nightly
  command:      python3 count.py --steps '100 000'
  needs:        2 cores, how long it takes is not known yet
  submitted:    2026-11-28 12:00:00 UTC, 90 min ago by acme, for north
  cost:         0.0067 $; what it would cost on-demand is not known
  deadline:     2026-11-28 20:00:00 UTC, in 6 h 30 min
  exit code:    3

Where did it run, why did it move, what did it cost?

   where             as         from (UTC)    ran  then                     cost
1  north, on-demand  first run  12:01:01    2 min  failed, exit code 3  0.0067 $
   why there:    what it needs is not known: it runs on-demand first and is measured
   terms:        0.1 $ a core-hour; 2 cores; nobody takes the instance back
   why it ended: its command ended with exit code 3

   together                                                             0.0067 $

In these words
  on-demand:    an instance on the job's home, at its full price, which nobody takes back
  first run:    on-demand, to measure what jobs of this name need

What next?
  spotfed job logs nightly-3f2a9c81de  what it wrote
  spotfed job submit … -- COMMAND      have it run again, under a new id
"""


@pytest.mark.parametrize(
    ("which", "columns", "minutes", "expected"),
    [("finished", 80, 200, FINISHED), ("failed", 120, 90, FAILED)],
)
def test_a_status_explains_itself(which: str, columns: int, minutes: float, expected: str) -> None:
    now = NOON + minutes * MINUTE
    assert "\n".join(status_lines(shown(which, now), columns, now)) + "\n" == expected


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("submitted", ["queued", "Is about to be planned.", "spotfed job cancel nightly-3f2a9c81de"]),
        ("measured", ["running", "first run", "how long it takes is not known yet", "--follow"]),
        ("waiting", ["Waits until 13:15:00 UTC: no cloud has room for 2 cores", "evictions:    2"]),
        ("evicted", ["67% done, about 40 min left", "  runs ", "0.064 $ so far", "in 6 h 30 min"]),
        ("cancelled", ["Cancelled by acme/ci.", "stopped", "have it run again"]),
    ],
)
def test_it_says_how_it_stands_and_what_to_do(which: str, said: list[str]) -> None:
    now = NOON + 1.5 * HOUR
    text = "\n".join(status_lines(shown(which, now), 100, now))
    assert [words for words in said if words not in text] == []


@pytest.mark.parametrize("columns", [60, 80, 120, 300])
@pytest.mark.parametrize("which", JOURNALS)
def test_no_line_of_prose_is_wider_than_the_terminal(which: str, columns: int) -> None:
    lines = status_lines(shown(which, NOON + HOUR), columns, NOON + HOUR)
    prose = lines[: lines.index("What next?")]  # commands are not broken: they are to be copied
    assert max(map(len, prose)) <= max(min(columns, MOST_COLUMNS), 80)


def test_a_command_of_several_lines_is_shown_on_one() -> None:
    job = shown("submitted", NOON).model_copy(update={"command": ("sh", "-c", "a\nb")})
    assert r"  command:      sh -c 'a\nb'" in status_lines(job, 80, NOON)


def test_words_for_every_outcome_and_role() -> None:
    assert OUTCOMES.keys() == {one.value for one in Outcome}
    assert ROLES.keys() == set(get_args(Attempt.model_fields["role"].annotation))


def test_a_list_has_a_row_for_each_job() -> None:
    now = NOON + 3 * HOUR
    rows = list_rows([shown("finished", now), shown("submitted", now)], now)
    assert rows == [
        (
            "nightly-3f2a9c81de", "nightly", "finished", "3 h ago", "forge", "0.097 $", "0.40 $",
            "python3 count.py --steps '100 000'",
        ),
        (
            "nightly-3f2a9c81de", "nightly", "queued", "3 h ago", "–", "0.00 $", "–",
            "python3 count.py --steps '100 000'",
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(("which", "code"), [("finished", 0), ("failed", 3), ("cancelled", 1)])
def test_who_waits_ends_as_the_job_did(which: str, code: int) -> None:
    assert job._exit_code(shown(which, NOON + HOUR)) == code


def test_a_job_that_a_signal_ended_is_told_as_a_shell_does() -> None:
    killed = shown("failed", NOON).model_copy(update={"exit_code": -9})
    assert job._exit_code(killed) == 137


# -- options -----------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``spotfed job submit``: exit code, and what it said on standard error."""
    monkeypatch.setenv("SPOTFED_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("broker.cli.connection.DEADLINE_S", 0.01)
    settings.cache_clear()

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["spotfed", "job", "submit", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return run


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[JobWish]:
    """The wishes that would be sent."""
    found: list[JobWish] = []

    def instead(_: object, wish: JobWish) -> object:
        found.append(wish)
        return shown("submitted", NOON)

    monkeypatch.setattr("broker.client.resources.jobs.JobsResource.submit", instead)
    return found


def test_options_become_a_wish(submit: Run, sent: list[JobWish]) -> None:
    options = [
        *("--home", "north", "--cores", "4", "--instances", "2", "--name", "nightly", "--id", "n-1"),
        *("--work", "2h", "--memory-gb", "1.5", "--io-share", "0.1", "--save", "sh -c 'sync; ls'"),
        *("--no-idempotent", "--deadline", "8h", "--max-cost", "2", "--max-evictions", "5"),
        *("--retries", "1", "--cloud", "a", "--cloud", "b", "--env", "A=1=2", "--env", "B=", "--slack", ".1"),
        *("--memory-limit-mb", "512"),
    ]
    assert submit(*options, "--", "make", "-j", "4", "--home", "x")[0] == 0
    assert sent == [
        JobWish(
            id="n-1", name="nightly", home="north", command=("make", "-j", "4", "--home", "x"),
            environment={"A": "1=2", "B": ""}, cores=4, instances=2, memory_limit_mb=512,
            profile=Profile(work_s=7200, memory_gb=1.5, io_share=0.1),
            checkpoint=Checkpoints(save=("sh", "-c", "sync; ls")), slack=0.1, idempotent=False,
            deadline_s=28_800, max_cost=2, max_evictions=5, retries=1, clouds=("a", "b"),
        )
    ]  # fmt: skip


def test_without_options_it_is_the_default_wish(submit: Run, sent: list[JobWish]) -> None:
    assert submit("--checkpoint", "make", "--jobs", "4")[0] == 0
    assert sent == [JobWish(command=("make", "--jobs", "4"), checkpoint=Checkpoints())]


def test_a_policy_is_sent_and_shown(submit: Run, sent: list[JobWish]) -> None:
    assert submit("--policy", "greedy", "--deadline", "8h", "--checkpoint", "--", "make")[0] == 0
    assert sent[0].policy is PolicyName.GREEDY
    view = shown("submitted", NOON)
    assert not any("policy:" in line for line in status_lines(view, 90, NOON))
    lines = status_lines(view.model_copy(update={"policy": PolicyName.GREEDY}), 90, NOON)
    assert any(line.strip().startswith("policy:       greedy") for line in lines)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--memory-gb", "2"], "--memory-gb: goes with --work"),
        (["--work", "soon"], "--work: 'soon' is not a duration"),
        (["--work", "0"], "--work: "),
        (["--env", "A"], "--env: 'A' is not NAME=VALUE"),
        (["--env", "A=1", "--env", "A=2"], "--env: A is given twice"),
        (["--env", "SPOTFED_X=1"], "--env: environment: names that begin with SPOTFED_"),
        (["--env", "1=2"], "--env: "),
        (["--cloud", "no/cloud"], "--cloud: "),
        (["--save", "'"], "--save: "),
        (["--restore", ""], "--restore: is empty"),
        (["--instances", "65"], "--instances: "),
        (["--io-share", "2", "--work", "1h"], "--io-share: "),
        (["--id", "a.b"], "--id: "),
        (["--deadline", "0"], "--deadline: "),
        (["--max-cost", "-1"], "--max-cost: "),
        (["--policy", "luck"], "--policy: "),
        (["--policy", "greedy", "--checkpoint"], "--policy: greedy needs a deadline"),
        (["--policy", "basic"], "--policy: basic needs a state that can be saved"),
    ],
)
def test_what_cannot_be_used_names_its_option(
    submit: Run, sent: list[JobWish], options: list[str], said: str
) -> None:
    code, err = submit(*options, "--", "true")
    assert (code, sent) == (2, [])
    assert err.startswith(f"spotfed: {said}")


def test_a_broker_that_is_away_is_exit_code_4(submit: Run) -> None:
    assert submit("--", "true")[0] == 4
