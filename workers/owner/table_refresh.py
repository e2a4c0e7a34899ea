"""The refresh of a quantile table: cut the history, send out batches, gather their samples, merge them.

Batches are not a Celery chord: a chord does not survive a restart of Redis, and waits for ever for a worker
that is not there. Here a batch is sent again when its deadline passes. Batches are pure, so a late or
repeated result is the same bits and harmless.

A worker that announced itself is sent as many batches as it works at, and one to come if batches are short
(``worker_pool`` says which). The others wait here, so that another worker may take them when it has nothing
left, or this one leaves. While no worker is known, all batches go to the shared queue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import redis
import structlog
from redis.exceptions import NoPermissionError

from broker.contract import Batch
from broker.journal.dead_letters import DeadLetterKind
from broker.journal.journal import Journal
from broker.queue.celery_config import MONTECARLO, montecarlo_queue
from cloudsim.history.event_log import EventLog, HistoryChunk
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from cloudsim.prediction.rule import OUR_RULE, PredictionRule
from cloudsim.prediction.samples import Flavour, Samples, flavour_of
from cloudsim.prediction.tables import QuantileTable
from workers.owner.worker_pool import BatchKey, WorkerPool

FIRST_DEADLINE_S = 10.0
LONGEST_DEADLINE_S = 160.0
#: Number of deadlines that may pass before a batch on which a worker is busy is sent again.
PATIENCE = 2
#: A worker has a batch to come while it is busy, if that one takes less; a longer one waits for who is free.
SHORT_S = 1.0
#: Time between two looks at which workers live, while all batches are out.
_LOOK_S = 1.0
#: A batch that workers began this often without an end is given up, for it kills them; its size keeps the
#: samples it had.
MOST_TRIES = 5
#: From this number of births on, a size is split into three batches (an odd number, see ``Sampler``) where
#: there are too few sizes to keep two workers busy. Replays of one size go together where their states meet,
#: so three parts of a size are up to two and a half times the work of the whole (bench_workers.py).
BIRTHS_A_SHARE = 5_000
SIZES_ENOUGH = 4

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Sampling:
    """Settings that all batches of one owner's epoch share, with the rule that turns samples into risks.

    births: Monte-Carlo samples a size. Batches know nothing of the rule: one that changes the samples
    themselves (horizon, the virtual instance's rank, requested ends) is for replays only.
    """

    cloud: str
    epoch: int
    node_cores: tuple[int, ...]
    seed: int
    births: int
    rule: PredictionRule = OUR_RULE
    details: NodeDetails = CORES_ONLY
    lineup: str = "youngest-job-first"
    grace_s: float = 0.0
    predictor: str | None = None

    def shares(self, sizes: int) -> int:
        """Return into how many batches each size is split when there are ``sizes`` of them."""
        return 1 if self.births < BIRTHS_A_SHARE or sizes >= SIZES_ENOUGH else 3


@dataclass
class _Share:
    """One batch of the refresh under way. Times are in seconds of the monotonic clock.

    worker: whose it is to be, or None. out: a message with it is under way, or a worker has it.
    """

    flavour: Flavour
    share: int
    shares: int
    worker: str | None = None
    out: bool = False
    due_s: float = 0.0
    wait_s: float = FIRST_DEADLINE_S
    sent: int = 0
    patience: int = 0
    tries: int = 0  # counted by the workers that began it
    by: str | None = None
    samples: Samples | None = None
    given_up: bool = False

    @property
    def open(self) -> bool:
        return self.samples is None and not self.given_up

    @property
    def cores(self) -> int:
        return self.flavour[0]

    @property
    def key(self) -> BatchKey:
        return self.flavour, self.share

    def wait(self, now_s: float) -> None:
        """Set the next deadline; each is twice as far away as the one before."""
        self.due_s = now_s + self.wait_s
        self.wait_s = min(2 * self.wait_s, LONGEST_DEADLINE_S)


class Refresher:
    """Makes tables, at most one at a time.

    ``send(queue, batch)`` may raise; ``step`` may then be called again.
    """

    def __init__(
        self,
        sampling: Sampling,
        journal: Journal,
        send: Callable[[str, Batch], None],
        monotonic: Callable[[], float],
    ):
        self._sampling, self._journal, self._send, self._monotonic = sampling, journal, send, monotonic
        self._chunks: list[bytes] = []
        self._shares: list[_Share] = []
        self._previous: dict[Flavour, Samples] = {}
        self._pool = WorkerPool()
        self._progress_s: dict[str, float] = {}  # when a worker last brought something, or was sent its first
        self._look_s = 0.0
        self.boundary_s = 0.0  # the chunks hold everything before it

    @property
    def busy(self) -> bool:
        """True while a refresh is under way."""
        return bool(self._shares)

    @property
    def waiting(self) -> int:
        """Number of batches of the refresh that have not brought samples yet."""
        return sum(share.open for share in self._shares)

    def begin(self, boundary_s: float, sizes: Iterable[int | Flavour], events: EventLog) -> None:
        """Begin a table from all events before ``boundary_s``. ``events``: those since the last boundary."""
        assert not self.busy
        self._chunks.append(HistoryChunk(boundary_s, events).to_bytes())
        self.boundary_s = boundary_s
        # Small instances survive longest and take longest to follow up: first, so that no worker is left
        # with a long batch at the end.
        ascending = sorted({flavour_of(size) for size in sizes})
        shares = self._sampling.shares(len(ascending))
        self._shares = [_Share(flavour, share, shares) for flavour in ascending for share in range(shares)]

    def step(self) -> QuantileTable | None:
        """Gather the samples that have come and send the batches that are due.

        Returns the table when all samples are there, else None. Raises redis.RedisError.
        """
        if not self.busy:
            return None
        now_s = self._monotonic()
        self._gather(now_s)
        waiting = [share for share in self._shares if share.open]
        if any(not share.out or share.due_s <= now_s for share in waiting) or self._look_s <= now_s:
            self._push_history()
            self._look_s = now_s + _LOOK_S
            slots = self._workers()
            for share in waiting:
                # It is in the queue of a worker that has left.
                share.out &= share.by is not None or share.worker is None or share.worker in slots
            self._hand_out([share for share in waiting if not share.out], slots, now_s)
            for share in waiting:
                if share.out and share.due_s <= now_s:
                    self._after_deadline(share, slots, now_s)
        if any(share.open for share in self._shares):
            return None
        return self._finish()

    # -- sending ---------------------------------------------------------------------------------------------

    def _hand_out(self, unsent: Sequence[_Share], slots: Mapping[str, int], now_s: float) -> None:
        """Send batches to workers that have room: their own, else of those who take longest."""
        if not slots:
            for share in unsent:
                self._send_to(share, None, now_s)
            return
        if any(share.worker not in slots for share in unsent):
            plan = self._pool.allot([share.key for share in unsent], slots)
            for share in unsent:
                share.worker = plan[share.key]
        unsent = sorted(unsent, key=lambda share: self._pool.expected_s(share.key), reverse=True)
        for worker, count in slots.items():
            for share in [share for share in unsent if share.worker == worker]:
                spare = self._pool.expected_s(share.key) < SHORT_S
                if self._out_at(worker) < count + spare:
                    self._send_to(share, worker, now_s)
        for worker, count in slots.items():
            while self._out_at(worker) < count:
                others = {share.worker for share in unsent if not share.out and share.worker} - {worker}
                left_s = {other: self._left_s(other, slots, now_s) for other in others}
                slowest = max(left_s, key=left_s.__getitem__, default="")
                last = next(
                    (each for each in reversed(unsent) if each.worker == slowest and not each.out), None
                )
                if last is None or not self._pool.pays_to_move(last.key, left_s[slowest]):
                    break
                self._send_to(last, worker, now_s)

    def _out_at(self, worker: str) -> int:
        return sum(share.open and share.out and share.worker == worker for share in self._shares)

    def _left_s(self, worker: str, slots: Mapping[str, int], now_s: float) -> float:
        """Return how long a worker will need for its batches, by earlier tables and by its pace just now."""
        batches = [share.key for share in self._shares if share.open and share.worker == worker]
        pace_s = now_s - self._progress_s.get(worker, now_s)
        return max(sum(map(self._pool.expected_s, batches)) / slots[worker], pace_s * len(batches))

    def _send_to(self, share: _Share, worker: str | None, now_s: float) -> None:
        self._send(MONTECARLO if worker is None else montecarlo_queue(worker), self._batch(share))
        share.worker, share.out = worker, True
        share.sent += 1
        share.patience = PATIENCE
        share.wait(now_s)
        if worker is not None:
            self._progress_s.setdefault(worker, now_s)
        if share.sent > 1:
            log.warning("batch sent again", cores=share.cores, share=share.share, sent=share.sent)

    def _after_deadline(self, share: _Share, alive: Collection[str], now_s: float) -> None:
        """Send a batch whose deadline has passed, wait on, or give it up."""
        if share.tries >= MOST_TRIES:
            self._set_aside(share)
            log.error("batch given up", cores=share.cores, share=share.share, tries=share.tries)
            share.given_up = True
            return
        # Its worker is busy with it and seems to live, or it is in the queue behind others that are worked
        # at: wait before another worker begins from the start.
        worked_at = share.by in alive or (share.by is None and self._worked_at(alive))
        if worked_at and share.patience:
            share.patience -= 1
            share.wait(now_s)
        else:
            self._send_to(share, None, now_s)

    def _set_aside(self, share: _Share) -> None:
        """Make a batch a dead letter; the table does without it."""
        batch = self._batch(share)
        of = f"{batch.result}, {share.cores} cores, share {share.share}"
        why = f"begun {share.tries} times and never ended; its size keeps the samples that it had, if any"
        self._journal.dead_letters.put(of, DeadLetterKind.BATCH, why, batch.model_dump_json().encode())

    def _worked_at(self, alive: Collection[str]) -> bool:
        return any(share.open and share.by in alive for share in self._shares)

    def _batch(self, share: _Share) -> Batch:
        sampling = self._sampling
        return Batch(
            cloud=sampling.cloud,
            epoch=sampling.epoch,
            refresh=self._name,
            chunks=len(self._chunks),
            cores=share.cores,
            share=share.share,
            shares=share.shares,
            node_cores=sampling.node_cores,
            seed=sampling.seed,
            births=sampling.births,
            amounts=dict(share.flavour[1]),
            node_resources=dict(sampling.details.amounts),
            node_labels=tuple(dict(labels) for labels in sampling.details.labels),
            lineup=sampling.lineup,
            grace_s=sampling.grace_s,
            predictor=sampling.predictor,
        )

    @property
    def _name(self) -> str:
        return f"{self._sampling.cloud}:{self._sampling.epoch}:{len(self._chunks)}"

    def _push_history(self) -> None:
        """Append the chunks that Redis does not hold: the new one, or all if it has lost them."""
        epoch = self._sampling.epoch
        name = self._journal.keys.history(self._sampling.cloud, epoch)
        present = self._journal.redis.llen(name)
        for index in range(present, len(self._chunks)):
            self._journal.append_history(epoch, self._chunks[index], index)

    def _workers(self) -> dict[str, int]:
        """Return the workers that live, and the number of batches that each works at side by side."""
        client, keys = self._journal.redis, self._journal.keys
        try:
            names = sorted(name.decode() for name in cast("list[bytes]", client.zrange(keys.samplers, 0, -1)))
        except NoPermissionError:  # the ACL file is of an earlier version
            return {}
        if not names:
            return {}
        records = cast("list[bytes | None]", client.mget([keys.sampler(name) for name in names]))
        alive = [(name, record) for name, record in zip(names, records, strict=True) if record is not None]
        return {name: _read_slots(record) for name, record in alive}

    # -- gathering -------------------------------------------------------------------------------------------

    def _key(self, share: _Share) -> str:
        return self._journal.keys.batch(self._batch(share).result, share.cores, share.share)

    def _gather(self, now_s: float) -> None:
        waiting = [share for share in self._shares if share.open and share.sent]
        if not waiting:
            return
        pipe = self._journal.redis.pipeline(transaction=False)
        for share in waiting:
            pipe.hmget(self._key(share), ["samples", "by", "tries", "took_s", "fed"])
        for share, (data, by, tries, took_s, fed) in zip(waiting, pipe.execute(), strict=True):
            share.tries = int(tries or 0)
            share.by = by.decode() if by else None
            if data is not None and self._take(share, data) and share.by is not None:
                took = None if took_s is None else float(took_s)
                self._pool.note(share.key, share.by, took, from_start=not int(fed or 0))
                self._progress_s[share.by] = now_s
        if any(not share.open for share in waiting):  # the queue moves: the batches in it are not lost
            for share in waiting:
                share.patience = PATIENCE

    def _take(self, share: _Share, data: bytes) -> bool:
        """Take the samples of a batch; return False if they are of no use."""
        try:
            samples = Samples.from_bytes(data)
        except ValueError:
            log.exception("samples cannot be read", cores=share.cores, share=share.share)
            self._journal.redis.delete(self._key(share))
            return False
        if (samples.flavour, samples.until_s) != (share.flavour, self.boundary_s):
            return False
        share.samples = samples
        return True

    def _finish(self) -> QuantileTable:
        samples: dict[Flavour, Samples] = {}
        for flavour in {share.flavour for share in self._shares}:
            parts = [share.samples for share in self._shares if share.flavour == flavour]
            whole = [part for part in parts if part is not None]
            if len(whole) == len(parts):
                samples[flavour] = Samples.merge(whole)
            elif flavour in self._previous:  # the parts do not fit together: keep the old samples
                samples[flavour] = self._previous[flavour]
        with suppress(redis.RedisError):  # they also expire by themselves
            self._journal.redis.delete(*(self._key(share) for share in self._shares))
        self._shares = []
        self._progress_s = {}
        self._previous = samples
        sampling = self._sampling
        return QuantileTable.from_samples(
            list(samples.values()), sampling.node_cores, self.boundary_s, sampling.rule, sampling.details
        )


def _read_slots(record: bytes) -> int:
    """Return what a worker says of itself; earlier versions write the id of their process."""
    value = json.loads(record)
    return int(value["slots"]) if isinstance(value, dict) else 1
