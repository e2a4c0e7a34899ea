"""Log lines and spans about API calls: what a cloud answered to each, once that is committed.

There is one for each call in an entry of the inbox, not for each command: a list of 5,000 requests is 25
entries, and an entry holds the commands of all calls that came to the broker together. Commands without a
reply (confirmations) are logged at the level DEBUG.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import structlog

from broker.contract import Command, LeaseGranted, RefusalView, Reply
from broker.journal.inbox import MalformedCommand
from broker.observability.spans import Spans

log = structlog.get_logger(__name__)


class RequestLogger:
    """Notes what became of the commands of one owner, and logs it after the commit.

    A span lasts from the decision to the commit, and goes by the kind of its call's first command.
    """

    def __init__(self, cloud: str, spans: Spans | None = None):
        self._cloud, self._spans = cloud, spans
        # Kind of command, time of the decision (nanoseconds since 1970), and what to log.
        self._lines: list[tuple[str, int, dict[str, Any]]] = []

    def note(
        self, commands: Sequence[Command | MalformedCommand], replies: Sequence[tuple[str, Reply]]
    ) -> None:
        """Note the commands of an inbox entry, or of the rest of one, and the replies to them."""
        now_ns = time.time_ns()
        lines: dict[str, dict[str, Any]] = {}  # by command
        line: dict[str, Any] | None = None
        for command in commands:
            if not isinstance(command, MalformedCommand) and command.trace is not None:
                line = {"request_id": command.trace, "command": command.id, "commands": 0}
                self._lines.append((command.kind, now_ns, line))
            if line is not None:
                line["commands"] += 1
                if not isinstance(command, MalformedCommand):
                    lines[command.id] = line
        for _, reply in replies:
            if reply.command in lines:
                answers = lines[reply.command].setdefault("answers", Counter())
                answers[_answer_word(reply)] += 1

    def write(self) -> None:
        """Log everything noted, for it is committed."""
        for kind, began_ns, line in self._lines:
            if "answers" in line:
                log.info("answered", cloud=self._cloud, **line)
            else:
                log.debug("told", cloud=self._cloud, **line)
            if self._spans is not None:
                about = {f"spotfed.{name}": value for name, value in line.items() if name != "answers"}
                about |= {f"spotfed.answers.{word}": n for word, n in line.get("answers", {}).items()}
                self._spans.send_answer(line["request_id"], f"{self._cloud} {kind}", began_ns, about)
        self._lines.clear()

    def forget(self) -> None:
        """Forget everything noted, for it did not happen."""
        self._lines.clear()


def _answer_word(reply: Reply) -> str:
    match reply.answer:
        case LeaseGranted(lease=lease):
            return lease.state.value
        case RefusalView() as refusal:
            return refusal.reason.value
        case other:
            return other.answer
