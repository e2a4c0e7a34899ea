"""Errors that a request can meet instead of an answer."""

from __future__ import annotations

from collections.abc import Sequence


class SubmitError(Exception):
    """The base of all errors of a submission.

    SubmitError
    ├── InFlightError       another call with this id has not been answered yet
    ├── ReusedError         the id was used with another body
    ├── UnsuitableError     the request does not suit the federation; names the field
    ├── SilentError         trace time: an owner that must be waited for did not answer
    ├── SetAsideError       an owner failed on the command and has put it aside
    └── NoMembersError      no cloud has joined the federation
    """


class InFlightError(SubmitError):
    """Another call with this id has not been answered yet."""


class ReusedError(SubmitError):
    """The id was used with another body."""


class UnsuitableError(SubmitError):
    """The request does not suit the federation. ``field`` is the one to change."""

    def __init__(self, name: str, message: str):
        self.field = name
        super().__init__(message)


class SilentError(SubmitError):
    """An owner in trace time, which must be waited for, did not answer."""

    def __init__(self, clouds: Sequence[str]):
        self.clouds = ", ".join(clouds)
        super().__init__(f"no answer from {self.clouds}")


class SetAsideError(SubmitError):
    """An owner failed on a command: it is a dead letter now, and not carried out."""

    def __init__(self, cloud: str):
        self.cloud = cloud
        super().__init__(f"the owner of {cloud} has set the command aside")


class NoMembersError(SubmitError):
    """No cloud has joined the federation."""
