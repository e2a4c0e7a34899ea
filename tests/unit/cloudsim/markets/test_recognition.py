"""What a file holds is told by its content; what is in no format is told by how near it is to one."""

import gzip
from pathlib import Path

import pytest

from cloudsim.markets.recognition import FileKind, recognise_file
from cloudsim.model.errors import TraceError
from tests.unit.cloudsim.traces.formats.test_read import SAMPLES

HOLDS = [
    *((text, FileKind.TRACE) for text in SAMPLES.values()),
    ("timestamp,price_usd_per_hour\n2021-03-02T00:00:00Z,0.1\n", FileKind.PRICES),
    ("file,instance_type,availability_zone\na.csv,m1.large,a\n", FileKind.PRICES),
    ('\n{"SpotPriceHistory": []}', FileKind.PRICES),
    ("[]", FileKind.PRICES),
    ("Region,InstanceCode,Price\nus-east-1,m1.large,0.175\n", FileKind.ON_DEMAND_PRICES),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("text", "kind"), HOLDS)
def test_content_decides(tmp_path: Path, text: str, kind: FileKind, packed: bool) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert recognise_file(path) is kind


def test_only_the_begin_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(SAMPLES["eucalyptus"] + "x" * 200_000)
    assert recognise_file(path) is FileKind.TRACE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello\nworld", "x:1: is in no known format: its first line is 'hello'"),
        (b"vm,start_s,cores\n1,2,3", "nearest to it is 'azure', whose columns duration_s it lacks"),
        (b"timestamp,instance_type,availability_zone\n", "nearest to it is 'prices', whose columns"),
        (b"\0\1\2" * 9, "is binary"),
        (gzip.compress(SAMPLES["table"].encode(), mtime=0)[:-12], "is a damaged gzip file"),
        (b"\x1f\x8bnonsense", "cannot be read|damaged gzip"),
    ],
)
def test_what_is_in_no_format_is_refused_and_told_what_is(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as error:
        recognise_file(path)
    assert error.value.file == str(path)
    for known in ("Eucalyptus", "SWF", "Parquet", "describe-spot-price-history", "Region,InstanceCode,Price"):
        assert known in str(error.value)


@pytest.mark.parametrize("name", ["missing", ".", "a\0b"])
def test_paths_that_cannot_be_read_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError):
        recognise_file(f"{tmp_path}/{name}")
