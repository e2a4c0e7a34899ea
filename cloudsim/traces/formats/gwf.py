"""Read the Grid Workload Format of the Grid Workloads Archive (Iosup et al.).

A job is 29 blank-separated fields, or 30, of which the first eleven are those of ``swf``; lines that begin
with ``#`` are comments. Submit times are Unix time in most logs.
"""

from __future__ import annotations

from functools import partial

from cloudsim.traces.formats import swf
from cloudsim.traces.formats.trace_format import TraceFormat

FIELDS = (29, 30)
_NUMBERS = 11


def _is_record(words: list[str]) -> bool:
    return len(words) in FIELDS and all(swf.is_number(word) for word in words[:_NUMBERS])


FORMAT = TraceFormat(
    "grid log in the Grid Workload Format (GWF)",
    partial(swf.parse, fields=FIELDS, comment="#"),
    is_record=_is_record,
)
