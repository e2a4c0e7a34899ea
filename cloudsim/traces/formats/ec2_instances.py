"""Read instances of the EC2 API, JSON as ``aws ec2 describe-instances`` prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from cloudsim.model.errors import TraceError
from cloudsim.traces.formats.accounting_records import (
    AccountingRecord,
    WallClock,
    build_trace,
    load_json,
    read_run,
)
from cloudsim.traces.formats.parse_result import BadValueError, NeverRanError, Parsed
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

_GONE = ("terminated", "stopped")
#: When a user or the cloud ended an instance, in the text that says why.
_ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


def parse(source: Source) -> Parsed:
    """Read one instance a record. Its cores are those of CpuOptions.

    One that ended at a time that the cloud does not say is counted, and not part of the trace.

    Raises
    ------
    TraceError
        When it is no such document.
    """
    document = load_json(source)
    try:
        instances = list(_instances(document))
    except (TypeError, KeyError):
        raise TraceError("is no list of Reservations with their Instances", file=source.file) from None
    return build_trace(source, enumerate(instances, start=1), _read, zone=UTC)


def _instances(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for reservation in document["Reservations"]:
        yield from reservation["Instances"]


def _read(instance: dict[str, Any], clock: WallClock) -> AccountingRecord:
    try:
        state, options = str(instance["State"]["Name"]), instance["CpuOptions"]
        cores = int(options["CoreCount"]) * int(options["ThreadsPerCore"])
    except (KeyError, TypeError, ValueError):
        raise BadValueError("it has no State, or no CpuOptions with CoreCount and ThreadsPerCore") from None
    ended = _ENDED_AT.search(str(instance.get("StateTransitionReason") or ""))
    if state in _GONE and ended is None:
        raise NeverRanError("it ended at a time that the cloud does not say")
    flat = {**instance, "cores": cores, "end": ended[1] if ended is not None and state in _GONE else None}
    return read_run(flat, clock, id="InstanceId", start="LaunchTime", end="end", cores="cores")


FORMAT = TraceFormat("instances of EC2 (describe-instances), JSON", parse, marker='"Reservations"')
