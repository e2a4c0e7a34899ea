"""The pools of the recorded price histories."""

from pathlib import Path

from cloudsim.markets.formats import read
from cloudsim.volatile.availability import (
    MAX_UNITS,
    STUDY_SAMPLES,
    Availability,
    ExclusionReason,
    Unknown,
    Window,
    first_window,
    infer_availability,
    last_window,
)


def test_2015_makes_a_pool_of_each_market_and_window(data_dir: Path) -> None:
    """The hole of June is in all of them: as recorded they are unknown in part, as the study reads them they
    are not.
    """
    series, _ = read(data_dir / "spot-prices-2015")
    for one in series:
        for window in (first_window(one), last_window(one)):
            assert isinstance(window, Window)
            carried = infer_availability(one, window, Unknown.CARRY)
            assert isinstance(carried, Availability)
            assert len(carried) == STUDY_SAMPLES
            assert (carried.units.min(), carried.units.max()) == (0, MAX_UNITS)
            assert 0.94 < carried.known.mean() < 1
            assert 0.005 < carried.volatility < 0.5
    refused = [infer_availability(one) for one in series]
    assert [getattr(one, "reason", None) for one in refused] == [ExclusionReason.UNKNOWN_PRICES] * 10


def test_2021_makes_a_pool_of_each_market_whose_price_changes(data_dir: Path) -> None:
    """Of every third market, for speed; of all 1,246 it is 905."""
    pools = [infer_availability(one) for one in read(data_dir / "spot-prices-2021")[0][::3]]
    made = [one for one in pools if isinstance(one, Availability)]
    excluded = [one for one in pools if not isinstance(one, Availability)]
    assert (len(made), len(excluded)) == (308, 108)
    assert {one.reason for one in excluded} == {ExclusionReason.NEVER_CHANGES}
    assert all((one.units.min(), one.units.max()) == (0, MAX_UNITS) for one in made)
