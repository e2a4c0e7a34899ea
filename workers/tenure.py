"""Being the owner of a cloud: the lease, the epoch, and the commits that both allow."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import redis
import structlog

from broker.contract import Advert, Reply
from broker.journal import Commit, Fenced, Journal
from workers.epochs import EpochFile
from workers.recorder import Outcome

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0

Result = TypeVar("Result")
log = structlog.get_logger(__name__)


def until_answered(ask: Callable[[], Result]) -> Result:
    """Asks Redis again and again for as long as it is away. Only for what may be asked twice."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return ask()
        except redis.RedisError as error:
            if pause_s == _FIRST_PAUSE_S:
                log.warning("redis is away", why=str(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class Tenure:
    """One process's time as the owner of one cloud; the only writer of its epoch."""

    def __init__(self, journal: Journal, ttl_s: float, epochs: Path):
        """``epochs`` is the directory of the local files that remember the last epoch."""
        self._journal, self._ttl_s = journal, ttl_s
        self._token = f"{journal.cloud}-{uuid.uuid4()}"
        self._file = EpochFile(epochs, journal.cloud)
        self._next = 1  # number of the next event in this epoch
        self._over = threading.Event()
        self.epoch = 0

    def begin(self) -> None:
        """Opens the next epoch, once no other process is the owner. Then ``keep`` must keep the lease."""
        waiting = False
        while True:
            epoch = until_answered(self._acquire)
            if epoch is not None:
                break
            if not waiting:
                waiting = True
                log.warning(
                    "another process owns this cloud; waiting for its lease", cloud=self._journal.cloud
                )
            time.sleep(self._ttl_s / 4)
        self.epoch = epoch
        self._file.write(epoch)

    def _acquire(self) -> int | None:
        return self._journal.acquire(self._token, self._ttl_s, self._file.read())

    def keep(self, fenced: Callable[[Fenced], None]) -> None:
        """Renews the lease until ``end``, on a thread of its own; tells ``fenced`` when it is lost."""
        while not self._over.wait(self._ttl_s / 3):
            try:
                self._journal.renew(self._token, self.epoch, self._ttl_s)
            except Fenced as error:
                fenced(error)
                return
            except redis.RedisError as error:
                log.info("lease not renewed", cloud=self._journal.cloud, why=str(error))

    def end(self) -> None:
        """Lets the next owner in."""
        self._over.set()
        try:
            self._journal.give_up(self._token, self.epoch)
        except redis.RedisError as error:
            log.info("lease left to run out", cloud=self._journal.cloud, why=str(error))

    def write(self, outcome: Outcome, cursor: str | None, advert: Advert | None) -> None:
        """Commits what an owner decided; tries as long as Redis is away. Raises Fenced and JournalError."""
        replies: defaultdict[str, list[Reply]] = defaultdict(list)
        for stream, reply in outcome.replies:
            replies[stream].append(reply)
        commit = Commit(
            epoch=self.epoch,
            token=self._token,
            ttl_s=self._ttl_s,
            first=self._next,
            events=outcome.events,
            cursor=cursor,
            replies=dict(replies),
            leases=outcome.leases,
            advert=advert,
            overflow=[json.dumps(item) for item in outcome.overflow],
        )
        until_answered(lambda: self._journal.commit(commit))
        self._next += len(outcome.events)
