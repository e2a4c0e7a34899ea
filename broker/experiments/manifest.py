"""The manifest of a result: everything that must be equal for the same rows to come out again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cloudsim
from cloudsim.experiments.experiment import Case, Row


@cache
def source_digest() -> str:
    """Return the SHA-256 of cloudsim's source in hexadecimal: other code gives another result."""
    root = Path(cloudsim.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@cache
def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def missing(case: Case, data: Path | None) -> list[str]:
    """Return the files that a case needs and that are not there."""
    return [name for name in case.needs if data is None or not (data / name).is_file()]


def data_digests(cases: Iterable[Case], data: Path | None) -> dict[str, str]:
    """Return name → digest of all files that the cases need and that are there."""
    names = sorted({name for case in cases for name in case.needs})
    return {name: file_digest(data / name) for name in names if data is not None and (data / name).is_file()}


def case_digest(case: Case, data: Path | None) -> str:
    """Return the name under which a finished case is kept: a digest of everything that its rows depend on."""
    key = {
        "function": f"{case.function.__module__}.{case.function.__qualname__}",
        "name": case.name,
        "options": dict(case.options),
        "data": data_digests([case], data),
        "source": source_digest(),
        "numpy": version("numpy"),  # its random streams may change between versions
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def manifest(
    name: str, *, quick: bool, cases: Sequence[Case], rows: Sequence[Row], data: Path | None
) -> dict[str, Any]:
    """Return the manifest of a result, without the times and counts that only the run knows."""
    return {
        "command": f"spotfed experiment {name}" + (" --quick" if quick else ""),
        "quick": quick,
        "seeds": sorted({row["seed"] for row in rows if row.get("seed") is not None}),
        "data_sha256": data_digests(cases, data),
        "source_sha256": source_digest(),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("numpy", "numba", "spotfed")},
        },
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
