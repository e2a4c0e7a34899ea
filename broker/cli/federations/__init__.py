"""Federation files that come with the package."""

from __future__ import annotations

from pathlib import Path

_DIRECTORY = Path(__file__).parent

UP = _DIRECTORY / "up.toml"
DEMO_RECORDED = _DIRECTORY / "demo-recorded.toml"
DEMO_SYNTHETIC = _DIRECTORY / "demo-synthetic.toml"
JOBS = _DIRECTORY / "jobs.toml"


def find(path: Path) -> Path:
    """Return the path, or the packaged file that ``up`` or ``jobs`` names if there is no such path."""
    packaged = {file.stem: file for file in (UP, JOBS)}
    return path if path.exists() else packaged.get(str(path), path)
