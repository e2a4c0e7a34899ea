"""A standby: what a process does while another one owns its cloud.

It copies the journal from Redis into the archive of its own machine, says to operators that it waits, and
reads the federation file again when its turn comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar, cast

import redis
import structlog

from broker.journal.archive import Archive, ArchiveError
from broker.journal.journal import Journal
from broker.observability.standbys import ANNOUNCE_S, announce_standby, withdraw_standby
from workers.owner.epoch_file import EpochFile
from workers.owner.recovery import Recovery

#: Seconds between two copies of what is new in the journal, and after one that failed.
COPY_S, RETRY_S = 1.0, 60.0

Spec = TypeVar("Spec")

log = structlog.get_logger(__name__)


class Standby(Generic[Spec]):
    """Waits for one cloud. ``read_spec`` returns what its federation file says now."""

    def __init__(self, journal: Journal, archive: Archive, epochs: EpochFile, read_spec: Callable[[], Spec]):
        """Do nothing yet. ``epochs``: the file of this machine that names the last owner that ran on it."""
        self.read_spec = read_spec
        self._journal, self._epochs = journal, epochs
        self._recovery = Recovery(journal, archive)
        self._copy_due_s = self._announce_due_s = float("-inf")
        self._owner: bytes | None = None
        self._is_announced = False

    def look(self) -> None:
        """Do what is due, while another process owns the cloud."""
        now_s, cloud = time.monotonic(), self._journal.cloud
        try:
            if now_s >= self._announce_due_s:
                self._announce_due_s = now_s + ANNOUNCE_S
                announce_standby(self._journal.redis, self._journal.keys, cloud)
                self._is_announced = True
            if now_s >= self._copy_due_s:
                self._copy_due_s = now_s + COPY_S
                if self._has_own_archive():
                    self._recovery.copy_journal()
        except redis.RedisError as error:
            log.info("queue is away", cloud=cloud, why=str(error))
        except (OSError, ArchiveError) as error:
            self._copy_due_s = now_s + RETRY_S
            log.error("journal not copied", cloud=cloud, why=str(error))  # noqa: TRY400

    def _has_own_archive(self) -> bool:
        """Return whether the owner surely writes to another archive than this one.

        Where it shares the state directory, its token is in the epoch file soon after it begins.
        """
        before, key = self._owner, self._journal.keys.owner(self._journal.cloud)
        self._owner = owner = cast("bytes | None", self._journal.redis.get(key))
        return owner is not None and owner == before and owner.decode() != self._epochs.token()

    def end(self) -> None:
        """Say to operators that it waits no longer."""
        if self._is_announced:
            self._is_announced = False
            with suppress(redis.RedisError):
                withdraw_standby(self._journal.redis, self._journal.keys, self._journal.cloud)
