"""The recorded price histories, as their PROVENANCE.md says they are."""

from pathlib import Path

import numpy as np

from cloudsim.markets.formats import read
from cloudsim.markets.prices import PriceSeries

HOUR = 3600


def of(series: tuple[PriceSeries, ...], name: str) -> PriceSeries:
    (found,) = [one for one in series if one.name == name]
    return found


def test_2013(data_dir: Path) -> None:
    series, report = read(data_dir / "spot-prices-2013", max_error_rate=0)
    linux = [one for one in series if one.product == "Linux/UNIX"]
    assert (report.files[0].records, sum(map(len, linux)), len(linux)) == (10_430, 6720, 55)
    large = [of(series, f"m1.large us-east-1{zone}") for zone in "abcd"]
    assert [len(one) for one in large] == [282, 581, 498, 468]
    assert [np.nanmax(one.price_usd_per_hour) for one in large] == [2.0, 1.0, 3.0, 0.167]
    ((start_s, end_s),) = report.silences_s
    assert round((end_s - start_s) / HOUR, 1) == 49.7


def test_2015(data_dir: Path) -> None:
    """15 markets are listed, ten of them are there; two holes of all markets."""
    series, report = read(data_dir / "spot-prices-2015", max_error_rate=0)
    assert len(series) == 10
    assert len(of(series, "c3.xlarge us-east-1a")) == 48_994
    assert of(series, "d2.8xlarge us-east-1b").on_demand_usd_per_hour == 5.52
    assert [round((end_s - start_s) / HOUR) for start_s, end_s in report.silences_s] == [13, 56]
    # Each market has both; gaps that began earlier or ended later in a market are longer.
    assert [len(one.gaps_s) for one in report.series] == [2] * 10
    assert report.warnings[0].startswith("5 files of the list are not there")
    assert sum(file.repeated for file in report.files) == 0


def test_2021(data_dir: Path) -> None:
    series, report = read(data_dir / "spot-prices-2021", max_error_rate=0)
    assert len(series) == 1246
    assert sum(map(len, series)) == 268_519
    assert (report.silences_s, report.warnings) == ((), ())
    assert of(series, "i3.4xlarge us-east-1a").price_text[:2].tolist() == ["0.488200", "0.488600"]
    assert [sum(one.instance_type == kind for one in series) for kind in ("r3.xlarge", "m1.large")] == [4, 4]
