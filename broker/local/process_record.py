"""The file from which commands learn the processes of a federation here, and the address of its API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from broker.local.process_list import ProcessList
from broker.local.state_files import load_record, record_file
from broker.local.supervisor import Child
from broker.storage.private_files import write_private_file

#: The time at which a process started is computed from the machine's clock, which may be corrected since.
_CLOCK_STEP_S = 60.0


def write_record(state_dir: Path, processes: ProcessList, children: Sequence[Child]) -> None:
    """Replace the record of a federation that this process supervises. Raises OSError."""
    supervisor = psutil.Process()
    record = {
        "url": processes.url,
        "federation": str(processes.federation),
        "supervisor": supervisor.pid,
        "supervisor_started_s": supervisor.create_time(),
        "processes": [
            {
                "name": child.process.name,
                "pid": None if child.running is None else child.running.pid,
                "restarts": child.restarts,
                "log": str(child.log),
                "clouds": child.process.clouds,
            }
            for child in children
        ],
    }
    # Whoever can change it says where commands send the API key.
    write_private_file(record_file(state_dir), json.dumps(record, indent=2))


def read_record(state_dir: Path) -> dict[str, Any] | None:
    """Return the record of a federation; None if none has been started here, or it was stopped."""
    record = load_record(state_dir)
    return record if "supervisor" in record else None


def is_supervised(record: Mapping[str, Any]) -> bool:
    """Return True if the process that wrote a record still runs; another one may have its number by now."""
    try:
        supervisor = psutil.Process(record["supervisor"])
        apart_s = supervisor.create_time() - record.get("supervisor_started_s", supervisor.create_time())
        return abs(apart_s) < _CLOCK_STEP_S and supervisor.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
