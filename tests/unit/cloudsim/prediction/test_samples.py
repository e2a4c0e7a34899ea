import numpy as np
import pytest

from cloudsim.prediction.samples import Samples


def made(number, cores=4, until_s=1000.0, level=1, spans=False) -> Samples:
    number = np.array(number, np.int64)
    generator = np.random.default_rng(7)
    count = len(number)
    return Samples(
        cores,
        until_s,
        level,
        number,
        number * 0.1,
        generator.integers(1, 500, count).astype(np.int32),
        generator.exponential(100.0, count),
        generator.random(count) < 0.5,
        generator.exponential(10.0, count) if spans else np.zeros(count),
    )


@pytest.mark.parametrize(
    "number", [[], [0], [2, 4, 6, 8, 10, 12, 14, 16, 18], [0, 2**32 - 2, 2**33], [2**40]]
)
@pytest.mark.parametrize("spans", [False, True])
def test_bytes_there_and_back(number, spans: bool):
    samples = made(number, spans=spans)
    again = Samples.from_bytes(samples.to_bytes())
    assert again == samples
    assert again.level == samples.level
    assert again.number.tolist() == list(number)
    assert again.evicted.dtype == np.bool_
    assert again.span_s.tolist() == samples.span_s.tolist()
    assert again.birth_s.flags.writeable  # not a view of the message


def test_bytes_are_compact_and_little_endian():
    samples = made(range(0, 2000, 2))
    data = samples.to_bytes()
    assert len(data) == 31 + 1000 * 24 + 125
    assert data[:4] == b"SFS2"
    assert len(made(range(0, 2000, 2), spans=True).to_bytes()) == len(data) + 8000
    assert data[31:39] == (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


@pytest.mark.parametrize("damage", [b"", b"SFS2", b"XXXX" + bytes(60)])
def test_other_bytes_are_refused(damage: bytes):
    with pytest.raises(ValueError, match="not samples"):
        Samples.from_bytes(damage)


def test_cut_off_bytes_are_refused():
    data = made([0, 2, 4]).to_bytes()
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(ValueError, match="bytes, not"):
            Samples.from_bytes(wrong)


def test_equality_is_of_bits():
    assert made([0, 2]) == made([0, 2])
    assert made([0, 2]) != made([0, 4])
    assert made([0, 2], spans=True) != made([0, 2])
    assert made([0, 2], until_s=1.0) != made([0, 2])
    assert made([0, 2]) != "samples"


def test_merge_sorts_by_number():
    merged = Samples.merge([made([6, 8]), made([]), made([0, 10])])
    assert merged.number.tolist() == [0, 6, 8, 10]
    assert merged.birth_s.tolist() == [0.0, 6 * 0.1, 8 * 0.1, 10 * 0.1]
    spans = [made([6, 8], spans=True), made([0, 10], spans=True)]
    assert sorted(Samples.merge(spans).span_s) == sorted([*spans[0].span_s, *spans[1].span_s])
    assert Samples.merge(spans).span_s[0] == spans[1].span_s[0]


def test_merge_refuses_what_does_not_belong_together():
    with pytest.raises(ValueError, match="nothing"):
        Samples.merge([])
    with pytest.raises(ValueError, match="same sample twice"):
        Samples.merge([made([0, 2]), made([2])])
    for other in (made([2], cores=5), made([2], until_s=2.0), made([2], level=0)):
        with pytest.raises(ValueError, match="different"):
            Samples.merge([made([0]), other])


def test_no_samples():
    assert len(Samples.empty(3)) == 0
