"""Store checkpoints of jobs' directories in ``<jobs_dir>/<job>/<work>/<n>``, with n from 1.

Each has ``files``, and ``kept.json`` that describes it. It is made as a draft and renamed once all of it is
on the disk. The last two of a piece of work are kept. With storage ``remote`` the directory of the job is
there as well, as ``live``. Agents of several machines share them over a network file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path

from broker.jobs.models import Work
from workers.node_agent.process.driver_protocol import DriverError, StoredCheckpoint
from workers.node_agent.process.safe_copy import AbandonedCopyError, copy_tree
from workers.node_agent.process.task_files import fsync_directory, read_json, write_json
from workers.node_agent.process.trash import Trash

CHECKPOINTS_KEPT = 2
_WORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DRAFT = "draft"


class CheckpointStore:
    """Makes, restores and removes checkpoints beneath one directory."""

    def __init__(self, directory: Path):
        self.directory, self.trash = directory, Trash(directory)

    def directory_of(self, job: str, work: str) -> Path:
        """Return the directory of a piece of work. Everybody may pass through those above it."""
        return self.directory / job / checked_id(work)

    def live_directory(self, work: Work) -> Path:
        """Return the directory in which a job with remote storage runs."""
        return self.directory_of(work.job, work.id) / "live"

    def make_place(self, job: str, work: str) -> Path:
        """Create the directory of a piece of work if needed, and return it."""
        path = self.directory_of(job, work)
        for directory in (self.directory, path.parent, path):
            if not directory.is_dir():
                directory.mkdir(parents=True, exist_ok=True)
                directory.chmod(0o711)
        return path

    def newest(self, job: str, work: str) -> StoredCheckpoint | None:
        """Return the newest checkpoint of a piece of work, None if there is none."""
        numbers = self._numbers(self.directory_of(job, work))
        for number in reversed(numbers):
            content = read_json(self.directory_of(job, work) / str(number) / "kept.json")
            if content is not None:
                return StoredCheckpoint(**content)
        return None

    def make_draft(
        self, work: Work, directory: Path, owner: int | None, abandoned: Callable[[], bool]
    ) -> tuple[Path, int]:
        """Copy the directory into a draft that does not count yet; return its path and its size in bytes.

        ``owner``: the user whose files are copied.

        Raises
        ------
        DriverError
            When it cannot be copied, or was abandoned.
        """
        place = self.make_place(work.job, work.id)
        draft = place / _DRAFT
        try:
            self.trash.discard(draft)
            draft.mkdir(mode=0o700)
            return draft, copy_tree(directory, draft / "files", of=owner, abandoned=abandoned)
        except AbandonedCopyError:
            self.trash.discard(draft)
            raise DriverError("there was no time to keep its state") from None
        except OSError as error:
            self.trash.discard(draft)
            raise DriverError(f"its state could not be kept: {error}") from error

    def commit(
        self, draft: Path, at: float, size: int, abandoned: Callable[[], bool], *, last: bool
    ) -> StoredCheckpoint:
        """Make the draft the newest checkpoint, and remove old ones.

        Raises
        ------
        DriverError
            When it cannot be written, or was abandoned.
        """
        place = draft.parent
        try:
            numbers = self._numbers(place)
            checkpoint = StoredCheckpoint(numbers[-1] + 1 if numbers else 1, at, size / 1e9, last)
            self._publish(draft, checkpoint, abandoned)
            write_json(draft / "kept.json", asdict(checkpoint))
            fsync_directory(draft)
            draft.rename(place / str(checkpoint.number))
            fsync_directory(place)
        except OSError as error:
            raise DriverError(f"its state could not be kept: {error}") from error
        for number in [*numbers, checkpoint.number][:-CHECKPOINTS_KEPT]:
            self.trash.discard(place / str(number))
        return checkpoint

    def _publish(self, draft: Path, checkpoint: StoredCheckpoint, abandoned: Callable[[], bool]) -> None:
        """Store a draft elsewhere, too, before it counts. Raises DriverError or OSError."""

    def restore(self, job: str, work: str, number: int, target: Path, owner: int | None) -> None:
        """Copy a checkpoint into a new directory.

        Raises
        ------
        DriverError
            When there is no such checkpoint, or it cannot be copied.
        """
        place = self.directory_of(job, work) / str(number)
        if read_json(place / "kept.json") is None:
            raise DriverError(f"there is no state {number} of {work} to begin with")
        try:
            copy_tree(place / "files", target, to=owner)
        except OSError as error:
            raise DriverError(f"state {number} of {work} could not be restored: {error}") from error

    def drop_old(self, open_jobs: Collection[str], before: float) -> list[str]:
        """Remove all checkpoints of jobs that are not open and have not changed since ``before``.

        ``before``: seconds since 1970. Return the jobs that were removed.

        Raises
        ------
        OSError
            When a directory cannot be read.
        """
        if not self.directory.is_dir():
            return []
        removed = []
        for job in sorted(path for path in self.directory.iterdir() if path.is_dir()):
            if job == self.trash.path:
                continue
            if job.name not in open_jobs and _changed_at(job) < before and self.trash.discard(job):
                removed.append(job.name)
        return removed

    def _numbers(self, place: Path) -> list[int]:
        if not place.is_dir():
            return []
        return sorted(int(path.name) for path in place.iterdir() if path.name.isdigit())


def _changed_at(job: Path) -> float:
    """Return when a checkpoint of the job was last saved: each is a new entry in a directory."""
    return max(path.stat().st_mtime for path in (job, *job.iterdir()))


def checked_id(work: str) -> str:
    """Return the id if it can name a directory.

    Raises
    ------
    DriverError
        When it cannot.
    """
    if not _WORK.fullmatch(work):
        raise DriverError(f"{work!r} cannot name a directory")
    return work
