"""The process around a cloud's owner: its journal, its inbox, its time and its tables.

One lock guards everything that touches the owner. The Celery task (doorbell) and the timetable both call
``drain``. The timetable is a thread of this process and not Celery's beat: what it does (read the inbox,
tick, begin a refresh) must go on when the queue of doorbells does not.
"""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NoReturn

import redis
import structlog
from kombu.exceptions import OperationalError

from broker.contract import (
    GANGS_SINCE,
    Advert,
    Batch,
    CloudInfo,
    Command,
    RefusalView,
    Reply,
    Tick,
    read_message,
)
from broker.failpoints import Failpoint, failpoint
from broker.journal.archive import Archive, directory_name
from broker.journal.dead_letters import DeadLetterKind
from broker.journal.inbox import MalformedCommand
from broker.journal.journal import FencedError, Journal
from broker.observability.spans import Spans
from broker.settings import Settings
from broker.storage.outages import until_answered
from broker.storage.streams import Entry
from cloudsim.cloud.spec import CloudSpec
from cloudsim.disclosure.levels import Disclosure
from cloudsim.disclosure.masked_tables import coarsen_table, describe_table
from cloudsim.model.refusals import RefusalReason
from cloudsim.prediction.kernels.line_up_replays import is_compiled
from cloudsim.prediction.samplers.plain import PLAIN_BIRTHS
from cloudsim.prediction.samples import Flavour
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.pipeline import warm_up
from workers.owner import snapshots
from workers.owner.archiving import Archiver
from workers.owner.clock import CloudClock, JumpWatch, resume_s
from workers.owner.event_writer import Decisions
from workers.owner.nodes import NodesError, describe_misfits, plan_for
from workers.owner.owner import Owner
from workers.owner.ownership import OwnerLease
from workers.owner.recovery import Recovery
from workers.owner.refresh_schedule import RefreshSchedule
from workers.owner.request_log import RequestLogger
from workers.owner.snapshots import Snapshot
from workers.owner.standby import Standby
from workers.owner.state import OwnerSpec
from workers.owner.stats import OwnerStatsPublisher
from workers.owner.table_refresh import Refresher, Sampling
from workers.owner.table_turns import TableTurns

EXIT_FENCED = 75
EXIT_BROKEN = 70
#: Number of commands to commit together. An entry of the inbox is not split.
GROUP = 64
#: A command that breaks the owner is left out; when this many more in a row break it too, the owner is
#: broken.
MOST_POISON_IN_A_ROW = 3
_HISTORY_STEP_S = 3600.0
#: How long an owner that was woken stays at its inbox: while commands come, and while none comes. Celery's
#: remote control waits for the first.
_AWAKE_S, _LISTEN_S = 0.4, 0.1
#: Age up to which an advert stands while decisions follow one another; the API looks every 0.1 s.
_ADVERT_S = 0.05
_SET_ASIDE = "its owner failed over this command and has set it aside for its operators (spotfed dlq)"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OwnerProcessSpec:
    """Configures the process of an owner.

    info: published as what this member is. sizes: those that tables are made for, flavours with further
    amounts among them; in wall time those asked for join them. births: Monte-Carlo samples a size. speed:
    cloud seconds a second (wall time). history_s: seconds of own load that a simulated cloud replays before
    it opens for the first time (wall time).
    """

    owner: OwnerSpec
    info: CloudInfo
    sizes: frozenset[int | Flavour]
    seed: int
    births: int
    speed: float = 1.0
    history_s: float = 0.0


class _PoisonError(Exception):
    """A command broke the owner, whose state is now in doubt."""


class OwnerProcess:
    """Owns one cloud for as long as the process lives.

    ``send(queue, batch)`` sends a Monte-Carlo batch; ``fail(status)`` ends the process. ``archive`` is that
    of the journal, which is never cut without one. ``stats`` and ``spans`` are for operators. ``standby``
    is what it does while another process owns the cloud.
    """

    def __init__(
        self,
        spec: OwnerProcessSpec,
        settings: Settings,
        journal: Journal,
        send: Callable[[str, Batch], None],
        fail: Callable[[int], NoReturn],
        archive: Archive | None = None,
        stats: OwnerStatsPublisher | None = None,
        spans: Spans | None = None,
        standby: Standby[OwnerProcessSpec] | None = None,
    ):
        self._settings, self._journal, self._standby = settings, journal, standby
        self._send, self._fail = send, fail
        self._stats = stats or OwnerStatsPublisher(None, time.monotonic)
        self._request_log = RequestLogger(journal.cloud, spans)
        self._trace_time = spec.owner.trace_time
        epoch_directory = epochs_directory(settings.state_dir, settings.key_prefix)
        self._lease = OwnerLease(journal, settings.owner_lease_ttl_s, epoch_directory, archive)
        self._archiver = Archiver(archive, self._lease, settings)
        self._recovery = Recovery(journal, archive, settings.journal_kept, settings.events_kept)
        self._since_snapshot = 0  # number of entries
        self._take_spec(spec)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._refresher = Refresher(self._sampling(), journal, send, time.monotonic)
        self._clock, self._cursor = CloudClock(0.0, time.monotonic(), spec.speed), "0-0"
        self._done_of_entry = 0  # number of commands handled of the entry after the cursor
        self._poison: dict[str, str] = {}  # how commands broke the owner, by their id
        self._poison_in_a_row, self._poisoned_entry = 0, ""
        self._ticked = "0-0"
        self._advertised_s, self._owes_advert = -math.inf, False  # on the monotonic clock; was one left out?
        self._unpublished: QuantileTable | None = None

    def _take_spec(self, spec: OwnerProcessSpec) -> None:
        self._spec = spec
        self._schedule = RefreshSchedule(spec.owner.cloud, spec.sizes)
        self._owner = Owner(spec.owner)
        longest_s, journal = spec.owner.cloud.refresh_s / spec.speed, self._journal
        self._turns = TableTurns(journal.redis, journal.keys, journal.cloud, longest_s, time.monotonic)

    def _sampling(self) -> Sampling:
        cloud, spec = self._spec.owner.cloud, self._spec
        return Sampling(
            cloud.id, self._lease.epoch, cloud.node_cores, spec.seed, spec.births, cloud.prediction,
            cloud.details, cloud.lineup.name, cloud.grace_s, cloud.predictor,
        )  # fmt: skip

    # -- opening and closing ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Become the owner, waiting while another process is; recover; catch up with the inbox.

        Raises NodesError where instances do not fit the nodes; ``close`` must then follow.
        """
        cloud, standby = self._spec.owner.cloud, self._standby
        warm_up(cloud.lineup)  # before requests wait for it
        if cloud.products.pools is None and not is_compiled(cloud.lineup):
            log.warning("line-up in plain Python: its tables are slow", cloud=cloud.id, samples=PLAIN_BIRTHS)
        has_waited = self._lease.begin() if standby is None else self._lease.begin(standby.look)
        threading.Thread(target=self._lease.keep, args=(self._fenced,), name="lease", daemon=True).start()
        if has_waited and standby is not None:
            standby.end()
            self._take_spec(standby.read_spec())
        self._refresher = Refresher(self._sampling(), self._journal, self._send, time.monotonic)
        with self._guarded():
            self._recover()
            self._cursor = until_answered(self._journal.cursor)
            self.publish_info()
            if self._spec.owner.cloud.disclosure is not Disclosure.FULL:
                until_answered(self._journal.withdraw_table)  # that of an owner that disclosed more
            self._begin_time()
        log.info("open", cloud=self._journal.cloud, epoch=self._lease.epoch, at_s=self._owner.cloud.now_s)
        self.drain()

    def start(self) -> None:
        """Start the threads of the timetable and of the archive."""
        self._archiver.start(self._stopping)
        threading.Thread(target=self._timetable, name="timetable", daemon=True).start()

    @contextmanager
    def pause(self, cloud: CloudSpec) -> Iterator[bool]:
        """Take no command within the context, which gets whether instances fit another specification's nodes.

        What does not fit is logged.
        """
        with self._guarded():
            misfits = plan_for(self._owner.state, cloud).misfits
            if misfits:
                log.error("nodes not taken", cloud=cloud.id, why=describe_misfits(cloud, misfits))
            yield not misfits

    def publish_info(self) -> None:
        """Publish what this member is, unless it is another process that does."""
        if self._lease.epoch:
            until_answered(lambda: self._journal.publish_info(self._spec.info))

    def close(self) -> None:
        """Stop, and let the next owner in."""
        self._stopping.set()
        if self._standby is not None:
            self._standby.end()
        self._lease.end()
        self._archiver.close()

    def _recover(self) -> None:
        """Make the owner the fold of its journal again; what the journal does not hold did not happen."""
        table = self._owner.cloud.table
        run = partial(self._recovery.run, self._spec.owner, self._lease.token, self._lease.epoch)
        recovered = until_answered(run)
        self._owner, self._since_snapshot = recovered.owner, recovered.folded
        self._lease.continue_after(recovered.last_id, recovered.last_hash)
        self._follow_version()
        self._owner.cloud.table = table
        self._owner.cloud.history.cut(self._refresher.boundary_s)  # the refresher has the events before it
        self._write(self._owner.take_nodes(_now()))

    def _begin_time(self) -> None:
        """Play what the cloud missed, or the history of one that opens first; then let its time run."""
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
        """Return the latest time of the cloud, in its seconds, that the journal or the last advert names."""
        key = self._journal.keys.advert(self._journal.cloud)
        advert = until_answered(lambda: self._journal.redis.get(key))
        advertised_s = read_message(Advert, advert).at_s if isinstance(advert, bytes) else 0.0
        return max(advertised_s, self._owner.cloud.now_s)

    # -- the inbox -------------------------------------------------------------------------------------------

    def attend(self) -> None:
        """Handle what is in the inbox, and stay there while commands come: what a doorbell does.

        Who is awake hears of a command by reading it, without a doorbell between. Commands whose senders do
        not wait are read and verified meanwhile, and decided with the next one, as little later as after a
        planned wake-up (``broker.requests.owner_commands``). While decisions follow one another, the advert
        is written now and then, and with the last one.
        """
        ends_s = time.monotonic() + _AWAKE_S
        is_over = not self.drain() or self._trace_time
        came: list[Entry] = []
        while not is_over:
            try:
                latest = self._journal.await_inbox(came[-1][0] if came else self._cursor, _LISTEN_S)
            except redis.RedisError as error:  # the timetable comes back
                log.info("queue is away", cloud=self._journal.cloud, why=str(error))
                return
            came += latest
            is_over = not latest or time.monotonic() >= ends_s or self._stopping.is_set()
            if is_over or self._is_awaited(came):
                self.drain(came, may_wait=not is_over)
                came = []

    def _is_awaited(self, came: Sequence[Entry]) -> bool:
        """Return whether the sender of a command that is not handled yet waits for its answer."""
        commands: list[Command | MalformedCommand] = []
        with self._guarded():
            for _, parsed in self._journal.read_inbox(self._cursor, GROUP, came):
                commands += parsed
        return any(
            not isinstance(command, MalformedCommand) and command.reply_to is not None for command in commands
        )

    def drain(self, came: Sequence[Entry] | None = None, *, may_wait: bool = False) -> bool:
        """Handle what is in the inbox, and take a refresh under way a step further.

        came: what has just been read of it. may_wait: whether the advert may be left to a later call, if the
        last one is young. Returns False if the inbox could not be read to its end.
        """
        with self._guarded():
            try:
                self._step_refresh()
                while self._drain_group(came, may_wait=may_wait):
                    came = None
            except _PoisonError:
                self._request_log.forget()
                self._recover()
                self._done_of_entry = 0
            else:
                return True
        return False

    def _drain_group(self, came: Sequence[Entry] | None, *, may_wait: bool) -> bool:
        """Handle a group of commands in one commit; return True when there may be more."""
        if self._trace_time and self._refresher.busy:
            return False  # the next command waits for the table
        entries = self._journal.read_inbox(self._cursor, GROUP, came)
        decisions, cursor, table_due_s, handled, poisoned = Decisions(), None, None, 0, False
        for entry, commands in entries:
            poisoned = any(self._is_poison(command) for command in commands)
            count, table_due_s = self._handle_entry(entry, commands, decisions)
            handled += count
            if table_due_s is not None:
                break
            cursor = entry
            if handled >= GROUP or poisoned:  # what breaks this owner must not break the next one too
                break
        is_young = may_wait and time.monotonic() - self._advertised_s < _ADVERT_S
        self._write(decisions, cursor, advert=not is_young)
        self._cursor = cursor or self._cursor
        self._request_log.write()
        if table_due_s is not None:
            self._write(self._owner.reach_boundary(table_due_s, _now()))
            self._begin_refresh(table_due_s)
        return handled >= GROUP or len(entries) == GROUP or poisoned

    def _handle_entry(
        self, entry: str, commands: Sequence[Command | MalformedCommand], decisions: Decisions
    ) -> tuple[int, float | None]:
        """Handle the commands of an inbox entry that are not done yet, and add what was decided.

        Returns how many were handled, and the time (cloud seconds) whose table the next one waits for, or
        None.
        """
        first, replied = self._done_of_entry, len(decisions.replies)
        table_due_s = None
        for command in commands[first:]:
            table_due_s = None if isinstance(command, MalformedCommand) else self._owner.table_due(command)
            if table_due_s is not None:
                break
            decisions.extend(self._handle(command, entry))
            self._done_of_entry += 1
        count = self._done_of_entry - first
        self._request_log.note(commands[first : self._done_of_entry], decisions.replies[replied:])
        if table_due_s is None:
            self._done_of_entry = 0
        return count, table_due_s

    def _is_poison(self, command: Command | MalformedCommand) -> bool:
        return not isinstance(command, MalformedCommand) and command.id in self._poison

    def _handle(self, command: Command | MalformedCommand, entry: str) -> Decisions:
        if isinstance(command, MalformedCommand):
            return Decisions()
        if command.id in self._poison:
            return self._set_aside(command, entry)
        try:
            decisions = self._owner.handle(command, self._clock.now_s(time.monotonic()), _now())
        except Exception as error:  # whatever it is, the state is in doubt
            log.exception("command left out", cloud=self._journal.cloud, command=command)
            self._poison[command.id] = f"{type(error).__name__}: {error}"
            if entry != self._poisoned_entry:  # the commands of one entry come from one sender
                self._poisoned_entry = entry
                self._poison_in_a_row += 1
            if self._poison_in_a_row > MOST_POISON_IN_A_ROW:
                raise
            raise _PoisonError from error
        self._poison_in_a_row = 0
        self._schedule.note_size(self._owner.name_resources(command))
        return decisions

    def _set_aside(self, command: Command, entry: str) -> Decisions:
        """Make a command a dead letter, and refuse it as unreachable, which owners do for no other reason."""
        body = b"[" + command.model_dump_json().encode() + b"]"
        name, why = f"{entry}/{self._done_of_entry}", self._poison[command.id]
        put = self._journal.dead_letters.put
        until_answered(lambda: put(name, DeadLetterKind.POISON, why, body, entry=entry))
        if command.reply_to is None:
            return Decisions()
        answer = RefusalView(cloud=self._journal.cloud, reason=RefusalReason.UNREACHABLE, detail=_SET_ASIDE)
        return Decisions(replies=[(command.reply_to, Reply(command=command.id, answer=answer))])

    def _write(self, decisions: Decisions, cursor: str | None = None, *, advert: bool = False) -> None:
        if decisions or cursor is not None or (advert and self._owes_advert):
            self._lease.write(decisions, cursor, self._owner.advert(_now()) if advert else None)
            self._since_snapshot += len(decisions.events)
            self._owes_advert = not advert
            if advert:
                self._advertised_s = time.monotonic()

    def keep_short(self) -> None:
        """After enough entries take a snapshot, and cut the journal behind it."""
        if not self._archiver.due(self._since_snapshot):
            return
        self.keep_archive(at_once=True)
        taken: list[Snapshot] = []  # none if the queue went away
        with self._guarded():
            taken.append(snapshots.take(self._owner.state, self._lease.last_id, self._lease.last_hash))
            self._since_snapshot = 0
        for snapshot in taken:
            packed = self._archiver.secure(snapshot)
            failpoint(Failpoint.OWNER_SECURED)
            with self._guarded():
                if packed is not None:
                    self._lease.cut(packed, snapshot.head.after, self._settings)

    def keep_archive(self, *, at_once: bool = False) -> None:
        """Mend the archive if it failed, or files of it are gone; it looks now and then, or ``at_once``."""
        if self._archiver.needs_mending(at_once=at_once):
            token, epoch = self._lease.token, self._lease.epoch
            with self._guarded():
                is_whole = until_answered(lambda: self._recovery.mend_archive(token, epoch))
                self._stats.note_archive(is_whole=is_whole)

    # -- tables ----------------------------------------------------------------------------------------------

    def _keep_wall_time(self) -> None:
        """Do what is due by the clock: expire reservations, begin a refresh."""
        monotonic_s = time.monotonic()
        now_s = self._clock.now_s(monotonic_s)
        self._write(self._owner.expire(now_s, _now(), monotonic_s), advert=True)
        if self._refresher.busy:
            self._turns.hold()
        elif self._schedule.due(now_s, monotonic_s):
            self._stats.note_table_due(self._schedule.late_s(now_s) / self._spec.speed)
            if self._turns.take(self._schedule.urgency(now_s)):
                self._write(self._owner.advance(now_s, _now()))
                self._schedule.note_begin(now_s, monotonic_s)
                self._begin_refresh(self._owner.cloud.now_s)

    def _begin_refresh(self, boundary_s: float) -> None:
        self._stats.note_table_begin()
        self._refresher.begin(boundary_s, self._schedule.sizes, self._owner.cloud.history.cut(boundary_s))
        self._step_refresh()

    def _step_refresh(self) -> None:
        full = self._refresher.step()
        if full is None:
            return
        self._stats.note_table_end()
        table = coarsen_table(
            full, self._spec.owner.cloud.disclosure
        )  # the full table stays in the refresher
        log.info("table", cloud=self._journal.cloud, version=table.version, made_at_s=table.made_at_s)
        self._unpublished = table
        failpoint(Failpoint.OWNER_MERGED)
        if not self._trace_time:
            self._turns.leave()
            self._publish_table()  # before the advert that names it
        self._write(self._owner.adopt(table, _now()), advert=True)

    def _publish_table(self) -> None:
        """Publish a new table, for people and routing.

        In trace time no request is routed by it, so that the timetable can do this later.
        """
        table, self._unpublished = self._unpublished, None
        if table is not None:
            body = json.dumps(describe_table(table))
            until_answered(lambda: self._journal.set_table(body))

    # -- threads ---------------------------------------------------------------------------------------------

    def _timetable(self) -> None:
        watch = JumpWatch()
        while True:
            watch.look(time.monotonic(), datetime.now(UTC))
            if not self._trace_time:
                self._tick()
            inbox_read = self.drain()
            with self._guarded():
                if self._trace_time:
                    self._publish_table()
                elif inbox_read:  # else the inbox may hold confirmations of what would expire
                    self._keep_wall_time()
            self.keep_archive()
            self.keep_short()
            self._stats.publish(self._refresher.waiting)
            if self._stopping.wait(self._settings.inbox_poll_s):
                return

    def _tick(self) -> None:
        """Send the next heartbeat, once the last one has been read and shows in the advert."""
        if _entry_number(self._ticked) > _entry_number(self._cursor):
            return
        try:
            self._ticked = self._journal.send(self._journal.cloud, [Tick(id=f"tick-{uuid.uuid4()}")])
        except redis.RedisError as error:
            log.info("no tick", cloud=self._journal.cloud, why=str(error))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Be alone with the owner; end the process after an error that the owner must not survive."""
        with self._lock:
            try:
                self._follow_version()
                yield
            except FencedError as error:
                self._fenced(error)
            except NodesError:
                raise
            except (redis.RedisError, OperationalError) as error:
                # The timetable comes back.
                log.info("queue is away", cloud=self._journal.cloud, why=str(error))
            except Exception:
                log.exception("owner broken: stopping", cloud=self._journal.cloud)
                self._fail(EXIT_BROKEN)

    def _follow_version(self) -> None:
        """Let a simulated cloud place gangs once all members read leases that are spread over nodes."""
        is_simulated = self._spec.info.instances is None
        self._owner.cloud.inventory.may_spread = is_simulated and self._journal.speaks() >= GANGS_SINCE

    def _fenced(self, error: FencedError) -> NoReturn:
        if self._stopping.is_set():  # the lease was given up while this thread was at work
            raise SystemExit
        log.error("fenced: stopping", cloud=self._journal.cloud, why=str(error))
        self._fail(EXIT_FENCED)


def epochs_directory(state_dir: Path, key_prefix: str) -> Path:
    """Return the directory of this machine that keeps the last epochs of a federation's clouds."""
    return state_dir / "epochs" / directory_name(key_prefix)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _entry_number(entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split("-")))
