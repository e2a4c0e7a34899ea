"""Every planted bug is found within a bounded number of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS, caught
from tests.simulation.bugs.bug import Bug, mutation, script_bug

#: A bug that needs more seeds than this is none that the suite finds.
BOUND = 200
KNOWN = 70


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug) -> None:
    found = caught(bug, BOUND)
    assert found is not None
    assert found.violation is not None


def test_a_bug_must_be_where_it_is_planted() -> None:
    elsewhere = script_bug("elsewhere", "commit", {"nowhere": "false"})
    with pytest.raises(LookupError, match="bug elsewhere: script commit has 0 lines"):
        caught(elsewhere, 1)
    no_function: list[Bug] = []
    mutation(no_function, "no function", BUGS)(lambda sound: sound)
    with pytest.raises(LookupError, match=r"bug no function: .* is no function"):
        caught(no_function[0], 1)


def test_no_bug_is_lost() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) == KNOWN
