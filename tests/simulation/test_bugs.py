"""Every planted bug is found within a bounded number of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS, Bug, caught

pytestmark = pytest.mark.slow

#: A bug that needs more seeds than this is none that the suite finds.
BOUND = 200


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug) -> None:
    found = caught(bug, BOUND)
    assert found is not None
    assert found.violation is not None


def test_a_bug_must_be_where_it_is_planted() -> None:
    elsewhere = Bug("elsewhere", "workers.owner.owner:Owner.recover", "no such text", "")
    with pytest.raises(ValueError, match="bug elsewhere: 0 places"):
        caught(elsewhere, 1)
