"""Federation files that come with the package."""

from __future__ import annotations

from pathlib import Path

_DIRECTORY = Path(__file__).parent

UP = _DIRECTORY / "up.toml"
DEMO_RECORDED = _DIRECTORY / "demo-recorded.toml"
DEMO_SYNTHETIC = _DIRECTORY / "demo-synthetic.toml"
JOBS = _DIRECTORY / "jobs.toml"


def named(path: Path) -> Path:
    """``up`` and ``jobs`` are those that come with the package, unless there is such a file."""
    packaged = {one.stem: one for one in (UP, JOBS)}
    return path if path.exists() else packaged.get(str(path), path)
