"""Numba, as all compiled kernels use it.

Importing numba takes about half a second, so only modules that hold kernels import this one, and other
modules import those inside the functions that need them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = Path(__file__).resolve().parents[1]
_IMPORT = b"from cloudsim.model.jit import compiled"


def cache_directory(package: Path) -> Path:
    """Return the directory for what numba compiles of a package with these kernels.

    Numba looks only at the file of a kernel itself. But a kernel contains others, so what was compiled from
    other versions of any of them must not be found again.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if _IMPORT in source:
            digest.update(source)
    return package / "__pycache__" / f"kernels-{digest.hexdigest()[:16]}"


def _choose_cache() -> None:
    """Let numba use that directory, unless its user has named one, or nothing can be written there."""
    config: Any = numba.config
    if config.CACHE_DIR:
        return
    with suppress(OSError):
        directory = cache_directory(_PACKAGE)
        if not directory.is_dir():
            for earlier in directory.parent.glob("kernels-*"):
                shutil.rmtree(earlier, ignore_errors=True)
            directory.mkdir(parents=True, exist_ok=True)
        config.CACHE_DIR = str(directory)


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, for the types of its arguments; numba caches it on disk.

    Where numba finds no directory that it can write, every process compiles for itself.

    The code runs without the global interpreter lock, and never in parallel by itself: Monte-Carlo batches
    are what is run in parallel.
    """
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # "cannot cache function"
        return cast("Function", numba.njit(nogil=True)(function))


_choose_cache()
