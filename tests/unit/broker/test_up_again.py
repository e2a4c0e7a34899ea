"""``spotfed up`` goes on with a changed federation file, unless the leases it keeps are of other loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.errors import CommandError
from broker.cli.up import _check_leftovers
from broker.local.process_list import ProcessList
from broker.settings import Settings

NORTH = '[[cloud]]\nid = "north"\nnodes = "2x4"\ntrace = { synthetic = "table-1", seed = 1 }\n'
SOUTH = '[[cloud]]\nid = "south"\nnodes = "1x8"\ntrace = "south.csv"\n'


def start(directory: Path, text: str) -> None:
    """What ``up`` does with the file before it starts anything."""
    file = directory / "given.toml"
    file.write_text(text)
    _check_leftovers(Settings(state_dir=directory), ProcessList(file, ()), fresh=False)
    assert (directory / "federation.toml").read_text() == text


def test_clouds_change_leave_and_come_back(tmp_path: Path) -> None:
    start(tmp_path, NORTH + SOUTH)
    start(tmp_path, (NORTH + SOUTH).replace("2x4", "1x4,1x2"))
    start(tmp_path, NORTH)
    start(tmp_path, NORTH + SOUTH + NORTH.replace("north", "west"))


@pytest.mark.parametrize(
    "other",
    [
        NORTH.replace("north", "west"),
        NORTH.replace("seed = 1", "seed = 2") + SOUTH,
        'until = "3d"\n' + NORTH + SOUTH,
    ],
    ids=["no cloud is the same", "another load", "another end"],
)
def test_leases_of_other_loads_are_not_taken_over(tmp_path: Path, other: str) -> None:
    start(tmp_path, NORTH + SOUTH)
    with pytest.raises(CommandError, match="clouds with other loads"):
        start(tmp_path, other)
    (tmp_path / "federation.toml").write_text("what an earlier version wrote")
    with pytest.raises(CommandError, match="another federation"):
        start(tmp_path, NORTH)
