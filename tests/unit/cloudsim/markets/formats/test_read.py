"""Files of prices: what is recognised, what is quarantined, and what each error says."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudsim.markets.formats import read
from cloudsim.model.errors import SpecError, TraceError
from cloudsim.traces.formats.source import Source, decode_source
from tests.unit.cloudsim.markets.histories import BEGIN, HOUR, csv, page, record, source

TWO = "timestamp,price_usd_per_hour\n2021-03-02T00:00:00Z,0.10\n2021-03-02T01:00:00Z,0.2\n"


def text(content: str, file: str = "prices.csv") -> Source:
    return decode_source(content.encode(), file, accepted="")


def test_a_file_of_one_market_is_named_after_it(tmp_path: Path) -> None:
    path = tmp_path / "us-east-1a_c3.xlarge.csv.gz"
    path.write_bytes(gzip.compress(TWO.encode()))
    (series,), report = read(path, product="Windows")
    assert (series.instance_type, series.product, series.zone) == ("c3.xlarge", "Windows", "us-east-1a")
    assert series.at_s.tolist() == [BEGIN, BEGIN + HOUR]
    assert list(series.price_text) == ["0.10", "0.2"]
    assert (report.files[0].format, report.files[0].file) == ("csv", str(path))


@pytest.mark.parametrize("file", ["prices.csv", "my_prices.csv", "_c3.xlarge.csv"])
def test_a_file_that_says_nothing_of_its_market_is_refused(file: str) -> None:
    with pytest.raises(
        TraceError, match="instance_type: does not say which instance_type its prices are for"
    ):
        read(text(TWO, file))


@pytest.mark.parametrize(
    ("at", "unix_s"),
    [
        ("2021-03-02T00:00:00Z", BEGIN),
        ("2021-03-02T00:00:00.000Z", BEGIN),
        ("2021-03-02T00:00:00.5+00:00", BEGIN + 0.5),
        ("2021-03-02T02:00:00+02:00", BEGIN),
        ("2021-03-02 00:00:00", BEGIN),
        (" 2021-03-02T00:00:00Z ", BEGIN),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(at: str, unix_s: float) -> None:
    (series,), _ = read(text(f"timestamp,price_usd_per_hour\n{at},1\n", "us-east-1a_c3.xlarge.csv"))
    assert series.at_s.tolist() == [unix_s]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("yesterday,m1.large,us-east-1a,0.1", "timestamp is not an ISO 8601 time"),
        (",m1.large,us-east-1a,0.1", "timestamp is not an ISO 8601 time"),
        ("2021-03-02T05:00:00Z,,us-east-1a,0.1", "instance_type is empty or not printable"),
        ("2021-03-02T05:00:00Z,m1.large,\x07,0.1", "availability_zone is empty or not printable"),
        (
            "2021-03-02T05:00:00Z,m1.large,us-east-1a,cheap",
            "price_usd_per_hour is neither a number nor unknown",
        ),
        (
            "2021-03-02T05:00:00Z,m1.large,us-east-1a,1_0",
            "price_usd_per_hour is neither a number nor unknown",
        ),
        ("2021-03-02T05:00:00Z,m1.large,us-east-1a,١", "price_usd_per_hour is neither a number nor unknown"),
        ("2021-03-02T05:00:00Z,m1.large,us-east-1a", "not 4 comma-separated cells"),
    ],
)
def test_a_bad_row_is_quarantined_with_its_line_and_its_field(row: str, reason: str) -> None:
    good = [f"2021-03-02T0{hour}:00:00Z,m1.large,us-east-1a,0.1" for hour in range(3)]
    header = "timestamp,instance_type,availability_zone,price_usd_per_hour"
    file = text("\n".join([header, *good[:2], row, good[2]]))
    (series,), report = read(file)
    assert len(series) == 3
    (bad,) = report.files[0].quarantined
    assert (bad.line, bad.text, bad.reason) == (4, row.strip(), reason)
    assert report.files[0].records == 4
    with pytest.raises(TraceError, match=f"prices.csv:4: 1 of 4 lines are bad .*line 4: {reason}"):
        read(file, max_error_rate=0)


def test_bad_records_of_json_have_their_line_too() -> None:
    records = [
        record(BEGIN, '"{[\n'),
        "no record",
        record(BEGIN + 1, "0.1"),
        7,
        {**record(BEGIN + 2, "0.1"), "InstanceType": ""},
        {**record(BEGIN + 3, "0.1"), "Timestamp": "never"},
        {**record(BEGIN + 4, "0.1"), "AvailabilityZone": None},
        {key: value for key, value in record(BEGIN + 5, 1).items() if key != "SpotPrice"},
        record(BEGIN + 6, True),
        record(BEGIN + 7, {"USD": [1]}),
        record(BEGIN + 8, "0.2"),
    ]
    pages = (
        page([record(BEGIN - 1, "0.3")], "first").replace(
            '"NextToken"', '"ResponseMetadata": {"Retries": [0, {}]},\n"NextToken"'
        ),
        page(records, "second"),
    )
    whole = "\n".join(pages).splitlines()
    ((series,), report) = read(source(*pages), max_error_rate=1)
    assert list(series.price_text) == ["0.3", "0.1", "0.2"]
    assert [bad.reason for bad in report.files[0].quarantined] == [
        "SpotPrice is neither a number nor unknown",
        "is not an object",
        "is not an object",
        "InstanceType is missing, empty or not printable",
        "Timestamp is not an ISO 8601 time",
        "AvailabilityZone is missing, empty or not printable",
        "SpotPrice is missing",
        "SpotPrice is neither a number nor unknown",
        "SpotPrice is neither a number nor unknown",
    ]
    lines = [bad.line for bad in report.files[0].quarantined]
    assert [whole[line - 1].strip(" ,") for line in lines] == ["{", '"no record"', "7"] + ["{"] * 6
    assert sorted(set(lines)) == lines


def test_a_list_of_records_is_a_page() -> None:
    (series,), _ = read(
        decode_source(
            b'\n[{"InstanceType": "a.b", "ProductDescription": "Windows", "AvailabilityZone": "z",'
            b' "SpotPrice": 0.10, "Timestamp": "2021-03-02T00:00:00Z"}]',
            "list.json",
            accepted="",
        )
    )
    assert (series.name, series.price_text[0]) == ("a.b z Windows", "0.10")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"SpotPriceHistory": [', r"prices\.json:1: is not JSON"),
        ('{"SpotPriceHistory": []}\n{"Spot', r"prices\.json:2: is not JSON"),
        ('{"Instances": []}', "page 1 is no SpotPriceHistory"),
        ('{"SpotPriceHistory": {}}', "page 1 is no SpotPriceHistory"),
        ('{"SpotPriceHistory": [], "NextToken": true}', "page 1 is no SpotPriceHistory"),
        ('{"SpotPriceHistory": []}{"SpotPriceHistory": null}', "page 2 is no SpotPriceHistory"),
        ('{"SpotPriceHistory": []}', "holds no price"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_is_no_history_is_refused(content: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(decode_source(content.encode(), "prices.json", accepted=""))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "the header lacks timestamp,price_usd_per_hour"),
        ("timestamp,timestamp,price_usd_per_hour\n", "names a column twice"),
        ("timestamp,instance_type,availability_zone,price_usd_per_hour\n", "holds no price"),
        ("PK\0", "is binary"),
    ],
)
def test_what_is_no_table_is_refused(content: str, message: str) -> None:
    with pytest.raises(TraceError, match=rf"^prices\.csv.*{message}"):
        read(text(content))


def test_a_key_may_be_escaped() -> None:
    escaped = page([record(BEGIN, "0.1"), record(BEGIN + 1, "x")]).replace("SpotPriceH", "Spot\\u0050riceH")
    assert read(source(escaped), max_error_rate=1)[1].files[0].quarantined[0].line == 10


_BREAKING = st.sampled_from(
    [
        b"",
        b"\0",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b"\n",
        b"\\",
        b"NaN",
        b"-",
        b"9" * 400,
        b"\xff",
        b"\xc2\xa0",
        b"\x1c",
    ]
)


@given(st.booleans(), st.lists(st.tuples(st.integers(0, 800), st.integers(0, 30), _BREAKING), max_size=4))
def test_whatever_is_damaged_is_read_or_refused_in_words(
    as_csv: bool, damages: list[tuple[int, int, bytes]]
) -> None:
    records = [record(BEGIN + at * 50 * HOUR, f"0.{at}") for at in range(3)]
    data = "\n".join(csv(records).lines).encode() if as_csv else page(records, "token").encode()
    for begin, length, put in damages:
        data = data[:begin] + put + data[begin + length :]
    try:
        series, report = read(decode_source(data, "prices", accepted=""), max_error_rate=1)
    except TraceError:  # anything else is a fault of ours
        return
    kept = sum(map(len, series))
    (file,) = report.files
    assert file.records == kept + file.repeated + len(file.quarantined)
    json.dumps(report.as_dict(), allow_nan=False)


def test_another_price_at_the_same_time_is_quarantined() -> None:
    first, second = record(BEGIN, "0.1"), record(BEGIN, "0.2")
    (series,), report = read(csv([first, record(BEGIN + 1, "0.3")]), source(page([second, first])))
    assert list(series.price_text) == ["0.1", "0.3"]
    assert [(file.repeated, len(file.quarantined)) for file in report.files] == [(0, 0), (1, 1)]
    (bad,) = report.files[1].quarantined
    assert (bad.line, bad.reason) == (3, "another price of the same market at the same time")
    assert '"SpotPrice": "0.2"' in bad.text


def test_nothing_is_lost() -> None:
    """records = those in the series + repeated + quarantined, over several files."""
    records = [
        record(BEGIN + at % 7, ("0.1", "0", "x", "0.2")[at % 4], zone=f"z{at % 3}") for at in range(60)
    ]
    series, report = read(csv(records), csv(records[:9], "more.csv"), max_error_rate=1)
    kept = sum(map(len, series))
    assert kept == sum(one.records for one in report.series)
    assert sum(one.unknown for one in report.series) > 0
    repeated = sum(file.repeated for file in report.files)
    assert repeated == sum(one.repeated for one in report.series)
    assert sum(file.records for file in report.files) == 69
    assert kept + repeated + sum(len(file.quarantined) for file in report.files) == 69


def test_a_report_tells_each_kind_of_finding() -> None:
    records = [record(BEGIN, "0.1"), record(BEGIN, "0.1"), record(BEGIN + 1, "0"), record(BEGIN + 2, "x")]
    _, report = read(csv([*records, record(BEGIN + 40 * HOUR, "0.3")]))
    assert list(report.warnings) == [
        "1 records were quarantined, first prices.csv:5: price_usd_per_hour is neither a number nor unknown.",
        "1 records were there already and were dropped.",
        "1 records say no price: it is unknown until the next one, not free.",
        "1 gaps in 1 markets, the longest 40.0 h: prices are unknown in them.",
    ]
    (one,) = report.as_dict()["series"]
    assert (one["min_usd_per_hour"], one["median_usd_per_hour"], one["max_usd_per_hour"]) == (0.1, 0.2, 0.3)
    assert one["gaps_s"] == [[BEGIN + 1, BEGIN + 40 * HOUR]]


def test_a_market_without_any_price_has_none() -> None:
    _, report = read(csv([record(BEGIN, "0")]))
    assert (report.series[0].unknown, report.series[0].min_usd_per_hour) == (1, None)


def test_no_file_and_wrong_rates_are_refused() -> None:
    with pytest.raises(SpecError, match="files: name at least one"):
        read()
    with pytest.raises(SpecError, match="max_error_rate: must be from 0 to 1"):
        read(text(TWO), max_error_rate=1.1)


@pytest.mark.parametrize(
    ("tokens", "unfinished"),
    [(["a", "b"], True), (["a", None], False), ([None], False), ([""], False), (["a"], True)],
)
def test_a_token_without_a_page_after_it_says_that_there_is_more(
    tokens: list[str | None], unfinished: bool
) -> None:
    pages = [page([record(BEGIN + number, "0.1")], token) for number, token in enumerate(tokens)]
    _, report = read(source(*pages))
    assert report.is_unfinished is unfinished
    assert any("every page has a NextToken" in sentence for sentence in report.warnings) is unfinished
