"""What mutants replace, and what is said where there is nothing to replace."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.mutants import break_hooks, broken_script, replaced

SCRIPT = """\
local latest = a + 1  -- hook: value
if x == 1 and y then return 'no' end  -- hook: condition
if x == 1  -- hook: first
  and y == 2  -- hook: second
then
  redis.call('DEL', KEYS[1])  -- hook: statement
end
"""


class Clock:
    def __init__(self) -> None:
        self.now_s = 1

    def after(self, delay_s: int, *, unit: int = 1) -> int:
        return self.now_s + delay_s * unit

    @property
    def half_s(self) -> float:
        return self.now_s / 2

    @classmethod
    def made(cls, now_s: int = 5) -> Clock:
        clock = cls()
        clock.now_s = now_s
        return clock


def test_whoever_holds_a_function_runs_the_mutant() -> None:
    held, clock = Clock.after, Clock()
    with replaced(Clock.after, lambda sound, clock, delay_s, unit: 100 + sound(clock, delay_s, unit=unit)):
        assert (held(clock, 1), clock.after(1, unit=2)) == (102, 103)
    assert held(clock, 1) == 2


def test_properties_and_class_methods() -> None:
    with replaced(Clock.half_s, lambda sound, clock: -sound(clock)):
        assert Clock().half_s == -0.5
    with replaced(Clock.made, lambda sound, cls, _now_s: sound(cls, 7)):
        assert Clock.made().now_s == 7
    assert Clock.made().now_s == 5


def test_only_functions_are_replaced() -> None:
    with pytest.raises(TypeError, match="no function that a mutant can replace"), replaced(Clock, print):
        pass


def test_arguments_come_by_position_whatever_their_names() -> None:
    with replaced(Clock.after, lambda _sound, _clock, seconds, unit: 10 * seconds + unit):
        assert Clock().after(delay_s=3) == 31


def test_a_mutant_must_take_what_the_function_takes() -> None:
    with (
        pytest.raises(TypeError, match=r"does not take what Clock.after takes: missing .* '_more'"),
        replaced(Clock.after, lambda _sound, _clock, _delay_s, _more, *, unit: 0),
    ):
        pass


def test_a_mutant_that_does_not_work_proves_nothing() -> None:
    def mutant(_sound: object, clock: Clock) -> float:
        return clock.gone_s  # type: ignore[attr-defined]

    with (
        pytest.raises(RuntimeError, match="the mutant mutant does not work: 'Clock' object has no"),
        replaced(Clock.half_s, mutant),
        suppress(AttributeError),
    ):
        _ = Clock().half_s


@pytest.mark.parametrize(
    ("hook", "line"),
    [
        ("value", "local latest = BROKEN  -- hook: value"),
        ("condition", "if BROKEN then return 'no' end  -- hook: condition"),
        ("first", "if BROKEN  -- hook: first"),
        ("second", "  and BROKEN  -- hook: second"),
        ("statement", "  BROKEN  -- hook: statement"),
    ],
)
def test_what_a_hook_names(hook: str, line: str) -> None:
    broken = break_hooks("s", SCRIPT, {hook: "BROKEN"})
    assert line in broken.splitlines()
    assert [one for one in broken.splitlines() if one not in SCRIPT.splitlines()] == [line]


def test_a_hook_that_is_gone() -> None:
    with (
        pytest.raises(ValueError, match="script commit has 0 lines with the comment `-- hook: nowhere`"),
        broken_script("commit", {"nowhere": ""}),
    ):
        pass
