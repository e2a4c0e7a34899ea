"""Case 5: a price history with holes. What nobody knows is unknown: not free, nor what it was before."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.markets.formats import read
from cloudsim.markets.prices import PriceSeries
from cloudsim.model.errors import TraceError
from cloudsim.volatile.availability import (
    STEP_S,
    Availability,
    ExcludedSeries,
    ExclusionReason,
    Unknown,
    infer_availability,
)
from tests.unit.cloudsim.markets.histories import BEGIN, HOUR, Record, csv, page, record, source

#: Ways to say that a price is not known, as JSON values.
UNKNOWN = (
    "0",
    "0.000000",
    0,
    0.0,
    None,
    "NaN",
    float("nan"),
    "",
    "null",
    "-0.05",
    -1,
    "Infinity",
    "-inf",
    "1e400",
)
GAP_S = 37 * HOUR

prices = st.decimals(Decimal("0.0001"), Decimal(100), places=6).map(str)
histories = st.lists(prices, min_size=1, max_size=12).map(
    lambda texts: [record(BEGIN + hour * HOUR, text) for hour, text in enumerate(texts)]
)


def only(records: Sequence[Record]) -> PriceSeries:
    (series,) = read(source(page(records)), max_error_rate=0)[0]
    return series


@given(histories, st.integers(0, 12), st.sampled_from(UNKNOWN), st.booleans())
def test_what_is_no_price_is_unknown_until_the_next_one(
    history: list[Record], position: int, unknown: Any, as_csv: bool
) -> None:
    at = min(position, len(history) - 1)
    holed = [*history[:at], {**history[at], "SpotPrice": unknown}, *history[at + 1 :]]
    (series,), report = read(csv(holed) if as_csv else source(page(holed)), max_error_rate=0)
    times = np.arange(len(history)) * HOUR + BEGIN
    for since_s in (0, 1, HOUR - 1):
        seen = series.price_at(np.minimum(times + since_s, series.ends_s))
        expected = [np.nan if hour == at else float(one["SpotPrice"]) for hour, one in enumerate(history)]
        if since_s and len(history) > 1:
            seen, expected = seen[:-1], expected[:-1]
        assert np.array_equal(seen, expected, equal_nan=True)
    assert np.isnan(series.price_usd_per_hour[at])
    assert (report.series[0].unknown, report.series[0].records) == (1, len(history))


@given(
    st.lists(st.decimals(Decimal("1e-12"), Decimal(1000), places=15), min_size=1, max_size=8), st.booleans()
)
def test_decimals_are_kept(decimals: list[Decimal], as_number: bool) -> None:
    history = [record(BEGIN + hour * HOUR, str(price)) for hour, price in enumerate(decimals)]
    text = page(history)
    if as_number:
        for price in decimals:
            text = text.replace(f'"SpotPrice": "{price}"', f'"SpotPrice": {price}')
    for given_as in (source(text), csv(history)):
        (series,), _ = read(given_as)
        assert list(series.price_text) == [str(price) for price in decimals]


@given(st.data(), histories)
def test_a_repeated_record_is_dropped_and_counted_whatever_the_order(
    data: st.DataObject, history: list[Record]
) -> None:
    repeated = data.draw(st.lists(st.sampled_from(history), max_size=5))
    shuffled = data.draw(st.permutations([*history, *repeated]))
    cut = data.draw(st.integers(0, len(shuffled)))
    halves = [half for half in (shuffled[:cut], shuffled[cut:]) if half]
    if len(halves) == 2 and halves[0] == halves[1]:
        return  # a repeated page, which is another matter
    series, report = read(source(*(page(half, f"token {at}") for at, half in enumerate(halves))))
    assert series[0].equals(only(history))
    assert report.series[0].repeated == report.files[0].repeated == len(repeated)
    assert report.files[0].records == len(shuffled)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("Linux/UNIX", "Windows", "SUSE Linux", "Linux/UNIX (Amazon VPC)")), prices
        ),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
def test_two_products_are_two_series(sold: list[tuple[str, str]], as_csv: bool) -> None:
    history = [record(BEGIN + hour * HOUR, price, product) for hour, (product, price) in enumerate(sold)]
    history.reverse()
    series, _ = read(csv(history) if as_csv else source(page(history)))
    assert {one.product: list(one.price_text) for one in series} == {
        product: [price for name, price in sold if name == product] for product, _ in sold
    }


@settings(max_examples=40)
@given(st.lists(histories, min_size=1, max_size=4, unique_by=json.dumps), st.data())
def test_a_repeated_page_stops_with_an_error_that_names_it(
    found: list[list[Record]], data: st.DataObject
) -> None:
    again = data.draw(st.integers(0, len(found) - 1))
    before = data.draw(st.integers(again + 1, len(found)))
    tokens = [f"token-{at}" for at in range(len(found))]
    pages = [page(records, token) for records, token in zip(found, tokens, strict=True)]
    same_token = page([record(BEGIN - HOUR, "1")], tokens[again])
    same_records = page(found[again], "another token" if data.draw(st.booleans()) else None)
    for repeated, names in ((same_token, tokens[again]), (same_records, "the same")):
        where = f"page {again + 1} of prices.json"
        with pytest.raises(TraceError, match=f"page {before + 1} .*{names}.*{where}"):
            read(source(*pages[:before], repeated, *pages[before:]))
        with pytest.raises(TraceError, match=f"more.json: NextToken: page 1 .*{names}.*{where}"):
            read(source(*pages), source(repeated, file="more.json"))


@pytest.mark.parametrize("token", [None, ""])
def test_a_last_page_has_no_token_in_every_file(token: str | None) -> None:
    first, second = page([record(BEGIN, "0.1")], token), page([record(BEGIN + 1, "0.2")], token)
    assert len(read(source(first), source(second, file="more.json"))[0][0]) == 2


@given(
    st.lists(prices, min_size=2, max_size=12, unique_by=Decimal),
    st.integers(0, 10),
    st.integers(GAP_S // STEP_S, 20 * GAP_S // STEP_S).map(lambda steps: steps * STEP_S),
    st.booleans(),
)
def test_a_gap_stays_a_gap(texts: list[str], position: int, gap_s: int, as_csv: bool) -> None:
    begins = min(position, len(texts) - 2)
    times = [BEGIN + hour * HOUR + (gap_s if hour > begins else 0) for hour in range(len(texts))]
    history = [record(at_s, text) for at_s, text in zip(times, texts, strict=True)]
    (series,), report = read(csv(history) if as_csv else source(page(history)))
    start_s, end_s = times[begins], times[begins + 1]
    assert list(report.series[0].gaps_s) == [(start_s, end_s)]
    assert np.isnan(series.price_at([start_s + 1, (start_s + end_s) / 2, end_s - 1])).all()
    assert np.array_equal(series.price_at(times), np.array(texts, dtype=float))
    made, carried = infer_availability(series), infer_availability(series, unknown=Unknown.CARRY)
    assert isinstance(made, ExcludedSeries)
    assert made.reason is ExclusionReason.UNKNOWN_PRICES
    assert isinstance(carried, Availability)
    at_s = carried.starts_at_s + np.arange(len(carried)) * carried.step_s
    assert np.array_equal(carried.known, (at_s <= start_s) | (at_s >= end_s))


@given(st.integers(0, 30), st.integers(7, 27))
def test_a_silence_of_all_markets_is_a_gap_until_each_markets_own_next_record(hole: int, hours: int) -> None:
    """Eight markets take turns, one an hour: none is ever silent for 36 hours, all of them are once."""
    history = []
    for turn in range(40):
        at_s = BEGIN + (turn + (hours if turn > hole else 0)) * HOUR
        history.append(record(at_s, "0.1", zone=f"zone-{turn % 8}"))
    series, report = read(source(page(history)))
    start_s, end_s = BEGIN + hole * HOUR, BEGIN + (hole + 1 + hours) * HOUR
    assert list(report.silences_s) == [(start_s, end_s)]
    for one in series:
        later = one.at_s[one.at_s >= end_s]
        before = one.at_s[0] <= start_s
        assert one.gaps_s.tolist() == ([[start_s, later[0]]] if before and len(later) else [])
        assert np.isnan(one.price_at(end_s - 1))
        if before and not len(later):
            assert one.ends_s == start_s
