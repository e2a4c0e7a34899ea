"""The paper's Figure 2 on both schedulers: ours beside OpenStack's own handlers, interleaved on the same
machine.

    python -m tests.bench.nova.compare [--hosts 24,100,1000,10000] [--rounds 5] [--requests 130]
        [--size small] [--out out/bench-nova]

Runs in .venv and starts ``nova_side`` in .venv-nova (``make bench-nova`` makes both). A round of requests
goes to ours, to nova's handlers in their default line-up and to nova's handlers with our filters only
(``alike``), the first of them changing from round to round; every party begins each round on an
infrastructure of its own, equal to the others'. Times are of the process, so other work on the machine
disturbs little. Writes ``figure_2.csv`` (a line a case and party), ``figure_2.json`` (with every request's
time) and ``figure_2.png`` into ``--out``.

Our side is ``tests.bench.nova.our_side``, a module with

    measure(hosts: int, scenario: Scenario, requests: int) -> list[float]

It makes the infrastructure of the scenario (``scenarios.py``: sizes of hosts and instances,
``run_times_s``), sends so many requests one after the other and returns, in their order, the ms of process
time that each took from the request to the changed states: the host found, victims chosen and ended, the
instance taken in. It warms itself up, makes hosts and requests outside the time, calls ``gc.freeze``
before, and raises when a request is refused, or ends instances on an empty infrastructure or none on a
saturated one, as ``nova_side.measure`` does.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.bench.nova import drawing, our_side
from tests.bench.nova.scenarios import FIGURE_2, Scenario
from tests.bench.nova.table import OURS, Measured, rows

ROOT = Path(__file__).resolve().parents[3]
NOVA_PYTHON = ROOT / ".venv-nova" / "bin" / "python"
#: From so many hosts on two rounds will do, and from so many, where a request of nova's takes a second, a
#: tenth of the requests.
MANY_HOSTS, VERY_MANY_HOSTS = 500, 5000
FEW_ROUNDS = 2

#: Beside the figure: requests that more than one instance must leave for.
LARGE = (
    Scenario("aware", state="saturated", size="large"),
    Scenario("retry", state="saturated", size="large"),
)

Measure = Callable[[int, Scenario, int], list[float]]


class Nova:
    """A running ``nova_side``, asked case by case."""

    def __init__(self, process: subprocess.Popen[str], cases: IO[str], results: IO[str]) -> None:
        self._process, self._cases, self._results = process, cases, results

    def measure(self, line_up: str, hosts: int, scenario: Scenario, requests: int) -> list[float]:
        """One round of nova's in one of its line-ups; a ``RuntimeError`` when its process has ended."""
        case = {"line_up": line_up, "hosts": hosts, "requests": requests, **scenario.as_row()}
        self._cases.write(json.dumps(case) + "\n")
        self._cases.flush()
        line = self._results.readline()
        if not line:
            raise RuntimeError(f"nova_side ended with {self._process.wait()} at {case}; its error is above")
        ms: list[float] = json.loads(line)["ms"]
        return ms


@contextmanager
def nova() -> Iterator[Nova]:
    """Nova's side in its own virtual environment, until the end of the block."""
    if not NOVA_PYTHON.exists():
        raise SystemExit("compare: no .venv-nova; run 'make bench-nova', or sh tests/bench/nova/setup.sh")
    command = [str(NOVA_PYTHON), "-W", "ignore", "-m", "tests.bench.nova.nova_side", "--serve"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Nova(process, process.stdin, process.stdout)
        finally:
            process.terminate()


def cases(hosts: Sequence[int], size: str) -> Iterator[tuple[int, Scenario]]:
    """Figure 2's scenarios at every number of hosts, and the large requests beside them."""
    for count in hosts:
        figure = tuple(Scenario(one.scheduler, one.state, one.kind, size) for one in FIGURE_2)
        for one in dict.fromkeys(figure + LARGE):
            yield count, one


def interleaved(
    parties: dict[str, Measure], hosts: int, scenario: Scenario, requests: int, rounds: int
) -> list[Measured]:
    """Rounds of one case, the parties in turn."""
    names = list(parties)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            ms = parties[name](hosts, scenario, requests)
            assert len(ms) == requests, f"{name} returned {len(ms)} times for {requests} requests"
            taken[name] += ms
    return [Measured(name, hosts, scenario, tuple(taken[name])) for name in names]


def write(measured: Sequence[Measured], size: str, out: Path) -> None:
    """CSV, JSON and picture, this of the requests of one size."""
    out.mkdir(parents=True, exist_ok=True)
    table = rows(measured)
    with (out / "figure_2.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)
    whole = [row | {"ms": list(one.ms)} for row, one in zip(table, measured, strict=True)]
    (out / "figure_2.json").write_text(json.dumps(whole) + "\n", encoding="utf-8")
    drawing.save(drawing.figure([row for row in table if row["size"] == size]), out / "figure_2.png")


def show(table: Sequence[dict[str, Any]]) -> None:
    """The rows of one case, a line each."""
    for row in table:
        wish = f"{row['size']} {row['kind']}"
        case = f"{row['hosts']:6,} hosts  {row['state']:9}  {wish:17}  {row['scheduler']:5}"
        figures = f"median {row['median_ms']:10.4f} ms  mean {row['mean_ms']:10.4f} ms  {row['ratio']:8.1f} x"
        print(f"{case}  {row['party']:12}  {figures}", flush=True)


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", default="24,100,1000", help="numbers of hosts, with commas between")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--requests",
        type=int,
        default=130,
        help=f"in a round, as many as fit; a tenth from {VERY_MANY_HOSTS} hosts on",
    )
    parser.add_argument("--size", default="small", choices=("small", "medium", "large"))
    parser.add_argument("--out", type=Path, default=Path("out/bench-nova"))
    arguments = parser.parse_args()
    hosts = [int(count) for count in arguments.hosts.split(",")]
    measured: list[Measured] = []
    with nova() as theirs:
        parties: dict[str, Measure] = {
            OURS: our_side.measure,
            "nova": lambda *case: theirs.measure("default", *case),
            "nova alike": lambda *case: theirs.measure("alike", *case),
        }
        for count, scenario in cases(hosts, arguments.size):
            share = 10 if count >= VERY_MANY_HOSTS else 1
            requests = min(arguments.requests // share or 1, scenario.most(count))
            rounds = min(arguments.rounds, FEW_ROUNDS) if count >= MANY_HOSTS else arguments.rounds
            found = interleaved(parties, count, scenario, requests, rounds)
            show(rows(found))
            measured += found
    write(measured, arguments.size, arguments.out)


if __name__ == "__main__":
    main()
