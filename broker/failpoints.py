"""Kills a process at a named place, for tests which prove that nothing depends on where it dies.

    SPOTFED_FAILPOINT=owner-committing/reserved    dies when it would commit a reservation for the first time
    SPOTFED_FAILPOINT=broker-accepted:3            dies the third time that it passes the place
    SPOTFED_FAILPOINT=stop@broker-deciding         stops there (SIGSTOP) until it is continued (SIGCONT)

Dying is SIGKILL: no handler runs, nothing is flushed. Switched off, which is the default, a place costs one
look at an attribute. A process with a failpoint says so loudly when it starts, and ``spotfed doctor`` reports
a failure: no process that anybody relies on should have one.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

log = logging.getLogger(__name__)

_PATTERN = re.compile(
    r"(?P<stop>stop@)?(?P<name>[a-z-]+)(?:/(?P<about>[a-z_]+))?(?::(?P<count>[1-9]\d{0,6}))?"
)


class Failpoint(StrEnum):
    """A place at which a process can die."""

    BROKER_ACCEPTING = "broker-accepting"  # a request came; nothing of it is stored
    BROKER_ACCEPTED = "broker-accepted"  # it is stored, and its first attempt is in the owner's inbox
    BROKER_DECIDING = "broker-deciding"  # the owner answered; nothing is decided
    BROKER_DECIDED = "broker-decided"  # it is decided, and the owner is told so; the user is not
    BROKER_CLOSING = "broker-closing"  # all clouds refused; that is not stored
    BROKER_CLOSED = "broker-closed"  # it is stored, and the user was not told
    BROKER_SENDING = "broker-sending"  # any other command (an end, an extension) is about to be sent
    BROKER_SENT = "broker-sent"  # it is in the owner's inbox; nobody was told
    WEBHOOK_SENT = "webhook-sent"  # the receiver has it; that is not noted
    OWNER_ACQUIRED = "owner-acquired"  # it is the owner and has opened an epoch; it has not recovered
    OWNER_COMMITTING = "owner-committing"  # decided and not committed; about: kinds of its events
    OWNER_COMMITTED = "owner-committed"  # committed, published and answered in Redis, not in the archive
    OWNER_MERGED = "owner-merged"  # a new table is merged and not published
    OWNER_SECURED = "owner-secured"  # a snapshot is on the disk, and the journal not cut
    SAMPLER_MADE = "sampler-made"  # samples are made and not handed in


@dataclass
class _Armed:
    """The failpoint of this process. ``left`` counts the passes until it acts, including that one."""

    point: Failpoint
    about: str | None
    left: int
    stop: bool


class _Process:
    """Holds the failpoint of this process."""

    armed: _Armed | None = None


def failpoint(point: Failpoint, about: Iterable[str] = ()) -> None:
    """Die or stop if this place is the failpoint of the process.

    ``about`` are words that distinguish this pass from others.
    """
    armed = _Process.armed
    if armed is None or armed.point is not point or (armed.about is not None and armed.about not in about):
        return
    armed.left -= 1
    if armed.left == 0:
        log.critical("failpoint %s: process %d %s", point, os.getpid(), "stops" if armed.stop else "dies")
        os.kill(os.getpid(), signal.SIGSTOP if armed.stop else signal.SIGKILL)


def arm(text: str | None) -> None:
    """Set the failpoint of this process to ``text``, in the form of ``SPOTFED_FAILPOINT``; None for none.

    Raises
    ------
    ValueError
        When the text is malformed.
    """
    _Process.armed = None if text is None else _parsed(text)
    if text is not None:
        log.critical("SPOTFED_FAILPOINT=%s: this process KILLS OR STOPS ITSELF there; unset it", text)


def checked(text: str) -> str:
    """Return ``text`` if it names a failpoint.

    Raises
    ------
    ValueError
        When it does not; the message says what is accepted.
    """
    _parsed(text)
    return text


def _parsed(text: str) -> _Armed:
    match = _PATTERN.fullmatch(text)
    if match is None or match["name"] not in list(Failpoint):
        raise ValueError(f"must be [stop@]NAME[/ABOUT][:COUNT]; the names are {', '.join(Failpoint)}")
    return _Armed(Failpoint(match["name"]), match["about"], int(match["count"] or 1), bool(match["stop"]))
