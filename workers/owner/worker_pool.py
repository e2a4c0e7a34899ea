"""The Monte-Carlo workers as an owner has measured them, and which of them is to make which batch. Pure.

A batch goes to the worker that made it last, for that one has kept the sampler and replays only what is new.
A worker that has too little to do, because it is new or fast, is given batches of those that have too much:
at the beginning of a refresh by the seconds that each batch took last time, and in its course when it has
nothing left and would end a batch from the start before the other one comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from cloudsim.prediction.samples import Flavour

#: A batch by its size and the number of its share.
BatchKey = tuple[Flavour, int]

#: Batches move if the refresh is then shorter by this factor at least: each begins from the start once.
WORTH_MOVING = 0.9
#: A worker that has less than this part of its due is given batches in any case.
STARVED = 0.5
#: Seconds of a batch before any was measured.
_UNKNOWN_S = 1.0


class WorkerPool:
    """Remembers who made each batch last, and how long that took."""

    def __init__(self) -> None:
        self._last: dict[BatchKey, str] = {}
        self._took_s: dict[BatchKey, float] = {}
        self._scratch_s: dict[BatchKey, float] = {}  # from the start of the history

    def last_worker(self, batch: BatchKey) -> str | None:
        """Return the worker that made a batch last; it may have kept the sampler."""
        return self._last.get(batch)

    def note(self, batch: BatchKey, worker: str, took_s: float | None, *, from_start: bool) -> None:
        """Note who made a batch, and the seconds that it took, if the worker told them."""
        self._last[batch] = worker
        if took_s is not None:
            (self._scratch_s if from_start else self._took_s)[batch] = took_s

    def expected_s(self, batch: BatchKey) -> float:
        """Return how long a batch takes in seconds, with the sampler at hand; unmeasured ones as others."""
        if batch in self._took_s:
            return self._took_s[batch]
        others_s = self._took_s or self._scratch_s
        return sum(others_s.values()) / len(others_s) if others_s else _UNKNOWN_S

    def pays_to_move(self, batch: BatchKey, left_s: float) -> bool:
        """Return whether another worker ends a batch, from the start, sooner than the one that has it.

        ``left_s``: seconds until that one will have ended it.
        """
        return batch not in self._last or self._scratch_s.get(batch, self.expected_s(batch)) < left_s

    def allot(self, batches: Collection[BatchKey], slots: Mapping[str, int]) -> dict[BatchKey, str]:
        """Return the worker of each batch.

        ``slots``: the workers that live, and the number of batches that each works at side by side.
        """
        total_s, places = sum(map(self.expected_s, batches)), sum(slots.values())
        due_s = {worker: total_s * count / places for worker, count in slots.items()}
        as_before = self._place(batches, slots, lambda _: float("inf"))
        moved = self._place(batches, slots, due_s.__getitem__)
        loads_s = self._loads_s(as_before, slots)
        starved = any(load_s < STARVED * due_s[worker] for worker, load_s in loads_s.items())
        before_s, after_s = (
            max(load_s / slots[worker] for worker, load_s in self._loads_s(plan, slots).items())
            for plan in (as_before, moved)
        )
        return moved if starved or after_s <= WORTH_MOVING * before_s else as_before

    def _place(
        self, batches: Collection[BatchKey], slots: Mapping[str, int], most_s: Callable[[str], float]
    ) -> dict[BatchKey, str]:
        """Leave batches with their workers up to ``most_s`` seconds each; spread the others."""
        plan: dict[BatchKey, str] = {}
        loads_s = dict.fromkeys(slots, 0.0)
        free = []
        for batch in sorted(batches, key=self.expected_s, reverse=True):
            worker, seconds = self.last_worker(batch), self.expected_s(batch)
            # Its first batch stays with a worker, however long it takes, and so does one that fits by half.
            if worker in loads_s and (not loads_s[worker] or loads_s[worker] + seconds / 2 <= most_s(worker)):
                plan[batch] = worker
                loads_s[worker] += seconds
            else:
                free.append(batch)
        for batch in free:
            seconds = self.expected_s(batch)
            worker = min(slots, key=lambda name: (loads_s[name] + seconds) / slots[name])
            plan[batch] = worker
            loads_s[worker] += seconds
        return plan

    def _loads_s(self, plan: Mapping[BatchKey, str], slots: Mapping[str, int]) -> dict[str, float]:
        loads_s = dict.fromkeys(slots, 0.0)
        for batch, worker in plan.items():
            loads_s[worker] += self.expected_s(batch)
        return loads_s
