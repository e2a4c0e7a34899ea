"""Federation files that come with the package."""

from __future__ import annotations

from pathlib import Path

_DIRECTORY = Path(__file__).parent / "federations"

UP = _DIRECTORY / "up.toml"
DEMO_RECORDED = _DIRECTORY / "demo-recorded.toml"
DEMO_SYNTHETIC = _DIRECTORY / "demo-synthetic.toml"
