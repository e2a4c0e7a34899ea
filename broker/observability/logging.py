"""Configures the log of a process: one entry a line on standard error.

An entry is JSON, or text for people on a terminal. structlog and the standard library write the same form,
with the fields that are bound to the present context.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

from broker.settings import Settings, no_color

#: Loggers of the standard library that log from ``Settings.log_level`` on; others only warn.
_OURS = ("broker", "uvicorn")
_FIRST = ("timestamp", "level", "event", "request_id")


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging. ``stream`` is standard error by default."""
    stream = sys.stderr if stream is None else stream
    level = logging.getLevelNamesMapping()[settings.log_level]
    first: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last = _make_renderers(settings, stream)
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    # No entry names them, and to find them out takes as long as to write one.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                _drop_color_message,
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


def _drop_color_message(_: object, __: str, entry: EventDict) -> EventDict:
    """Drop the coloured copy of a message, which uvicorn adds."""
    entry.pop("color_message", None)
    return entry


def _sort_fields(_: object, __: str, entry: EventDict) -> EventDict:
    """Sort the fields of an entry: first time, level and event."""
    return {name: entry[name] for name in _FIRST if name in entry} | dict(entry)


def _make_renderers(settings: Settings, stream: TextIO) -> list[Any]:
    """Return the processors that turn an entry into text."""
    format_name = settings.log_format or ("console" if stream.isatty() else "json")
    if format_name == "json":
        return [structlog.processors.format_exc_info, _sort_fields, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty() and not no_color(),
            # rich would show the values of variables beside each line, and some are secrets.
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]
