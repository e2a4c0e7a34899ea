"""Numba, as all compiled kernels use it.

Importing numba takes about half a second, so only modules that hold kernels import this one, and other
modules import those inside the functions that need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


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
