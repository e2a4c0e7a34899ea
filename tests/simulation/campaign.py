"""Many seeds, over several processes: stoppable at any moment, and taken up again where it was."""

from __future__ import annotations

import gc
import json
import multiprocessing
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.world import Report, run_seed

_CHUNK = 10
_FRESH_A_SECOND = 10_000  # more than all machines together run
_LOOK_S = 0.5


def fresh_seed() -> int:
    """A seed that nobody has run, nor those after it: the time in seconds, with four digits more."""
    return int(time.time()) * _FRESH_A_SECOND


@dataclass
class Summary:
    """What so many seeds, counted from the first one, came to. ``ended``: why there are not more of them."""

    first_seed: int
    seeds: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)  # seed and what
    seconds: float = 0.0
    journal_entries: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    ended: str = "all seeds ran"

    def add(self, other: Summary) -> None:
        """The seeds after these."""
        self.seeds += other.seeds
        self.violations += other.violations
        self.journal_entries += other.journal_entries
        self.faults += other.faults

    def as_json(self) -> dict[str, Any]:
        """With the rate, and in order."""
        rate = round(self.seeds / self.seconds, 2) if self.seconds else 0.0
        sorted_counts = {
            name: dict(sorted(getattr(self, name).items())) for name in ("journal_entries", "faults")
        }
        return asdict(self) | sorted_counts | {"seconds": round(self.seconds, 1), "seeds_per_second": rate}


@dataclass(frozen=True)
class Campaign:
    """``minutes`` None: as long as it takes. ``state``: a file to take it up from, and to keep it in.
    ``told`` hears of each violation, ``progress`` of the state after each chunk of seeds."""

    first_seed: int
    seeds: int
    jobs: int = 1
    minutes: float | None = None
    keep_going: bool = False
    state: Path | None = None
    told: Callable[[str], None] = lambda _: None
    progress: Callable[[Summary], None] = lambda _: None

    def run(self) -> Summary:
        """Ends early, with what there is, when time is up, at a violation, and at Ctrl-C or SIGTERM."""
        summary = self._begun()
        before_s, began_s = summary.seconds, time.monotonic()
        summary.ended = "all seeds ran"
        try:
            for chunk, violations in self._chunks(summary, began_s):
                summary.add(chunk)
                for text in violations:
                    self.told(text)
                summary.seconds = before_s + time.monotonic() - began_s
                self.progress(summary)
                self._keep(summary)
                if summary.violations and not self.keep_going:
                    summary.ended = "a violation"
                    break
        except KeyboardInterrupt:
            summary.ended = "interrupted"
        summary.seconds = before_s + time.monotonic() - began_s
        self._keep(summary)
        return summary

    def _begun(self) -> Summary:
        if self.state is None or not self.state.exists():
            return Summary(self.first_seed)
        found: dict[str, Any] = json.loads(self.state.read_text(encoding="utf-8"))
        found.pop("seeds_per_second")
        for name in ("journal_entries", "faults"):
            found[name] = Counter(found[name])
        return Summary(**found)

    def _keep(self, summary: Summary) -> None:
        if self.state is not None:
            self.state.parent.mkdir(parents=True, exist_ok=True)
            draft = self.state.with_suffix(".new")
            draft.write_text(json.dumps(summary.as_json(), indent=2), encoding="utf-8")
            draft.replace(self.state)

    def _chunks(self, summary: Summary, began_s: float) -> Iterator[tuple[Summary, list[str]]]:
        """In the order of their seeds, so that what is done is always all up to some seed."""
        end = summary.first_seed + self.seeds
        step = _CHUNK if self.jobs > 1 else 1
        starts = iter(range(summary.first_seed + summary.seeds, end, step))
        with _workers(self.jobs) as submit:
            ahead: deque[Any] = deque()
            while True:
                while len(ahead) < 3 * self.jobs and (first := next(starts, None)) is not None:
                    ahead.append(submit(first, min(end, first + step), self.keep_going))
                if not ahead:
                    return
                yield ahead.popleft()()
                if self.minutes is not None and time.monotonic() - began_s > 60 * self.minutes:
                    summary.ended = "time is up"
                    return


def run_chunk(first: int, end: int, keep_going: bool) -> tuple[Summary, list[str]]:
    """Some seeds, up to a violation unless told to go on; and what is to be told of violations."""
    summary, violations = Summary(first), []
    for seed in range(first, end):
        report = run_seed(seed)
        summary.seeds += 1
        summary.journal_entries.update(report.kinds)
        summary.faults.update(report.befell)
        if report.violation is not None:
            summary.violations.append({"seed": seed, "what": report.violation})
            violations.append(story(report))
            if not keep_going:
                break
    return summary, violations


def story(report: Report) -> str:
    """A violation with what led to it, and how to have it again."""
    lines = [
        f"seed {report.seed}, step {report.steps}: {report.violation}",
        f"options: {json.dumps(report.options.as_json())}",
        *(f"  {line}" for line in report.tail),
        f"again: python -m tests.simulation --from {report.seed} --seeds 1",
    ]
    return "\n".join(lines)


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[..., Callable[[], Any]]]:
    """A function that begins a chunk, and returns one that waits for it. One job: in this process."""
    if jobs == 1:
        yield lambda *told: lambda: run_chunk(*told)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)
    try:
        yield lambda *told: _waiter(pool.submit(run_chunk, *told))
    finally:
        for process in pool._processes.values():
            process.terminate()  # what was begun beyond the last chunk is not counted
        pool.shutdown(cancel_futures=True)


def _waiter(chunk: Future[Any]) -> Callable[[], Any]:
    def wait() -> Any:
        while True:  # not one long wait: a signal is to be heard
            try:
                return chunk.result(timeout=_LOOK_S)
            except TimeoutError:
                continue

    return wait


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it obeys its parent
    gc.freeze()  # what was imported is never garbage
