"""Reads the Lua scripts in ``broker/storage/lua``, with the pieces that several of them share.

A comment ``-- hook: NAME`` behind a check or a write names it for the tests that break it, to prove that its
absence is noticed (``tests/support/mutants.py``). Keep the comment with the line when you change the script.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_WITH = re.compile(r"^-- With (\w+)\.lua\.$", re.MULTILINE)


def read_script(name: str) -> str:
    """Return the text of ``lua/<name>.lua`` after the pieces that its lines ``-- With PIECE.lua.`` name."""
    text = _read(name)
    return "".join([*map(_read, _WITH.findall(text)), text])


@cache
def _read(name: str) -> str:
    return resources.files("broker.storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
