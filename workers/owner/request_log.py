"""Log lines about API calls, and spans: what a cloud answered to each, after it is committed.

One an entry of the inbox, not a command: a list of 5,000 requests is 25 entries. What nobody waits for
(confirmations) is told at the level DEBUG.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import structlog

from broker.contract import Command, LeaseGranted, RefusalView, Reply
from broker.inbox import Malformed
from broker.telemetry import Spans

log = structlog.get_logger(__name__)


class RequestLog:
    """Of one owner: notes what became of commands, and tells it when it is so.

    A span lasts from the decision to the commit, and goes by the kind of its entry's first command.
    """

    def __init__(self, cloud: str, spans: Spans | None = None):
        self._cloud, self._spans = cloud, spans
        # Kind of command, since when (nanoseconds since 1970), and what there is to tell.
        self._lines: list[tuple[str, int, dict[str, Any]]] = []

    def note(self, commands: Sequence[Command | Malformed], replies: Sequence[tuple[str, Reply]]) -> None:
        """An entry was handled, or the rest of one: its commands, and the answers to them."""
        first = commands[0] if commands else None
        if first is None or isinstance(first, Malformed) or first.trace is None:
            return
        line: dict[str, Any] = {"request_id": first.trace, "command": first.id, "commands": len(commands)}
        answers = Counter(_word(reply) for _, reply in replies)
        line |= {"answers": dict(answers)} if answers else {}
        self._lines.append((first.kind, time.time_ns(), line))

    def tell(self) -> None:
        """What was noted is committed."""
        for kind, began_ns, line in self._lines:
            if "answers" in line:
                log.info("answered", cloud=self._cloud, **line)
            else:
                log.debug("told", cloud=self._cloud, **line)
            if self._spans is not None:
                about = {f"spotfed.{name}": value for name, value in line.items() if name != "answers"}
                about |= {f"spotfed.answers.{word}": n for word, n in line.get("answers", {}).items()}
                self._spans.answer(line["request_id"], f"{self._cloud} {kind}", began_ns, about)
        self._lines.clear()

    def forget(self) -> None:
        """What was noted did not happen."""
        self._lines.clear()


def _word(reply: Reply) -> str:
    match reply.answer:
        case LeaseGranted(lease=lease):
            return lease.state.value
        case RefusalView() as refusal:
            return refusal.reason.value
        case other:
            return other.answer
