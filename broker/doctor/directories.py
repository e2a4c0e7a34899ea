"""Checks the directories that the settings name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from broker.doctor.check import CheckResult, check, failure, ok, warning
from broker.doctor.installation import Installation
from broker.jobs.models import TRASH
from broker.settings import variable

_REMOVED_WITHIN_S = 3600.0


@check("state directory")
def check_state_directory(installation: Installation) -> CheckResult:
    """Check that the state directory can be written or made."""
    return _judge_writing("state_dir", installation.settings.state_dir)


@check("jobs directory")
def check_jobs_directory(installation: Installation) -> Iterator[CheckResult]:
    """Check that the directory of jobs' saved states can be written or made, if one is set."""
    if installation.settings.jobs_dir is not None:
        yield _judge_writing("jobs_dir", installation.settings.jobs_dir)


@check("trash of jobs")
def check_trash(installation: Installation) -> Iterator[CheckResult]:
    """Check that node agents on this machine could remove what jobs left."""
    state, jobs = installation.settings.state_dir, installation.settings.jobs_dir
    before = time.time() - _REMOVED_WITHIN_S
    for trash in (*sorted(state.glob(f"agents/*/{TRASH}")), (jobs or state / "jobs") / TRASH):
        with suppress(OSError):  # not there, or not for this user
            stuck = sorted(path for path in trash.iterdir() if path.lstat().st_ctime < before)
            if stuck:
                yield warning(
                    f"{len(stuck)} entries of {trash} could not be removed, such as {stuck[0].name}",
                    "look for the reason in the log of the node agent, and remove them by hand",
                )


@check("data directory")
def check_data_directory(installation: Installation) -> CheckResult:
    """Check that the recorded traces can be read, if there are any."""
    directory = installation.settings.data
    if directory is None:
        return ok("none; only studies of recorded traces need one")
    if not directory.exists():
        obstacle = "is not there"
    elif not directory.is_dir():
        obstacle = "is not a directory"
    elif not os.access(directory, os.R_OK | os.X_OK):
        obstacle = "cannot be read by this user"
    else:
        return ok(f"{directory} can be read")
    return failure(f"{directory} {obstacle}", f"correct {variable('data')}, or unset it")


def _judge_writing(setting: str, directory: Path) -> CheckResult:
    obstacle = _obstacle_to_writing(directory)
    if obstacle is None:
        return ok(f"{directory} can be written")
    advice = f"make it writable for this user, or name another one in {variable(setting)}"
    return failure(f"{directory} {obstacle}", advice)


def _obstacle_to_writing(directory: Path) -> str | None:
    """Return what keeps this user from writing to a directory, or from making it."""
    if directory.exists():
        if not directory.is_dir():
            return "is not a directory"
        return None if os.access(directory, os.W_OK | os.X_OK) else "cannot be written by this user"
    nearest = next(parent for parent in directory.parents if parent.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return None
    return f"is not there, and cannot be made in {nearest}"
