"""Put aside what is to be removed, and remove it on a thread of its own.

Whatever a job has left, putting it aside is one step, and nobody waits for the rest. What cannot be removed
stays in the trash, with an alarm in the log, and is tried again by every ``empty``. ``spotfed doctor`` names
what has been there for an hour (`broker.doctor.directories`).
"""

from __future__ import annotations

import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path

import structlog

from broker.jobs.models import TRASH
from workers.node_agent.process.safe_copy import remove_tree

#: Seconds that each thing in the trash may take at a time.
_LIMIT_S = 600.0

log = structlog.get_logger(__name__)


class Trash:
    """The trash of one directory, in ``.trash`` beneath it. Several processes may share it."""

    def __init__(self, directory: Path):
        self.path = directory / TRASH
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due = False
        self._told: set[Path] = set()
        self._make()  # now, as there may be no room for it later

    def _make(self) -> None:
        with suppress(OSError):
            self.path.mkdir(mode=0o700)

    def discard(self, path: Path) -> bool:
        """Put aside what has that name, if anything has; return False if it is still there."""
        name = "-".join((*path.relative_to(self.path.parent).parts, uuid.uuid4().hex))
        self._make()
        try:
            path.rename(self.path / name)
        except OSError:
            if not os.path.lexists(path):
                return True
            log.exception("what a job left cannot be put aside", path=str(path))
            return False
        self.empty()
        return True

    def empty(self) -> threading.Thread:
        """Begin to remove what is in the trash; return the thread that does.

        Where a job's processes leave no room for a thread, it is removed before this returns.
        """
        with self._lock:
            self._due = True
            if self._thread is not None:
                return self._thread
            self._thread = thread = threading.Thread(target=self._empty, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._empty()
        return thread

    def _empty(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                self._due = False
            try:
                paths = list(self.path.iterdir())
            except FileNotFoundError:
                continue
            except OSError:
                log.exception("the trash of jobs cannot be read", path=str(self.path))
                continue
            for path in paths:
                self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            remove_tree(path, _LIMIT_S)
        except Exception:
            if path not in self._told:
                log.exception("what a job left cannot be removed", path=str(path))
            self._told.add(path)
