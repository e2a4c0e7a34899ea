"""The command line of spotfed.

app.py lists the commands and imports the module of a command only when that command is named, so that
``spotfed --help`` answers at once. Each of the other modules holds the commands about one noun; views/ turns
results into tables and text. errors.py lists the exit codes.
"""

from __future__ import annotations

from broker.cli.app import main

__all__ = ["main"]
