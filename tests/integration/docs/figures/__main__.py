"""``python -m tests.integration.docs.figures DIRECTORY``: draws all figures there."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.docs.figures.all import FIGURES

if len(sys.argv) != 2:
    sys.exit("usage: python -m tests.integration.docs.figures DIRECTORY")
for name, draw in FIGURES.items():
    (Path(sys.argv[1]) / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
