from __future__ import annotations

import pytest

from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("30s", 30),
        ("15m", 900),
        ("24h", 86400),
        ("10d", 864000),
        ("1.5h", 5400),
        (12, 12),
        (0.5, 0.5),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration_s(text, field="delay") == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "-1", "1 w", "PT1H", "1e400", "nan", -1, float("nan"), float("inf"), True]
)
def test_what_is_no_duration_names_the_field(text: str | float) -> None:
    with pytest.raises(SpecError) as caught:
        parse_duration_s(text, field="workload[0].delay")
    assert caught.value.field == "workload[0].delay"
