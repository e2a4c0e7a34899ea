"""The turns of owners at the Monte-Carlo workers: whose table is old and asked for comes first."""

from __future__ import annotations

from collections.abc import Callable

import redis
import structlog
from redis.exceptions import NoPermissionError

from broker.storage.keys import RedisKeys

#: Tables in progress for each Monte-Carlo worker. Owners look once a second, and a small table takes less.
TABLES_A_WORKER = 4
#: Seconds after which an owner that shows no sign of life loses its turn.
SILENT_S = 30

log = structlog.get_logger(__name__)


class TableTurns:
    """Lets owners of a federation begin their tables in the order of urgency, a few at a time.

    Owners whose table is due stand in a sorted set, the most urgent first; those that make theirs stand
    before all others. Each sees its own place only, so that looking costs the same however many wait. An
    owner that has waited for ``longest_s`` seconds begins in any case: no other one can keep it out for good.
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: RedisKeys,
        cloud: str,
        longest_s: float,
        monotonic: Callable[[], float],
    ):
        self._redis, self._keys, self._cloud = client, keys, cloud
        self._longest_s, self._monotonic = longest_s, monotonic
        self._since_s: float | None = None  # when it began to wait

    def take(self, urgency: float) -> bool:
        """Return whether the owner may begin a table now; if so, it must ``hold`` its turn, and ``leave``.

        Raises redis.RedisError.
        """
        now_s = self._monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        try:
            place, workers = self._stand(-urgency)
        except NoPermissionError:  # the ACL file is of an earlier version
            return True
        if place >= TABLES_A_WORKER * max(workers, 1) and now_s - self._since_s < self._longest_s:
            return False
        self._since_s = None
        self.hold()
        return True

    def hold(self) -> None:
        """Show that the owner makes its table. Raises redis.RedisError."""
        try:
            self._stand(float("-inf"))
        except NoPermissionError:
            return

    def leave(self) -> None:
        """Let the next owner begin; without Redis it does so after ``SILENT_S``."""
        try:
            self._remove(self._cloud)
        except redis.RedisError as error:
            log.info("turn not given up", cloud=self._cloud, why=str(error))

    def _stand(self, score: float) -> tuple[int, int]:
        """Stand in the order; return the place, from 0, and the number of Monte-Carlo workers."""
        order, signs, now_s = self._keys.table_turns, self._keys.table_signs, self._redis.time()[0]
        pipe = self._redis.pipeline()
        pipe.zadd(order, {self._cloud: score})
        pipe.zadd(signs, {self._cloud: now_s})
        pipe.zrank(order, self._cloud)
        pipe.zcard(self._keys.samplers)
        pipe.zrangebyscore(signs, "-inf", now_s - SILENT_S)
        *_, place, workers, silent = pipe.execute()
        if silent:
            self._remove(*silent)
        return int(place), int(workers)

    def _remove(self, *clouds: str | bytes) -> None:
        pipe = self._redis.pipeline()
        pipe.zrem(self._keys.table_turns, *clouds)
        pipe.zrem(self._keys.table_signs, *clouds)
        pipe.execute()
