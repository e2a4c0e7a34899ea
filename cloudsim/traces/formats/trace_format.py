"""A format of trace files, as its module declares it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cloudsim.traces.formats.parse_result import Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.trace import Trace

#: Writes a trace to a path.
Writer = Callable[[Trace, str | os.PathLike[str]], None]


@dataclass(frozen=True)
class TraceFormat:
    """Declares a text format: each module of this package that has a ``FORMAT`` is one, by the module's name.

    A file is in the format if its header has at least ``columns``, if it holds the ``marker``, or else if one
    of its first lines is a record.

    Attributes
    ----------
    title
        Name for people.
    parse
        Reader.
    columns
        Columns that the header of a CSV format has at least; none for other formats.
    marker
        Text that only JSON of this format holds; none for other formats.
    is_record
        Whether a line, split at white space, is a record of the format.
    writers
        Writers by ending of a file's name, for formats that can be written.
    """

    title: str
    parse: Callable[[Source], Parsed]
    columns: tuple[str, ...] = ()
    marker: str = ""
    is_record: Callable[[list[str]], bool] = lambda words: False  # noqa: ARG005
    writers: Mapping[str, Writer] = field(default_factory=dict)
