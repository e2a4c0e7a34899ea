"""Tunes Python's garbage collector for processes that live long and hold much.

By default it looks for cycles after every 700 new objects, and now and then through all objects: modules,
adverts, each lease of a busy cloud. In an owner next to nothing is a cycle and most objects live long, so it
found nothing and took a fifth of the owner's time, up to 0.1 s at once.
"""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 50


def tune_gc() -> None:
    """Exempt all present objects from garbage collection, and collect later ones rarely.

    Call it in a process once everything that it needs is loaded.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
