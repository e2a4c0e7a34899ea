"""All errors that cloudsim raises.

    CloudsimError
    ├── InputError                  bad input from a person; carries file and line, or field
    │   ├── TraceError              a trace or price history cannot be read or is too damaged to use
    │   └── SpecError               a federation file, node shape or parameter is wrong
    └── NoTableError                a quantile was asked of a table that does not hold it

A *refusal* (no room, risk too high) is never an error: it is a value, see
``cloudsim.model.refusals.Refusal``. An impossible state is an ``assert``.
"""

from __future__ import annotations


class CloudsimError(Exception):
    """The base of all errors of this package."""


class InputError(CloudsimError):
    """The input of a person is wrong. The message says where, and what is accepted.

    file, line, field: where the input stands, as far as that is known.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, field: str | None = None
    ):
        self.message, self.file, self.line, self.field = message, file, line, field
        super().__init__(self._text())

    def _text(self) -> str:
        place = ""
        if self.file is not None:
            place = f"{self.file}:{self.line}: " if self.line is not None else f"{self.file}: "
        if self.field is not None:
            place += f"{self.field}: "
        return place + self.message


class TraceError(InputError):
    """A file of a trace or of prices cannot be read, or too many of its lines are damaged."""


class SpecError(InputError):
    """A federation file, a node shape or a parameter is wrong."""


class NoTableError(CloudsimError):
    """A quantile or risk was asked of a size that the table does not hold."""
