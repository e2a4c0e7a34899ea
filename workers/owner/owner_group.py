"""The owners that one process runs, each with a journal, an epoch and a lease of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import NoReturn

import structlog

from cloudsim.cloud.spec import CloudSpec
from workers.owner.nodes import NodesError
from workers.owner.process import EXIT_BROKEN, OwnerProcess

log = structlog.get_logger(__name__)


class OwnerGroup:
    """Runs the owners of the clouds of one process.

    A single owner works in the thread that calls it. Of several, each has a thread: none waits while another
    one waits for its lease, recovers, or stays at its inbox.
    """

    def __init__(
        self,
        owners: Mapping[str, OwnerProcess],
        refuse: Callable[[NodesError], NoReturn],
        fail: Callable[[int], NoReturn],
    ):
        """Open nothing.

        owners: by cloud. refuse: ends a process of several, because of a cloud whose nodes do not fit. fail:
        ends the process with a status.
        """
        self._owners, self._refuse, self._fail = owners, refuse, fail
        self._alone = next(iter(owners.values())) if len(owners) == 1 else None
        self._bells = {cloud: threading.Event() for cloud in owners}

    def open(self) -> None:
        """Open a single owner, or begin to open several.

        Raises
        ------
        NodesError
            When instances do not fit the nodes of a single cloud.
        """
        if self._alone is not None:
            self._alone.open()
        else:
            for cloud in self._owners:
                threading.Thread(
                    target=self._serve, args=(cloud,), name=f"cloud {cloud}", daemon=True
                ).start()

    def start(self) -> None:
        """Start the timetable of a single owner; several start theirs as they open."""
        if self._alone is not None:
            self._alone.start()

    def attend(self, cloud: str) -> None:
        """Let the owner of a cloud handle what is in its inbox."""
        if self._alone is not None:
            self._alone.attend()
        else:
            self._bells[cloud].set()

    def make_way(self, clouds: Mapping[str, CloudSpec], become: Callable[[], NoReturn]) -> None:
        """Stop all owners, and ``become`` their process with these specifications of their clouds.

        Where instances of one cloud do not fit its nodes, nothing happens but a line in the log.
        """
        with ExitStack() as pauses:  # no command comes between the last look and the next owner
            fits = [pauses.enter_context(owner.pause(clouds[cloud])) for cloud, owner in self._owners.items()]
            if all(fits):
                log.info("starting again with the federation file as it is now", clouds=[*self._owners])
                self.close()
                become()

    def close(self) -> None:
        """Stop, and let the next owners in."""
        for owner in self._owners.values():
            owner.close()

    def _serve(self, cloud: str) -> None:
        owner, bell = self._owners[cloud], self._bells[cloud]
        try:
            owner.open()
            owner.start()
            while True:
                bell.wait()
                bell.clear()
                owner.attend()
        except NodesError as error:
            self._refuse(error)
        except Exception:
            log.exception("owner broken: stopping", cloud=cloud)
            self._fail(EXIT_BROKEN)
