"""``python -m broker.cli.reference DIRECTORY``: writes the reference pages there."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from broker.cli.reference import write

if len(sys.argv) != 2:
    typer.echo("usage: python -m broker.cli.reference DIRECTORY", err=True)
    sys.exit(2)
write(Path(sys.argv[1]))
