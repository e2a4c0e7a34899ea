"""Defines checks and their results, and runs a check with a limit of time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import redis

from broker.doctor.installation import Installation, NoAnswerError, SkipCheckError

#: Longer than all time-outs of the connections of one check together.
CHECK_TIMEOUT_S = 20.0


class State(StrEnum):
    """The state of an installation in one check.

    A warning leaves the judgement to a person; after a failure something does not work, or not safely.
    """

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes
    ----------
    name
        Name of the check, or of the one thing among several that the result is about, like ``owner harbour``.
    state
        State of what was checked.
    found
        Sentence about what was found.
    advice
        Sentence about what to do; empty if nothing is to be done.
    """

    name: str
    state: State
    found: str
    advice: str = ""


def ok(found: str, advice: str = "", *, name: str = "") -> CheckResult:
    """Return the result that all is well; ``advice`` is then a hint. Without a name it gets the check's."""
    return CheckResult(name, State.OK, found, advice)


def warning(found: str, advice: str, *, name: str = "") -> CheckResult:
    """Return the result that it works, but that a person should look at it."""
    return CheckResult(name, State.WARNING, found, advice)


def failure(found: str, advice: str, *, name: str = "") -> CheckResult:
    """Return the result that it does not work, or that leases or journals may be lost."""
    return CheckResult(name, State.FAILURE, found, advice)


Judge: TypeAlias = Callable[[Installation], CheckResult | Iterable[CheckResult]]


@dataclass(frozen=True)
class Check:
    """One check of an installation: a function that fetches what it needs and judges it. See ``check``."""

    name: str
    judge: Judge

    def __call__(self, installation: Installation) -> list[CheckResult]:
        """Return the results. Raises what the function raises."""
        results = self.judge(installation)
        if isinstance(results, CheckResult):
            results = [results]
        return [replace(result, name=result.name or self.name) for result in results]

    def run(self, installation: Installation, timeout_s: float = CHECK_TIMEOUT_S) -> list[CheckResult]:
        """Return the results; a check that hangs, or that a server turns away, has failed.

        Connections have shorter time-outs of their own. ``timeout_s`` also covers what has none, like a
        directory on a network file system.
        """
        running: Future[list[CheckResult]] = Future()

        def run() -> None:
            try:
                running.set_result(self(installation))
            except BaseException as error:  # noqa: BLE001  (raised below, in the thread that asked)
                running.set_exception(error)

        # Not an executor: Python would wait for its threads before it exits, and this one may never end.
        threading.Thread(target=run, name=f"check {self.name}", daemon=True).start()
        try:
            return running.result(timeout_s)
        except SkipCheckError:
            return []
        except NoAnswerError as error:
            result = failure(f"it does not answer: {error}", "look into its log", name=self.name)
        except redis.RedisError as error:
            if isinstance(error, redis.ConnectionError | redis.TimeoutError):
                del installation.redis_server  # so that no other check waits for it
            prefix = installation.settings.key_prefix
            advice = f"look at the rights of this user on keys that begin with {prefix}"
            result = failure(f"what it needs in Redis cannot be read: {error}", advice, name=self.name)
        except TimeoutError:
            advice = "look at the disk, server or network that it waits for"
            result = failure(f"there is no answer within {timeout_s:g} s", advice, name=self.name)
        except OSError as error:
            advice = "correct it, or let a user check who may look there"
            result = failure(f"it cannot be checked: {error}", advice, name=self.name)
        return [result]


def check(name: str) -> Callable[[Judge], Check]:
    """Make a check of a function; ``name`` is that of its results.

    The function returns one result or yields several, or none if there is nothing to judge. It may raise
    SkipCheckError, NoAnswerError or redis.RedisError.
    """
    return lambda judge: Check(name, judge)
