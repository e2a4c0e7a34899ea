"""Logs of a process: one entry a line on standard error, as JSON, or for people on a terminal.

structlog and the standard library write the same form, with what is bound to the present context.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

from broker.settings import Settings, no_color

#: Loggers of the standard library that say what ``Settings.log_level`` allows; others only warn.
_OURS = ("broker", "uvicorn")
_FIRST = ("timestamp", "level", "event", "request_id")


def configure(told: Settings, stream: TextIO | None = None) -> None:
    """Sets both up for this process. ``stream``: standard error, if it is not named."""
    stream = sys.stderr if stream is None else stream
    level = logging.getLevelNamesMapping()[told.log_level]
    first: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last = _last(told, stream)
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                _once,
                *first,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(logging.WARNING, level), force=True)
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers, logger.propagate = [], True  # uvicorn may have given it its own


def _once(_: object, __: str, entry: EventDict) -> EventDict:
    """uvicorn says everything again in colours."""
    entry.pop("color_message", None)
    return entry


def _in_order(_: object, __: str, entry: EventDict) -> EventDict:
    """When, how bad and what come first."""
    return {name: entry[name] for name in _FIRST if name in entry} | dict(entry)


def _last(told: Settings, stream: TextIO) -> list[Any]:
    form = told.log_format or ("console" if stream.isatty() else "json")
    if form == "json":
        return [structlog.processors.format_exc_info, _in_order, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty() and not no_color(),
            # Not the values of variables beside each line, which rich would show: some are secrets.
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]
