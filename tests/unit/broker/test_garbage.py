"""The garbage collector of processes that live long."""

import gc

from broker import garbage


def test_what_is_there_is_not_looked_through_again() -> None:
    before = gc.get_threshold()
    try:
        garbage.settle()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] > before[0]
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
