"""The papers' production clouds, whole: what `make acceptance` runs, and short forms of it in the tests.

    python -m tests.deep.acceptance.production [--births 10000] [--until 10d] [--skip-live]

Baseline counts against those of the design notes; the promise at 0.01 on the four pairs; the federation of
all four clouds in process, and live with one and with three Monte-Carlo workers, and with an owner killed on
the way.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from broker.cli import live_run
from broker.cli.live_run import LiveRun
from broker.settings import settings
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.file import load_federation
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.model.durations import parse_duration_s
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats import read

DAY_S = 86400.0
TRACES = {"A": "DS2", "B": "DS3", "C": "DS5", "D": "DS6"}
FULL_PLATFORM = {"A-B": "7x12", "B-A": "7x8", "C-D": "31x32", "D-C": "31x32"}
SLA = 0.01
FEDERATION_FILE = Path(__file__).resolve().parents[3] / "deploy" / "federations" / "production.toml"

#: pair, nodes, on-demand requests and admitted, spot requests, admitted and evicted
BASELINE = [
    ("A-B", "7x12", 900, 899, 2600, 2600, 9),
    ("A-B", "6x12", 900, 879, 2600, 2599, 29),
    ("A-B", "5x12", 900, 833, 2600, 2568, 61),
    ("A-B", "4x12", 900, 763, 2600, 2483, 64),
    ("B-A", "7x8", 2600, 2600, 899, 760, 9),
    ("B-A", "6x8", 2600, 2600, 899, 731, 17),
    ("B-A", "5x8", 2600, 2595, 899, 704, 35),
    ("B-A", "4x8", 2600, 2579, 899, 680, 49),
    ("C-D", "31x32", 8456, 8456, 3750, 3482, 48),
    ("C-D", "26x32", 8456, 8453, 3750, 3405, 67),
    ("C-D", "21x32", 8456, 8361, 3750, 3118, 53),
    ("C-D", "16x32", 8456, 8110, 3750, 2847, 77),
    ("D-C", "31x32", 4157, 4157, 8456, 8177, 96),
    ("D-C", "26x32", 4157, 4143, 8456, 7989, 125),
    ("D-C", "21x32", 4157, 4105, 8456, 7766, 121),
    ("D-C", "16x32", 4157, 3913, 8456, 6030, 287),
]

#: At SLA 0.01, 10,000 births a size: at least this share of spot requests is admitted.
LEAST_ADMITTED = {"A-B": 0.90, "B-A": 0.82, "C-D": 0.90, "D-C": 0.93}


def co_schedule(
    data_dir: Path, pair: str, nodes: str, sla: float | None, *, births: int, until_s: float = float("inf")
) -> dict[str, Any]:
    """The first trace of the pair as on-demand load, the second a day later as spot (P1 §III-D)."""
    on_demand, spot = (
        read(data_dir / "eucalyptus" / f"{TRACES[name]}-trace.txt")[0] for name in pair.split("-")
    )
    cloud = FederatedCloud(CloudSpec("cloud", parse_nodes(nodes)), nodes, on_demand)
    workload = Workload("spot", spot, DAY_S, sla, ("cloud",))
    return replay(Federation((cloud,), (workload,), until_s), seed=0, births=births)


def counts(report: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """On-demand requests and admitted, spot requests, admitted and evicted."""
    on_demand, total = report["clouds"]["cloud"]["on_demand"], report["total"]
    assert total["completed"] + total["evicted"] == total["admitted"]
    return (
        on_demand["requests"],
        on_demand["admitted"],
        total["requests"],
        total["admitted"],
        total["evicted"],
    )


def live(
    data_dir: Path, until: str | None, births: int, monte_carlo: int, kill: tuple[str, int] | None
) -> dict[str, Any]:
    """The production federation through HTTP, Celery and Redis. ``kill``: an owner, after which request."""
    until_s = parse_duration_s(until, field="until") if until else None
    federation = load_federation(FEDERATION_FILE, data_dir, until_s=until_s)
    run = LiveRun(FEDERATION_FILE, federation, until, births, 0, monte_carlo)
    requests = 0
    with live_run.start(run, lambda _: None) as local:
        before = dict(local.pids)

        def told(*_: Any) -> None:
            nonlocal requests
            requests += 1
            if kill is not None and requests == kill[1]:
                os.kill(local.pids[f"cloud-{kill[0]}"], signal.SIGKILL)

        report = live_run.drive(run, local, told)
        if kill is not None:
            assert local.pids[f"cloud-{kill[0]}"] != before[f"cloud-{kill[0]}"], "it was not killed"
    return report


def main() -> int:
    """Prints every figure; exit code 1 when one misses its mark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--births", type=int, default=10_000)
    parser.add_argument("--until", default=None, help="of the federation, for example 10d")
    parser.add_argument("--skip-live", action="store_true")
    arguments = parser.parse_args()
    data_dir = settings().data
    if data_dir is None:
        sys.stdout.write("no recorded traces: set SPOTFED_DATA to their directory\n")
        return 1
    missed: list[str] = []

    def say(text: str, held: bool) -> None:
        sys.stdout.write(f"{'ok    ' if held else 'MISSED'} {text}\n")
        sys.stdout.flush()
        if not held:
            missed.append(text)

    for pair, nodes, *expected in BASELINE:
        found = counts(co_schedule(data_dir, pair, nodes, None, births=arguments.births))
        say(f"baseline {pair} {nodes}: {found}", list(found) == expected)
    for pair, nodes in FULL_PLATFORM.items():
        start_s = time.monotonic()
        report = co_schedule(data_dir, pair, nodes, SLA, births=arguments.births)
        _, on_demand, requests, admitted, evicted = counts(report)
        least = next(row[3] for row in BASELINE if row[:2] == (pair, nodes))
        work = report["origins"]["spot"]["spot_core_hours"]
        say(
            f"SLA {SLA} {pair} {nodes}: admitted {admitted}/{requests} = {admitted / requests:.4f}, "
            f"evicted {evicted} = {evicted / admitted:.5f}, on-demand {on_demand} (baseline {least}), "
            f"core-hours completed {work['completed']:.0f} of {work['requested']:.0f}, "
            f"lost {work['lost']:.0f}, "
            f"{time.monotonic() - start_s:.1f} s",
            admitted >= LEAST_ADMITTED[pair] * requests
            and evicted <= SLA * admitted
            and on_demand >= 0.999 * least,
        )
    until_s = parse_duration_s(arguments.until, field="--until") if arguments.until else None
    start_s = time.monotonic()
    expected_report = replay(
        load_federation(FEDERATION_FILE, data_dir, until_s=until_s), seed=0, births=arguments.births
    )
    total = expected_report["total"]
    say(
        f"federation in process: {total}, {time.monotonic() - start_s:.1f} s",
        total["evicted"] <= SLA * total["admitted"],
    )
    if not arguments.skip_live:
        for monte_carlo, kill in ((1, None), (3, None), (2, ("C", total["requests"] // 2))):
            start_s = time.monotonic()
            report = live(data_dir, arguments.until, arguments.births, monte_carlo, kill)
            say(
                f"federation live, {monte_carlo} Monte-Carlo workers, "
                f"{'owner killed' if kill else 'nobody killed'}: the same report, "
                f"{time.monotonic() - start_s:.1f} s",
                report == expected_report,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
