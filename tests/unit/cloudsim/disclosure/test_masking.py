"""What is left out of answers."""

from __future__ import annotations

from cloudsim.disclosure.levels import Disclosure
from cloudsim.disclosure.masking import mask_answer, mask_refusal
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request

REQUEST = Request("r", Kind.SPOT, 3, 100.0, 0.5)
QUOTE = Quote("A", 3, 5, 0.2, 900.0, "v", 0.0)
FULL_UP = Refusal("A", RefusalReason.NO_CAPACITY, True, 0, removed=(("room", 7),))


def test_free_slots_are_those_of_the_empty_cloud() -> None:
    told = mask_answer(QUOTE, REQUEST, Disclosure.P90, None, (8, 8, 2))
    assert (told.free_slots, told.survives_s) == (4, 900.0)
    assert mask_answer(QUOTE, REQUEST, Disclosure.FULL, None, (8, 8, 2)) is QUOTE


def test_a_refusal_does_not_tell_who_is_in_the_way() -> None:
    told = mask_refusal(FULL_UP, Disclosure.MTTR)
    assert (told.reason, told.free_slots, told.eviction_would_help, told.removed) == (
        RefusalReason.NO_CAPACITY, 0, False, (),
    )  # fmt: skip
    assert mask_refusal(FULL_UP, Disclosure.FULL) is FULL_UP
    risky = Refusal("A", RefusalReason.RISK_TOO_HIGH, free_slots=3, eviction_probability=0.5)
    assert mask_refusal(risky, Disclosure.P90).free_slots is None


def test_without_figures_there_is_no_promise_and_with_them_there_may_be_one_later() -> None:
    young = Refusal("A", RefusalReason.NO_TABLE)
    assert mask_refusal(young, Disclosure.NOTHING).reason is RefusalReason.NOT_DISCLOSED
    assert mask_refusal(young, Disclosure.P10).reason is RefusalReason.NO_TABLE
