"""Reading a million rows of the one table as CSV and as Parquet, beside a plain ``pandas.read_csv``.

    python -m tests.bench.bench_traces [--rows 1000000] [--json]

Rows are made up: ids of ten characters, times in milliseconds. Read means: every cell is checked, rows are in
the one table, and the reader's report (grid, drop-outs, peak) is made; the further checks of ``spotfed trace
inspect`` and writing are measured apart. ``pandas.read_csv`` checks nothing. A START/STOP log of a tenth as
many instances shows what a line at a time costs. Seconds are those of the processor, best of several, because
the machine may have other work; they include the system's share.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from cloudsim.traces import quality
from cloudsim.traces.formats import read, write
from cloudsim.traces.trace import Trace
from tests.bench.targets import line

REPEATS = 5
TARGET_PER_S = 1_000_000


def seconds(run: Callable[[], object]) -> float:
    """CPU seconds of this process, the best of several."""
    best = np.inf
    for _ in range(REPEATS):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best


def made_up(rows: int) -> Trace:
    """Ninety days of instances that start evenly and live lognormally."""
    generator = np.random.default_rng(1)
    start = np.sort(generator.integers(0, 90 * 86_400_000, rows)) / 1000
    stop = np.round(start + generator.lognormal(7, 2, rows), 3)
    cores = generator.choice([1, 2, 4, 8, 16], rows)
    ids = [f"i-{number:08x}" for number in generator.integers(0, 2**32, rows).tolist()]
    return Trace.checked("made-up", ids, start, stop, cores)


def start_stop_log(trace: Trace, path: Path) -> None:
    """The same as Eucalyptus lines."""
    events = sorted(
        event
        for row, (vm, start, stop, cores) in enumerate(
            zip(
                *(getattr(trace, c).tolist() for c in ("instance", "start_s", "stop_s", "cores")), strict=True
            )
        )
        for event in ((start, f"START {start} {vm}-{row} n {cores}"), (stop, f"STOP {stop} {vm}-{row}"))
    )
    path.write_text("\n".join(text for _, text in events) + "\n")


def measure(rows: int, folder: Path) -> dict[str, float]:
    """Rows a second of each way, and ratios to pandas."""
    trace = made_up(rows)
    csv, parquet, log = (folder / f"made-up{ending}" for ending in (".csv", ".parquet", ".txt"))
    written_csv_s, written_parquet_s = (seconds(partial(write, trace, path)) for path in (csv, parquet))
    plain_s = seconds(lambda: pd.read_csv(csv))
    csv_s, parquet_s = (seconds(partial(read, path)) for path in (csv, parquet))
    again, report = read(csv)
    assert again.equals(trace)
    assert read(parquet)[0].equals(trace)
    few = trace.head(rows // 10)
    start_stop_log(few, log)
    return {
        "rows": rows,
        "csv_mb": csv.stat().st_size / 1e6,
        "parquet_mb": parquet.stat().st_size / 1e6,
        "plain_pandas_per_s": rows / plain_s,
        "csv_per_s": rows / csv_s,
        "parquet_per_s": rows / parquet_s,
        "csv_by_pandas": csv_s / plain_s,
        "parquet_by_pandas": parquet_s / plain_s,
        "log_per_s": len(few) / seconds(lambda: read(log)),
        "quality_s": seconds(lambda: quality.check_trace(trace, report)),
        "write_csv_s": written_csv_s,
        "write_parquet_s": written_parquet_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments.rows, Path(folder))
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for what, name in (("CSV", "csv"), ("Parquet", "parquet")):
        told = f"{what}, {found['rows']:,.0f} rows, {found[f'{name}_mb']:.0f} MB: read, checked, reported"
        sys.stdout.write(line(told, found[f"{name}_per_s"], "/s", TARGET_PER_S, at_most=False) + "\n")
    for told, name, unit in (
        ("plain pandas.read_csv of the same CSV", "plain_pandas_per_s", "/s"),
        ("CSV: seconds by those of pandas.read_csv", "csv_by_pandas", "x"),
        ("Parquet: seconds by those of pandas.read_csv of the CSV", "parquet_by_pandas", "x"),
        ("START/STOP log, instances (a tenth as many)", "log_per_s", "/s"),
        ("all checks of quality", "quality_s", "s"),
        ("written as CSV", "write_csv_s", "s"),
        ("written as Parquet", "write_parquet_s", "s"),
    ):
        sys.stdout.write(f"{told:64} {found[name]:10,.2f} {unit}\n")


if __name__ == "__main__":
    main()
