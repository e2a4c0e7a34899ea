"""Federations that several pages share: each is started once for the tests of a process."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.docs.running import ROOT, Background, Home


@pytest.fixture
def home() -> Iterator[Home]:
    """The home of a page that shares nothing."""
    with ExitStack() as kept:
        yield made_home(kept)


@pytest.fixture(scope="session")
def shared_home() -> Iterator[Callable[[str], Home]]:
    """The home in which `spotfed up` runs with these arguments."""
    homes: dict[str, Home] = {}
    with ExitStack() as kept:

        def found(arguments: str) -> Home:
            if arguments not in homes:
                home = homes[arguments] = made_home(kept)
                up = Background(home, f"spotfed up {arguments}", ROOT, home.directory / "up.log")
                kept.callback(up.interrupt)
                up.await_output("Ctrl-C stops...")
            return homes[arguments]

        yield found


def made_home(kept: ExitStack) -> Home:
    """A home with a short path, as that of a socket in it has at most 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="spotfed-docs-"))
    kept.callback(shutil.rmtree, directory, ignore_errors=True)
    return Home(directory)
