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
    one waits for its lease, recovers, or stays at its inbox. The doorbells of a cloud are taken once it is
    open: until then they are those of the process that owns it.
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
        self._lock = threading.Lock()
        self._is_any_open = threading.Event()
        self._opened: list[str] = []
        self._listen: Callable[[str], None] | None = None

    def open(self) -> list[str]:
        """Open a single owner, or begin to open several; return the clouds that are open, once one is.

        Raises
        ------
        NodesError
            When instances do not fit the nodes of a single cloud.
        """
        if self._alone is not None:
            self._alone.open()
            return [*self._owners]
        for cloud in self._owners:
            threading.Thread(target=self._serve, args=(cloud,), name=f"cloud {cloud}", daemon=True).start()
        self._is_any_open.wait()
        return [*self._opened]

    def start(self, listen: Callable[[str], None]) -> None:
        """Start the timetable of a single owner; several start theirs as they open.

        listen: takes the doorbells of one cloud more.
        """
        if self._alone is not None:
            self._alone.start()
        with self._lock:
            self._listen = listen
            for cloud in self._opened:
                listen(cloud)

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
            with self._lock:
                self._opened.append(cloud)
                if self._listen is not None:
                    self._listen(cloud)
            self._is_any_open.set()
            while True:
                bell.wait()
                bell.clear()
                owner.attend()
        except NodesError as error:
            self._refuse(error)
        except Exception:
            log.exception("owner broken: stopping", cloud=cloud)
            self._fail(EXIT_BROKEN)
