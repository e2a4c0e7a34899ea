"""The process of a cloud's owner: its journal, its inbox, its time and its tables.

One lock around everything that touches the owner. The Celery task (doorbell) and the timetable both call
``drain``. The timetable is this process's own thread and not Celery's beat: what it does (look into the
inbox, tick, begin a refresh) must go on when the queue of doorbells does not.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import redis
import structlog
from kombu.exceptions import OperationalError

from broker.contract import Advert, Batch, CloudInfo, Command, RefusalView, Reply, Tick, read
from broker.failpoints import Failpoint, failpoint
from broker.journal.archive import Archive, directory_name
from broker.journal.dead_letters import DeadLetterKind
from broker.journal.inbox import Malformed
from broker.journal.journal import FencedError, Journal
from broker.observability.spans import Spans
from broker.settings import Settings
from cloudsim.disclosure.levels import Disclosure
from cloudsim.disclosure.masked_tables import shown_table, told_by
from cloudsim.model.refusals import RefusalReason
from cloudsim.prediction.samples import Flavour
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.pipeline import warm_up
from workers import snapshots
from workers.answering import Answering
from workers.clock import CloudClock, JumpWatch, resume_s
from workers.keeping import Keeper
from workers.measuring import Measuring
from workers.owner import Owner
from workers.recorder import Outcome
from workers.recovery import Recovery
from workers.refresh import Refresher, Sampling
from workers.snapshots import Snapshot
from workers.state import OwnerSpec
from workers.tabling import Tabling
from workers.tenure import Tenure, until_answered

EXIT_FENCED = 75
EXIT_BROKEN = 70
#: Commands in one transaction. An entry of the inbox is not split.
GROUP = 64
#: A command that breaks the owner is left out. When others break it too, it is not the command.
MOST_POISON_IN_A_ROW = 3
_HISTORY_STEP_S = 3600.0
_SET_ASIDE = "its owner failed over this command and has set it aside for its operators (spotfed dlq)"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RuntimeSpec:
    """What the process of an owner is told.

    sizes: those that tables are made for, flavours with further amounts among them; in wall time those asked
    for join them. speed: cloud seconds a second (wall time). history_s: own load that a simulated cloud
    replays before it opens for the first time (wall time).
    """

    owner: OwnerSpec
    info: CloudInfo
    sizes: frozenset[int | Flavour]
    seed: int
    births: int
    speed: float = 1.0
    history_s: float = 0.0


class _Poisoned(Exception):  # noqa: N818  (it is not an error of ours)
    """A command broke the owner, whose state is now in doubt."""


class Runtime:
    """Owns one cloud for as long as the process lives.

    ``send(queue, batch)`` sends a Monte-Carlo batch; ``fail(status)`` ends the process. ``archive``: of the
    journal, which is never cut without one. ``measuring``, ``spans``: what it tells operators of itself.
    """

    def __init__(
        self,
        spec: RuntimeSpec,
        settings: Settings,
        journal: Journal,
        send: Callable[[str, Batch], None],
        fail: Callable[[int], NoReturn],
        archive: Archive | None = None,
        measuring: Measuring | None = None,
        spans: Spans | None = None,
    ):
        self._spec, self._settings, self._journal = spec, settings, journal
        self._send, self._fail = send, fail
        self._measuring = measuring or Measuring(None, time.monotonic)
        self._answering = Answering(journal.cloud, spans)
        self._trace_time = spec.owner.trace_time
        epochs = epochs_directory(settings.state_dir, settings.key_prefix)
        self._tenure = Tenure(journal, settings.owner_lease_ttl_s, epochs, archive)
        self._keeper = Keeper(archive, self._tenure, settings)
        self._recovery = Recovery(journal, archive, settings.journal_kept, settings.events_kept)
        self._since_snapshot = 0  # entries
        self._tabling = Tabling(spec.owner.cloud, spec.sizes)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._owner = Owner(spec.owner)
        self._refresher = Refresher(self._sampling(), journal, send, time.monotonic)
        self._clock, self._cursor = CloudClock(0.0, time.monotonic(), spec.speed), "0-0"
        self._done_of_entry = 0  # commands handled of the entry after the cursor
        self._poison: dict[str, str] = {}  # what broke the owner, and how, by command
        self._poison_in_a_row, self._poisoned_entry = 0, ""
        self._ticked = "0-0"
        self._unpublished: QuantileTable | None = None

    def _sampling(self) -> Sampling:
        cloud, spec = self._spec.owner.cloud, self._spec
        return Sampling(
            cloud.id, self._tenure.epoch, cloud.node_cores, spec.seed, spec.births, cloud.prediction,
            cloud.details, cloud.lineup.name, cloud.grace_s,
        )  # fmt: skip

    # -- opening and closing ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Becomes the owner, waiting while another process is; recovers; catches up with the inbox."""
        warm_up(self._spec.owner.cloud.lineup)  # before anybody waits for an answer
        self._tenure.begin()
        threading.Thread(target=self._tenure.keep, args=(self._fenced,), name="lease", daemon=True).start()
        self._refresher = Refresher(self._sampling(), self._journal, self._send, time.monotonic)
        with self._guarded():
            until_answered(self._recover)
            self._cursor = until_answered(self._journal.cursor)
            until_answered(lambda: self._journal.publish_info(self._spec.info))
            if self._spec.owner.cloud.disclosure is not Disclosure.FULL:
                until_answered(self._journal.withdraw_table)  # that of an owner that disclosed more
            self._begin_time()
        log.info("open", cloud=self._journal.cloud, epoch=self._tenure.epoch, at_s=self._owner.cloud.now_s)
        self.drain()

    def start(self) -> None:
        """Starts the timetable, and who waits for the archive's disk."""
        self._keeper.start(self._stopping)
        threading.Thread(target=self._timetable, name="timetable", daemon=True).start()

    def close(self) -> None:
        """Lets the next owner in."""
        self._stopping.set()
        self._tenure.end()
        self._keeper.close()

    def _recover(self) -> None:
        """The owner as the fold of its journal; what the journal does not hold did not happen."""
        table = self._owner.cloud.table
        recovered = self._recovery.run(self._spec.owner, self._tenure.token, self._tenure.epoch)
        self._owner, self._since_snapshot = recovered.owner, recovered.folded
        self._tenure.goes_on(recovered.last_id, recovered.last_hash)
        self._owner.cloud.table = table
        self._owner.cloud.history.cut(self._refresher.boundary_s)  # the refresher has these

    def _begin_time(self) -> None:
        """Plays what a cloud missed, or the history of one that opens first; then its time runs."""
        owner = self._owner
        start_s = owner.cloud.now_s
        opened = owner.state.opened
        if self._trace_time:
            pass  # time moves with the commands
        elif opened is None:
            start_s = max(start_s, self._spec.history_s)
        else:
            anchor, now = datetime.fromisoformat(opened.at), datetime.now(UTC)
            start_s = resume_s(opened.at_s, anchor, self._latest_s(), now, self._spec.speed)
        while owner.cloud.now_s < start_s:
            self._write(owner.advance(min(owner.cloud.now_s + _HISTORY_STEP_S, start_s), _now()))
        self._clock = CloudClock(start_s, time.monotonic(), self._spec.speed)
        self._write(owner.open(start_s, _now()), advert=True)

    def _latest_s(self) -> float:
        """The latest time of the cloud that the journal or the last advert knows of."""
        key = self._journal.keys.advert(self._journal.cloud)
        advert = until_answered(lambda: self._journal.redis.get(key))
        told_s = read(Advert, advert).at_s if isinstance(advert, bytes) else 0.0
        return max(told_s, self._owner.cloud.now_s)

    # -- the inbox -------------------------------------------------------------------------------------------

    def drain(self) -> bool:
        """Handles what is in the inbox, and takes a refresh under way a step further.

        False if the inbox could not be read to its end.
        """
        with self._guarded():
            try:
                self._step_refresh()
                while self._drain_group():
                    pass
            except _Poisoned:
                self._answering.forget()
                until_answered(self._recover)
                self._done_of_entry = 0
            else:
                return True
        return False

    def _drain_group(self) -> bool:
        """Handles a group of commands in one commit; True when there may be more."""
        if self._trace_time and self._refresher.busy:
            return False  # the next command waits for the table
        entries = self._journal.read_inbox(self._cursor, GROUP)
        outcome, cursor, held_s, handled, poisoned = Outcome(), None, None, 0, False
        for entry, commands in entries:
            poisoned = any(self._is_poison(command) for command in commands)
            count, held_s = self._handle_entry(entry, commands, outcome)
            handled += count
            if held_s is not None:
                break
            cursor = entry
            if handled >= GROUP or poisoned:  # what breaks this owner must not break the next one too
                break
        if cursor is not None or outcome:
            self._write(outcome, cursor, advert=True)
            self._cursor = cursor or self._cursor
        self._answering.tell()
        if held_s is not None:
            self._write(self._owner.advance(held_s, _now()))
            self._begin_refresh(held_s)
        return handled >= GROUP or len(entries) == GROUP or poisoned

    def _handle_entry(
        self, entry: str, commands: Sequence[Command | Malformed], outcome: Outcome
    ) -> tuple[int, float | None]:
        """Handle the commands of an entry that are not done yet, and add what follows to the outcome.

        Returns how many were handled, and the time whose table the next one waits for, or None.
        """
        begun, answered = self._done_of_entry, len(outcome.replies)
        held_s = None
        for command in commands[begun:]:
            held_s = None if isinstance(command, Malformed) else self._owner.table_due(command)
            if held_s is not None:
                break
            outcome.extend(self._handle(command, entry))
            self._done_of_entry += 1
        count = self._done_of_entry - begun
        self._answering.note(commands[begun : self._done_of_entry], outcome.replies[answered:])
        if held_s is None:
            self._done_of_entry = 0
        return count, held_s

    def _is_poison(self, command: Command | Malformed) -> bool:
        return not isinstance(command, Malformed) and command.id in self._poison

    def _handle(self, command: Command | Malformed, entry: str) -> Outcome:
        if isinstance(command, Malformed):
            return Outcome()
        if command.id in self._poison:
            return self._set_aside(command, entry)
        try:
            outcome = self._owner.handle(command, self._clock.now_s(time.monotonic()), _now())
        except Exception as error:  # whatever it is, the state is in doubt
            log.exception("command left out", cloud=self._journal.cloud, command=command)
            self._poison[command.id] = f"{type(error).__name__}: {error}"
            if entry != self._poisoned_entry:  # the commands of one entry come from one sender
                self._poisoned_entry = entry
                self._poison_in_a_row += 1
            if self._poison_in_a_row > MOST_POISON_IN_A_ROW:
                raise
            raise _Poisoned from error
        self._poison_in_a_row = 0
        self._tabling.told(command)
        return outcome

    def _set_aside(self, command: Command, entry: str) -> Outcome:
        """Leaves a command out: it becomes a dead letter, and whoever waits hears so. No owner refuses
        anything because of being unreachable but for this (``broker.api.services.owner_calls``)."""
        body = b"[" + command.model_dump_json().encode() + b"]"
        of, why = f"{entry}/{self._done_of_entry}", self._poison[command.id]
        put = self._journal.dead_letters.put
        until_answered(lambda: put(of, DeadLetterKind.POISON, why, body, entry=entry))
        if command.reply_to is None:
            return Outcome()
        answer = RefusalView(cloud=self._journal.cloud, reason=RefusalReason.UNREACHABLE, detail=_SET_ASIDE)
        return Outcome(replies=[(command.reply_to, Reply(command=command.id, answer=answer))])

    def _write(self, outcome: Outcome, cursor: str | None = None, *, advert: bool = False) -> None:
        if outcome or cursor is not None:
            self._tenure.write(outcome, cursor, self._owner.advert(_now()) if advert else None)
            self._since_snapshot += len(outcome.events)

    def keep_short(self) -> None:
        """After enough entries takes a snapshot, and cuts the journal behind it."""
        if not self._keeper.due(self._since_snapshot):
            return
        taken: list[Snapshot] = []  # none if the queue went away
        with self._guarded():
            if self._keeper.lags:
                until_answered(self._recover)
            taken.append(snapshots.take(self._owner.state, self._tenure.last_id, self._tenure.last_hash))
            self._since_snapshot = 0
        for snapshot in taken:
            packed = self._keeper.secure(snapshot)
            failpoint(Failpoint.OWNER_SECURED)
            with self._guarded():
                if packed is not None:
                    self._tenure.cut(packed, snapshot.held.after, self._settings)

    # -- tables ----------------------------------------------------------------------------------------------

    def _keep_wall_time(self) -> None:
        """What is due by the clock: reservations that expire, a refresh."""
        monotonic_s = time.monotonic()
        now_s = self._clock.now_s(monotonic_s)
        self._write(self._owner.expire(now_s, _now(), monotonic_s), advert=True)
        if not self._refresher.busy and self._tabling.due(now_s, monotonic_s):
            self._write(self._owner.advance(now_s, _now()))
            self._tabling.begun(now_s, monotonic_s)
            self._begin_refresh(self._owner.cloud.now_s)

    def _begin_refresh(self, boundary_s: float) -> None:
        self._measuring.table_begun()
        self._refresher.begin(boundary_s, self._tabling.sizes, self._owner.cloud.history.cut(boundary_s))
        self._step_refresh()

    def _step_refresh(self) -> None:
        full = self._refresher.step()
        if full is None:
            return
        self._measuring.table_made()
        table = told_by(full, self._spec.owner.cloud.disclosure)  # nobody else sees the full one
        log.info("table", cloud=self._journal.cloud, version=table.version, made_at_s=table.made_at_s)
        self._unpublished = table
        failpoint(Failpoint.OWNER_MERGED)
        if not self._trace_time:
            self._publish_table()  # before the advert that names it
        self._write(self._owner.adopt(table, _now()), advert=True)

    def _publish_table(self) -> None:
        """For people and routing. In trace time nobody routes by it, and the timetable finds time for it."""
        table, self._unpublished = self._unpublished, None
        if table is not None:
            shown = json.dumps(shown_table(table))
            until_answered(lambda: self._journal.set_table(shown))

    # -- threads ---------------------------------------------------------------------------------------------

    def _timetable(self) -> None:
        watch = JumpWatch()
        while True:
            watch.look(time.monotonic(), datetime.now(UTC))
            if not self._trace_time:
                self._tick()
            read = self.drain()
            with self._guarded():
                if self._trace_time:
                    self._publish_table()
                elif read:  # else a confirmation may lie there, of what would expire
                    self._keep_wall_time()
            self.keep_short()
            self._measuring.look(self._refresher.waiting)
            if self._stopping.wait(self._settings.inbox_poll_s):
                return

    def _tick(self) -> None:
        """The heartbeat: it shows in the advert when it has been read. Then the next one follows."""
        if _id(self._ticked) > _id(self._cursor):
            return
        try:
            self._ticked = self._journal.send(self._journal.cloud, [Tick(id=f"tick-{uuid.uuid4()}")])
        except redis.RedisError as error:
            log.info("no tick", cloud=self._journal.cloud, why=str(error))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Alone with the owner. What an owner must not live on with ends the process."""
        with self._lock:
            try:
                yield
            except FencedError as error:
                self._fenced(error)
            except (redis.RedisError, OperationalError) as error:
                log.info(
                    "queue is away", cloud=self._journal.cloud, why=str(error)
                )  # the timetable comes back
            except Exception:
                log.exception("owner broken: stopping", cloud=self._journal.cloud)
                self._fail(EXIT_BROKEN)

    def _fenced(self, error: FencedError) -> NoReturn:
        log.error("fenced: stopping", cloud=self._journal.cloud, why=str(error))
        self._fail(EXIT_FENCED)


def epochs_directory(state_dir: Path, key_prefix: str) -> Path:
    """Where the last epochs of a federation's clouds are remembered on this machine."""
    return state_dir / "epochs" / directory_name(key_prefix)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _id(entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split("-")))
