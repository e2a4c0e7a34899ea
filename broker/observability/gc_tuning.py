"""Python's garbage collector in processes that live long and hold much.

It looks for cycles each time that 700 objects more have been made than let go, and now and then through all
there are: modules, adverts, each lease of a busy cloud. Here next to nothing is a cycle, and what is held is
held for long, so it found nothing and took a fifth of an owner's time, up to 0.1 s at once.
"""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 50


def tune_gc() -> None:
    """What was made so far is not looked through again, and what comes is looked through rarely.

    For a whole process, once what it needs is loaded.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
