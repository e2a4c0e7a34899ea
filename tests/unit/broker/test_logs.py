"""Logs: one form for all of a process, and the id of a call on its way from the API to an owner."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from broker.contract import (
    Cancel,
    Command,
    Confirm,
    EventKind,
    LeaseGranted,
    RefusalView,
    Reply,
    Reserve,
    commands,
    write_messages,
)
from broker.journal.inbox import MalformedCommand
from broker.observability import logging as logs
from broker.observability import request_id
from broker.settings import Settings
from cloudsim.model.refusals import RefusalReason
from tests.unit.broker.test_ledger import event
from workers.owner.request_log import RequestLogger


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """What a test sets up for the whole process is undone."""
    root, level, handlers = logging.getLogger(), logging.getLogger().level, logging.getLogger().handlers[:]
    levels = {name: logging.getLogger(name).level for name in ("broker", "uvicorn")}
    call = request_id._current.set(None)
    yield
    request_id._current.reset(call)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.setLevel(level)
    root.handlers[:] = handlers
    for name, one in levels.items():
        logging.getLogger(name).setLevel(one)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def entries(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_kinds_of_loggers_write_json_with_what_is_bound() -> None:
    stream = io.StringIO()
    logs.configure(Settings(), stream)
    structlog.contextvars.bind_contextvars(request_id="r-1")
    structlog.get_logger("workers.x").info("open", cloud="A")
    logging.getLogger("broker.x").info("of %s", "B")
    logging.getLogger("uvicorn.error").warning("bad", extra={"color_message": "very bad", "port": 80})
    logging.getLogger("httpx").info("others speak only where something is wrong")
    logging.getLogger("broker.x").debug("below the level")
    found = entries(stream)
    assert [one["event"] for one in found] == ["open", "of B", "bad"]
    assert [one["level"] for one in found] == ["info", "info", "warning"]
    assert {one["request_id"] for one in found} == {"r-1"}
    assert list(found[0])[:4] == ["timestamp", "level", "event", "request_id"]
    assert found[1]["logger"] == "broker.x"
    assert (found[2]["port"], "color_message" in found[2]) == (80, False)


def test_an_exception_is_one_line_without_the_values_of_variables() -> None:
    for stream, form in ((io.StringIO(), "json"), (Terminal(), "console")):
        logs.configure(Settings(log_format=form), stream)
        secret = "-".join(["s3", "cret"])
        try:
            int("x" if secret else "y")
        except ValueError:
            structlog.get_logger().exception("broke")
            logging.getLogger("broker").exception("broke")
        assert "ValueError" in stream.getvalue()
        assert secret not in stream.getvalue()
        if form == "json":
            assert len(entries(stream)) == 2


def test_people_on_a_terminal_get_words_and_colours_unless_they_want_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for no_color, told in (("", "\x1b["), ("1", None)):
        monkeypatch.setenv("NO_COLOR", no_color)
        stream = Terminal()
        logs.configure(Settings(), stream)
        structlog.get_logger().info("open", cloud="A")
        assert not stream.getvalue().startswith("{")
        assert ("\x1b[" in stream.getvalue()) == (told is not None)


def test_a_level_below_ours_is_not_written() -> None:
    stream = io.StringIO()
    logs.configure(Settings(log_level="WARNING"), stream)
    structlog.get_logger().info("quiet")
    logging.getLogger("broker").info("quiet")
    assert stream.getvalue() == ""


# -- the id of a call ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["a", "0f3c-9", "Root=1-67891233-abcdef", "x" * 64])
def test_an_id_of_the_caller_is_taken(given: str) -> None:
    assert request_id.begin(given) == given
    assert request_id.current() == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "a b", "a\n", 'a"b', "ä", "a/b", "{}"])
def test_another_is_made_where_it_is_none(given: str | None) -> None:
    made = request_id.begin(given)
    assert made != given
    assert request_id.begin(made) == made
    assert request_id.begin(given) != made


def told_together(count: int) -> list[Confirm]:
    return [Confirm(id=f"{number}", attempt=f"a.{number}") for number in range(count)]


def test_the_first_of_commands_that_go_together_names_the_call() -> None:
    calls = ["r-1", "r-1", "r-2", None, "r-2"]
    batch = request_id.traced(zip(told_together(5), calls, strict=True))
    assert [one.trace for one in batch] == ["r-1", None, "r-2", None, "r-2"]
    (first, *_) = commands.validate_json(write_messages(batch))
    assert first.trace == "r-1"
    assert request_id.traced([]) == []


def reserve(trace: str | None, number: int = 1) -> Reserve:
    return Reserve(
        id=f"j.{number}:reserve",
        attempt=f"j.{number}",
        request="j",
        origin="B",
        cores=1,
        lifetime_s=60,
        sla=None,
        trace=trace,
    )


def granted(number: int = 1) -> Reply:
    lease = event(1, EventKind.ADMITTED, "j.1").lease
    assert lease is not None
    return Reply(command=f"j.{number}:reserve", answer=LeaseGranted(lease=lease))


def refused(number: int = 2) -> Reply:
    answer = RefusalView(cloud="A", reason=RefusalReason.NO_CAPACITY)
    return Reply(command=f"j.{number}:reserve", answer=answer)


def test_an_owner_writes_one_line_an_entry_when_it_is_committed() -> None:
    stream = io.StringIO()
    logs.configure(Settings(), stream)
    request_log = RequestLogger("A")
    batch = [reserve("r-1"), *(reserve(None, number) for number in range(2, 201))]
    replies = [granted(number) if number <= 150 else refused(number) for number in range(1, 201)]
    request_log.note(batch, [("p", reply) for reply in replies])
    assert stream.getvalue() == ""
    request_log.write()
    request_log.write()
    (line,) = entries(stream)
    assert line["answers"] == {"running": 150, "no_capacity": 50}
    assert (line["request_id"], line["cloud"], line["commands"]) == ("r-1", "A", 200)
    assert line["command"] == "j.1:reserve"


def test_calls_that_share_an_entry_have_a_line_each() -> None:
    stream = io.StringIO()
    logs.configure(Settings(), stream)
    request_log = RequestLogger("A")
    batch: list[Command | MalformedCommand] = [reserve("r-1"), reserve("r-2", 2), reserve(None, 3)]
    batch.append(MalformedCommand("?"))
    request_log.note(batch, [("p", granted()), ("p", refused(2)), ("p", granted(3))])
    request_log.write()
    first, second = entries(stream)
    assert (first["request_id"], first["commands"], first["answers"]) == ("r-1", 1, {"running": 1})
    assert (second["request_id"], second["commands"]) == ("r-2", 3)
    assert second["answers"] == {"no_capacity": 1, "running": 1}


def test_what_belongs_to_no_call_or_did_not_happen_is_not_told() -> None:
    stream = io.StringIO()
    logs.configure(Settings(), stream)
    request_log = RequestLogger("A")
    request_log.note([reserve(None)], [("p", granted())])
    request_log.note([], [])
    request_log.note([MalformedCommand("?")], [])
    request_log.note([Cancel(id="c", lease="j.1", by="x", trace="r-2")], [])  # nobody waits for the answer
    request_log.write()
    request_log.note([reserve("r-3")], [("p", granted())])
    request_log.forget()
    request_log.write()
    assert stream.getvalue() == ""
