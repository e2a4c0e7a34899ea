"""The recorded traces, as their PROVENANCE.md says they are."""

import time
from pathlib import Path

import numpy as np
import pytest

from cloudsim.traces import statistics
from cloudsim.traces.formats import read, write
from cloudsim.traces.synthesis import PRODUCTION

EUCALYPTUS = [
    # file, instances, span d, mean cores, peak, capacity, running at 0, letter of P1 and P2
    ("DS2", 900, 283.9, 18.6, 83, 84, 12, "A"),
    ("DS3", 2600, 279.8, 7.3, 44, 56, 3, "B"),
    ("DS5", 8456, 33.4, 565.5, 749, 992, 46, "C"),
    ("DS6", 4157, 34.7, 639.6, 816, 992, 17, "D"),
]
SWF = [
    ("KTH-SP2-1996-2.1-cln", 28467, 28476, 332.9, 70.1, 104, 100, (847, 28690)),
    ("SDSC-SP2-1998-4.2-cln", 54034, 59715, 729.6, 106.7, 202, 128, (359, 27393)),
    ("NASA-iPSC-1993-3.1-cln", 18066, 18239, 92.0, 59.7, 176, 128, (88, 1520)),
]


@pytest.mark.parametrize(("file", "n", "days", "mean", "peak", "capacity", "at_0", "letter"), EUCALYPTUS)
def test_eucalyptus(
    data_dir: Path,
    file: str,
    n: int,
    days: float,
    mean: float,
    peak: int,
    capacity: int,
    at_0: int,
    letter: str,
) -> None:
    trace, report = read(
        data_dir / "eucalyptus" / f"{file}-trace.txt", max_error_rate=0, capacity_cores=capacity
    )
    summary = statistics.summarise(trace)
    assert len(trace) == report.records == n
    assert (report.left_truncated, report.right_censored, report.quarantined) == (0, 0, ())
    assert (round(summary.span_s / 86400, 1), round(summary.mean_cores, 1)) == (days, mean)
    assert summary.peak_cores == report.peak_cores == peak
    assert report.overcommitted_s == 0
    assert (report.grid_s, report.off_grid) == (None, 0)
    assert int((trace.start_s == 0).sum()) == at_0
    profile = PRODUCTION[letter]
    assert summary.sizes == tuple((size.cores, size.count) for size in profile.sizes)
    assert profile.span_s == trace.last_stop_s
    for size in profile.sizes:
        lifetimes = trace.lifetime_s[trace.cores == size.cores]
        assert (np.median(lifetimes), lifetimes.mean()) == pytest.approx(
            (size.median_s, size.mean_s), abs=0.51
        )


def test_ds3_has_three_instances_of_no_length(data_dir: Path) -> None:
    trace, _ = read(data_dir / "eucalyptus" / "DS3-trace.txt")
    assert int((trace.lifetime_s == 0).sum()) == 3


def test_the_drop_out_of_ds2(data_dir: Path) -> None:
    """Case 14: 13.0 days at day 40; the others have none."""
    (found,) = read(data_dir / "eucalyptus" / "DS2-trace.txt")[1].drop_outs
    assert round((found.end_s - found.start_s) / 86400, 1) == 13.0
    assert round(found.start_s / 86400) == 40
    for file in ("DS3", "DS5", "DS6"):
        assert read(data_dir / "eucalyptus" / f"{file}-trace.txt")[1].drop_outs == ()


@pytest.mark.parametrize(("file", "n", "records", "days", "mean", "peak", "procs", "run_s"), SWF)
def test_swf(
    data_dir: Path,
    file: str,
    n: int,
    records: int,
    days: float,
    mean: float,
    peak: int,
    procs: int,
    run_s: tuple[float, float],
) -> None:
    trace, report = read(data_dir / "swf" / f"{file}.swf.gz", max_error_rate=0)
    summary = statistics.summarise(trace, quantiles=(0.5, 0.9))
    assert (len(trace), report.records) == (n, records)
    assert (round(summary.span_s / 86400, 1), round(summary.mean_cores, 1)) == (days, mean)
    assert (summary.peak_cores, report.capacity_cores) == (peak, procs)
    assert report.overcommitted_s > 0
    assert [seconds for _, seconds in summary.lifetime_quantiles_s] == pytest.approx(run_s, rel=1e-3)
    assert report.drop_outs == ()


def test_azure(data_dir: Path, tmp_path: Path) -> None:
    begin = time.perf_counter()
    trace, report = read(data_dir / "azure-2017" / "vms_dev.csv.gz", max_error_rate=0)
    assert time.perf_counter() - begin < 60  # about a second; the bound allows for a busy machine
    assert len(trace) == 259_159
    assert (report.grid_s, report.off_grid, report.right_censored) == (300, 0, 14_317)
    assert set(trace.cores) == {1, 2, 4, 8, 16}
    write(trace, tmp_path / "vms_dev.csv.gz")
    assert read(tmp_path / "vms_dev.csv.gz")[0].equals(trace)
