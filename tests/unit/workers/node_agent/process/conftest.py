"""What tests of drivers run in."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.workers.node_agent.process.scenes import cleared, driver_in
from workers.node_agent.process.process_driver import ProcessDriver


@pytest.fixture
def directory() -> Iterator[Path]:
    """Through it only its owner may pass, as through a user's own."""
    made = Path(tempfile.mkdtemp(prefix="spotfed-driver-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def driver(directory: Path) -> Iterator[ProcessDriver]:
    made = driver_in(directory)
    with cleared(made):
        yield made
