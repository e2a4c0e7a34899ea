"""Reads the Lua scripts in ``broker/storage/lua``, with the pieces that several of them share.

A comment ``-- hook: NAME`` behind a check or a write names it for the tests that break it, to prove that its
absence is noticed (``tests/support/mutants.py``). Keep the comment with the line when you change the script.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

import redis
from redis.lock import Lock

_WITH = re.compile(r"^-- With (\w+)\.lua\.$", re.MULTILINE)


def read_script(name: str) -> str:
    """Return the text of ``lua/<name>.lua`` after the pieces that its lines ``-- With PIECE.lua.`` name."""
    text = _read(name)
    return "".join([*map(_read, _WITH.findall(text)), text])


@cache
def list_scripts() -> tuple[str, ...]:
    """Return the texts of all scripts that a federation runs, the one of Celery's transport among them."""
    names = sorted(
        path.name.removesuffix(".lua") for path in resources.files("broker.storage").joinpath("lua").iterdir()
    )
    pieces = {piece for name in names for piece in _WITH.findall(_read(name))}
    return (*(read_script(name) for name in names if name not in pieces), Lock.LUA_RELEASE_SCRIPT)


def load_scripts(client: redis.Redis) -> int:
    """Load the scripts that a server does not have, and return their number.

    A server that stops forgets them. Under the ACL file of ``spotfed acl generate`` owners, job managers and
    Monte-Carlo workers run scripts, and cannot load them. The API looks every second. Raises
    redis.RedisError.
    """
    scripts = [client.register_script(text) for text in list_scripts()]
    known = client.script_exists(*(script.sha for script in scripts))
    missing = [script for script, is_known in zip(scripts, known, strict=True) if not is_known]
    for script in missing:
        client.script_load(script.script)
    return len(missing)


@cache
def _read(name: str) -> str:
    return resources.files("broker.storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
