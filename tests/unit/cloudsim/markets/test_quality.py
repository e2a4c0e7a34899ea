"""Checks of price histories and of lists of on-demand prices."""

from pathlib import Path

import pytest

from cloudsim.markets import on_demand, quality
from cloudsim.markets.formats import GapRule, read
from cloudsim.model.errors import TraceError
from cloudsim.traces.quality import QualityCheck
from tests.unit.cloudsim.markets.histories import BEGIN, HOUR, page, record, source


def found(*records: dict[str, object], rule: GapRule | None = None) -> dict[str, QualityCheck]:
    rule = rule or GapRule()
    _, report = read(source(page(list(records))), gaps=rule, max_error_rate=1.0)
    return {one.name: one for one in quality.check_prices(report, rule)}


def test_every_fault_of_prices_is_named_with_its_count() -> None:
    checks = found(
        record(BEGIN, "0.1"),
        record(BEGIN, "0.1"),
        record(BEGIN + HOUR, None),
        record(BEGIN + 50 * HOUR, "0.2"),
        {**record(BEGIN + 51 * HOUR, "0.2"), "Timestamp": "soon"},
    )
    counts = {name: one.found for name, one in checks.items()}
    assert counts == {
        "mended": 0,
        "cut off": 1,
        "quarantined": 1,
        "repeated records": 1,
        "no price": 1,
        "gaps": 1,
        "all silent": None,
        "not there": 0,
        "unfinished": 0,
    }
    assert checks["gaps"].says == "in 1 of 1 markets; the longest 49.0 h (m1.large us-east-1a)"
    assert "Timestamp is not an ISO 8601 time" in checks["quarantined"].says
    assert "36 h" in checks["gaps"].rule


def test_a_silence_of_all_markets_needs_enough_of_them() -> None:
    records = [record(BEGIN + at * HOUR, "0.1", zone=f"z{zone}") for zone in range(8) for at in (0, 20)]
    assert found(*records)["all silent"].found == 1
    assert found(*records)["all silent"].says == "the longest 20.0 h"
    assert found(*records, rule=GapRule(max_silence_s=None))["all silent"].found is None
    assert found(*records[:8])["all silent"].found is None


def test_files_of_a_list_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "markets.csv").write_text(
        "file,instance_type,availability_zone\na.csv,m1.large,a\nb.csv,m1.large,b\nc.csv,m1.large,c\n"
    )
    (tmp_path / "a.csv").write_text("timestamp,price_usd_per_hour\n2021-03-02T00:00:00Z,0.1\n")
    _, report = read(tmp_path)
    (check,) = (one for one in quality.check_prices(report, GapRule()) if one.name == "not there")
    assert (check.found, check.says) == (2, "files of the list, first b.csv")


def test_a_list_of_on_demand_prices(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("Region,InstanceCode,Price\nus,m1.large,0.175\nus,m1.small,0\nus,m1.large,0.2\neu,a,1")
    prices = on_demand.read_price_list(path, max_error_rate=1.0)
    assert prices.usd_per_hour == {("us", "m1.large"): 0.175, ("eu", "a"): 1.0}
    assert [(q.line, q.reason) for q in prices.quarantined] == [
        (3, "Price is not a number above 0"),
        (4, "a second price of the same region and type"),
    ]
    assert {one.name: one.found for one in quality.check_price_list(prices)} == {
        "mended": 0,
        "cut off": 1,
        "quarantined": 2,
    }
    with pytest.raises(TraceError, match=r"x\.csv:3: 2 of 4 lines are bad"):
        on_demand.read_price_list(path, max_error_rate=0)
    path.write_text("Region,InstanceCode,Price\n")
    with pytest.raises(TraceError, match="holds no price"):
        on_demand.read_price_list(path)
