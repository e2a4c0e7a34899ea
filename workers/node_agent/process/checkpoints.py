"""States that were kept of the directories of jobs: ``<jobs_dir>/<job>/<work>/<n>``, n from 1 on.

In each there are ``files``, and ``kept.json`` that says what it is. It is made as a draft and renamed when
all of it is on the disk; the last two of a piece of work stay. With storage ``remote`` the directory of the
job is there as well, as ``live``. Agents of several machines share them over a network file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from broker.jobs.models import Work
from workers.node_agent.process.driver_protocol import DriverError, StoredCheckpoint
from workers.node_agent.process.safe_copy import AbandonedCopyError, copy_tree, remove_tree
from workers.node_agent.process.task_files import fsync_directory, read_json, write_json

STATES_KEPT = 2
_WORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DRAFT = "draft"


class CheckpointStore:
    """All of them."""

    def __init__(self, directory: Path):
        self.directory = directory

    def of(self, job: str, work: str) -> Path:
        """Where those of a piece of work are; the directories above may be passed through by everybody."""
        return self.directory / job / checked_id(work)

    def live(self, work: Work) -> Path:
        """The directory of a job with remote storage."""
        return self.of(work.job, work.id) / "live"

    def make(self, work: Work) -> Path:
        """The place of its states."""
        path = self.of(work.job, work.id)
        for one in (self.directory, path.parent, path):
            if not one.is_dir():
                one.mkdir(parents=True, exist_ok=True)
                one.chmod(0o711)
        return path

    def last(self, job: str, work: str) -> StoredCheckpoint | None:
        """The newest; None: there is none."""
        numbers = self._numbers(self.of(job, work))
        for number in reversed(numbers):
            found = read_json(self.of(job, work) / str(number) / "kept.json")
            if found is not None:
                return StoredCheckpoint(**found)
        return None

    def draft(
        self, work: Work, directory: Path, owner: int | None, abandoned: Callable[[], bool]
    ) -> tuple[Path, int]:
        """A copy of the directory that does not count yet, and its size in bytes.

        owner: whose files are copied. Raises DriverError.
        """
        place = self.make(work)
        draft = place / _DRAFT
        try:
            if draft.exists():
                remove_tree(draft)
            draft.mkdir(mode=0o700)
            return draft, copy_tree(directory, draft / "files", of=owner, abandoned=abandoned)
        except AbandonedCopyError:
            remove_tree(draft)
            raise DriverError("there was no time to keep its state") from None
        except OSError as error:
            with suppress(OSError):
                remove_tree(draft)
            raise DriverError(f"its state could not be kept: {error}") from error

    def commit(self, draft: Path, at: float, size: int, *, last: bool) -> StoredCheckpoint:
        """Makes the draft the newest state, and lets older ones go. Raises DriverError."""
        place = draft.parent
        try:
            numbers = self._numbers(place)
            kept = StoredCheckpoint(numbers[-1] + 1 if numbers else 1, at, size / 1e9, last)
            write_json(draft / "kept.json", asdict(kept))
            fsync_directory(draft)
            draft.rename(place / str(kept.number))
            fsync_directory(place)
        except OSError as error:
            raise DriverError(f"its state could not be kept: {error}") from error
        for number in [*numbers, kept.number][:-STATES_KEPT]:
            remove_tree(place / str(number))
        return kept

    def restore(self, job: str, work: str, number: int, target: Path, owner: int | None) -> None:
        """Puts a state into a new directory. Raises DriverError."""
        place = self.of(job, work) / str(number)
        if read_json(place / "kept.json") is None:
            raise DriverError(f"there is no state {number} of {work} to begin with")
        try:
            copy_tree(place / "files", target, to=owner)
        except OSError as error:
            raise DriverError(f"state {number} of {work} could not be restored: {error}") from error

    def drop_old(self, open_jobs: Collection[str], before: float) -> list[str]:
        """Removes all that is kept of jobs that are not among the open ones and were last changed ``before``
        then, seconds since 1970; returns which they were. Raises OSError.
        """
        if not self.directory.is_dir():
            return []
        gone = []
        for job in sorted(path for path in self.directory.iterdir() if path.is_dir()):
            if job.name not in open_jobs and _changed_at(job) < before:
                remove_tree(job)
                gone.append(job.name)
        return gone

    def _numbers(self, place: Path) -> list[int]:
        if not place.is_dir():
            return []
        return sorted(int(path.name) for path in place.iterdir() if path.name.isdigit())


def _changed_at(job: Path) -> float:
    """When something was last kept of it: a state is a new entry in the directory of its work."""
    return max(path.stat().st_mtime for path in (job, *job.iterdir()))


def checked_id(work: str) -> str:
    """The id, where it can name a directory. Raises DriverError."""
    if not _WORK.fullmatch(work):
        raise DriverError(f"{work!r} cannot name a directory")
    return work
