"""Read the UCSB/Eucalyptus private-cloud traces.

Lines are ``START <seconds> <instance> <node> <cores>`` and ``STOP <seconds> <instance>``, by time. Blank
lines and lines that begin with ``#`` are skipped. The node is not kept: replay places instances itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cloudsim.traces.formats.parse_result import BadValueError, Parsed, parse_cores, parse_number
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat
from cloudsim.traces.report import QuarantinedLine
from cloudsim.traces.trace import Trace


@dataclass
class _Start:
    line: int
    instance: str
    start_s: float
    cores: int
    stop_s: float | None = None


@dataclass
class _Stop:
    line: int
    text: str
    stop_s: float


@dataclass
class _StartStopLog:
    """Everything read so far; a start is kept, running or stopped, unless its stop is impossible."""

    kept: dict[int, _Start] = field(default_factory=dict)
    running: dict[str, _Start] = field(default_factory=dict)
    orphans: dict[str, list[_Stop]] = field(default_factory=dict)
    quarantined: list[QuarantinedLine] = field(default_factory=list)
    lost: int = 0
    at_s: float = -math.inf
    out_of_order: int = 0

    def at(self, text: str) -> float:
        """Return the time of a line in seconds, and count it if it is out of order."""
        at_s = parse_number(text, "time")
        if at_s:  # a stop at 0 is no time
            self.out_of_order += at_s < self.at_s
            self.at_s = at_s
        return at_s

    def start(self, start: _Start) -> None:
        if start.instance in self.running:
            first = self.running[start.instance].line
            raise BadValueError(f"second START of an instance that is running since line {first}")
        self.running[start.instance] = self.kept[start.line] = start

    def stop(self, instance: str, stop: _Stop) -> None:
        start = self.running.get(instance)
        if start is None:
            self.orphans.setdefault(instance, []).append(stop)
        elif stop.stop_s != 0:  # a stop at 0 is how the log says that it saw none
            del self.running[instance]
            self._end(start, stop)

    def _end(self, start: _Start, stop: _Stop) -> None:
        if stop.stop_s >= max(start.start_s, 0.0):
            start.stop_s = stop.stop_s
            return
        why = "stops before its START" if stop.stop_s < start.start_s else "stops before the trace begins"
        reason = f"{start.instance} {why} ({start.start_s:g} on line {start.line})"
        self.quarantined.append(QuarantinedLine.of(stop.line, stop.text, reason))
        del self.kept[start.line]
        self.lost += 1

    def close(self) -> None:
        """Match stops that stood before their START: the last one belongs to the start that has none."""
        for instance, stops in self.orphans.items():
            start = self.running.get(instance)
            if start is not None:
                stop = stops.pop()
                if stop.stop_s != 0:
                    del self.running[instance]
                    self._end(start, stop)
            for stop in stops:
                self.quarantined.append(
                    QuarantinedLine.of(stop.line, stop.text, "STOP of an unknown instance")
                )


def parse(source: Source) -> Parsed:
    """Read START/STOP lines.

    A START before 0 is left-truncated: it starts at 0. No STOP, or a STOP at 0, is right-censored: running
    until the last timestamp. Quarantined are: a STOP before its START (with the instance), a STOP of an
    unknown instance, a second START of a running one, a malformed line, an unknown keyword.
    """
    log = _StartStopLog()
    lines = records = 0
    for line, text in enumerate(source.lines, start=1):
        words = text.split()
        if not words or words[0].startswith("#"):
            continue
        lines += 1
        is_start = words[0] == "START"
        records += is_start
        try:
            _take(log, line, text, words)
        except BadValueError as reason:
            log.quarantined.append(QuarantinedLine.of(line, text, str(reason)))
            log.lost += is_start
    log.close()
    starts = list(log.kept.values())
    return Parsed(
        trace=_trace(source.name, starts),
        lines=lines,
        records=records,
        lost=log.lost,
        quarantined=tuple(sorted(log.quarantined, key=lambda q: q.line)),
        warnings=_edges(starts),
        out_of_order=log.out_of_order,
    )


def _take(log: _StartStopLog, line: int, text: str, words: list[str]) -> None:
    match words:
        case ["START", at, instance, _, cores]:
            log.start(_Start(line, _id(instance), log.at(at), parse_cores(cores)))
        case ["STOP", at, instance]:
            log.stop(_id(instance), _Stop(line, text, log.at(at)))
        case ["START" | "STOP", *_]:
            raise BadValueError("not START <seconds> <instance> <node> <cores> or STOP <seconds> <instance>")
        case _:
            raise BadValueError(f"unknown keyword {words[0][:40]!r}")


def _id(text: str) -> str:
    if not text.isprintable():
        raise BadValueError("the instance id has unprintable characters")
    return text


def _trace(name: str, starts: list[_Start]) -> Trace:
    begun = [max(s.start_s, 0.0) for s in starts]
    last_s = max([*begun, *(s.stop_s for s in starts if s.stop_s is not None)], default=0.0)
    return Trace.checked(
        name,
        [s.instance for s in starts],
        begun,
        [last_s if s.stop_s is None else s.stop_s for s in starts],
        [s.cores for s in starts],
        left_truncated=[s.start_s < 0 for s in starts],
        right_censored=[s.stop_s is None for s in starts],
    )


def _edges(starts: list[_Start]) -> tuple[str, ...]:
    """Warn of several starts at 0 or stops at the very end: most likely the log's edges, not events."""
    at_begin = sum(s.start_s == 0 for s in starts)
    stops = [s.stop_s for s in starts if s.stop_s is not None]
    at_end = stops.count(max(stops, default=0.0))
    warnings = []
    if at_begin > 1:
        warnings.append(
            f"{at_begin} instances start at 0, probably running before; their times are taken as written."
        )
    if at_end > 1:
        warnings.append(
            f"{at_end} instances stop at the last timestamp, probably closed by the end of the log."
        )
    return tuple(warnings)


def _is_record(words: list[str]) -> bool:
    return len(words) >= 3 and words[0] in ("START", "STOP")


FORMAT = TraceFormat("Eucalyptus START/STOP log", parse, is_record=_is_record)
