"""Read pods of Kubernetes, JSON as ``kubectl get pods --all-namespaces -o json`` prints them."""

from __future__ import annotations

from collections.abc import Sequence
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
from cloudsim.traces.formats.parse_result import BadValueError, NeverRanError, Parsed, parse_parts
from cloudsim.traces.formats.source import Source
from cloudsim.traces.formats.trace_format import TraceFormat

_GONE = ("Succeeded", "Failed")
#: Suffix of a quantity → number of them that make one core.
_PER_CORE = {"m": 1e3, "u": 1e6, "n": 1e9, "k": 1e-3}


def parse(source: Source) -> Parsed:
    """Read one pod a record, on the processors that its containers request.

    It runs from the time at which its node took it until its last container ended.

    Raises
    ------
    TraceError
        When it is no list of pods.
    """
    document = load_json(source)
    pods = document.get("items") if isinstance(document, dict) else None
    if not isinstance(pods, list) or not all(isinstance(pod, dict) for pod in pods):
        raise TraceError("is no list of pods", file=source.file)
    return build_trace(source, enumerate(pods, start=1), _read, zone=UTC)


def _read(pod: dict[str, Any], clock: WallClock) -> AccountingRecord:
    try:
        about, spec, status = pod["metadata"], pod["spec"], pod["status"]
        name = f"{about.get('namespace', 'default')}/{about['name']}"
        first = [_cores([container]) for container in spec.get("initContainers") or ()]
        cores = max(_cores(spec["containers"]), *first, 0.0)  # first containers run one after the other
        states = [container["state"] for container in status.get("containerStatuses") or ()]
        ends = [state["terminated"]["finishedAt"] for state in states if "terminated" in state]
        phase, started_at = status.get("phase"), status.get("startTime")
    except (KeyError, TypeError, AttributeError) as error:
        raise BadValueError(f"is no pod with metadata, spec.containers and status ({error!r})") from None
    if phase in _GONE and not ends:
        raise NeverRanError("it ended at a time that the cluster does not say")
    flat = {"name": name, "cpu": cores, "startTime": started_at, "end": max(ends) if phase in _GONE else None}
    return read_run(flat, clock, id="name", start="startTime", end="end", cores="cpu", per_core=1.0)


def _cores(containers: Sequence[dict[str, Any]]) -> float:
    """Return the processors that containers request together, in cores."""
    cores = 0.0
    for container in containers:
        text = str(((container.get("resources") or {}).get("requests") or {}).get("cpu", "0"))
        per_core = _PER_CORE.get(text[-1:], 1.0)
        cores += parse_parts(text[:-1] if text[-1:] in _PER_CORE else text, "requests.cpu", per_core)
    return cores


FORMAT = TraceFormat("pods of Kubernetes (kubectl get pods), JSON", parse, marker='"containers"')
