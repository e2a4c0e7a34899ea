"""Limits what one member may have under way in an API process: calls, event streams and bytes of bodies.

A process that serves many members stays fair, and its memory bounded, whatever one of them does. The counts
are not shared between processes, as those of ``broker.api.auth.CallRateLimit`` are not.
"""

from __future__ import annotations

from collections import Counter

from broker.api.middleware import add_log_fields
from broker.api.problems import ProblemError, too_many_bytes, too_many_open_calls, too_many_streams
from broker.settings import Settings

_MIB = 2**20


class OpenCall:
    """A call under way: it counts for its member until it ends (``end``), or becomes an event stream."""

    def __init__(self, limits: CallLimits, holder: str):
        self._limits, self._holder, self._bytes = limits, holder, 0
        self.body_timeout_s = limits.body_timeout_s
        self._counted = limits.calls

    def become_stream(self) -> None:
        """Count as an event stream instead. Raises ProblemError (429) if the member has too many."""
        limits = self._limits
        if limits.streams[self._holder] >= limits.most_streams:
            raise _refuse("event streams", too_many_streams(limits.most_streams))
        limits.streams[self._holder] += 1
        self._release(limits.calls)
        self._counted = limits.streams

    def hold_bytes(self, count: int) -> None:
        """Hold further bytes of the call's body until it ends.

        Raises
        ------
        ProblemError
            When the member or the process would hold too many (429).
        """
        limits = self._limits
        for what, held, most in (
            ("bytes of the member", limits.bytes[self._holder], limits.most_member_bytes),
            ("bytes of the process", limits.all_bytes, limits.most_bytes),
        ):
            if held + count > most:
                raise _refuse(what, too_many_bytes(most))
        limits.bytes[self._holder] += count
        limits.all_bytes += count
        self._bytes += count

    def end(self) -> None:
        """Count no longer."""
        limits = self._limits
        limits.all_bytes -= self._bytes
        self._release(limits.bytes, self._bytes)
        self._release(self._counted)

    def _release(self, counts: Counter[str], count: int = 1) -> None:
        counts[self._holder] -= count
        if not counts[self._holder]:
            del counts[self._holder]


class CallLimits:
    """Counts what the members have under way, by holder."""

    def __init__(self, settings: Settings):
        self.most_calls, self.most_streams = settings.open_calls, settings.open_streams
        self.body_timeout_s = settings.body_timeout_s
        self.most_bytes, self.most_member_bytes = _MIB * settings.body_mib, _MIB * settings.member_body_mib
        self.calls: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.all_bytes = 0

    def open_call(self, holder: str) -> OpenCall:
        """Count a call of a member until its ``end``. Raises ProblemError (429) if it has too many."""
        if self.calls[holder] >= self.most_calls:
            raise _refuse("calls under way", too_many_open_calls(self.most_calls))
        self.calls[holder] += 1
        return OpenCall(self, holder)


def _refuse(what: str, problem: ProblemError) -> ProblemError:
    """Return the problem, and add to the log line of the call what ran out."""
    add_log_fields(ran_out=what)
    return problem
