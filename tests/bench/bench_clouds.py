"""Many clouds on this machine: memory, CPU, tables and admissions, by number of clouds.

    python -m tests.bench.bench_clouds [--clouds 10 50 200] [--workers 1] [--samples 10000] [--json FILE]

Each cloud has 50 nodes of 4 cores and plays a load of its own at speed 1, after ``HISTORY`` of it; owners
share processes as under ``spotfed up``. All clouds open at once, so all first tables are due at once.

- ``ready_s``: until all clouds are there. ``tables_s``: from then until all have a table. ``tables_cpu_s``:
  seconds of CPU that the Monte-Carlo workers have then used, their start included.
- At rest: no requests, ``STREAMS`` readers of the event stream and one who lists the clouds every second.
  ``X_mb`` is the memory of the kind of process alone (USS), ``X_cpu`` per cent of a core over ``REST_S``.
- ``one_s``, ``list_s``: admissions a second, one by one and in lists of ``LIST``; ``X_one_ms`` and
  ``X_list_ms``: milliseconds of CPU an admission beyond those at rest. A busy machine changes them less.

The last line is what the first two predict for the last: a fixed part, and one for each cloud; CPU an
admission is predicted to stay.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from broker.client import Client, ClientError
from broker.contract import SpotRequest
from broker.local import federation as local
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from tests.support.ports import free_port
from tests.support.wait import wait_until

REST_S = 20.0
#: Clouds make their first table after a day.
HISTORY = "24h"
TABLES_S = 3600.0
STREAMS = 4
SINGLE, LISTS, LIST = 200, 10, 100
KINDS = ("owners", "api", "queue", "workers")
GROWING = ("tables_s", "tables_cpu_s", *(f"{kind}_{what}" for what in ("mb", "cpu") for kind in KINDS))

CLOUD = """
[[cloud]]
id = "c{number}"
nodes = "50x4"
trace = {{ synthetic = "table-1", hours = 240, seed = {number} }}
"""

Use = dict[str, tuple[float, float]]


def measure(clouds: int, directory: Path, workers: int, samples: int) -> dict[str, float]:
    """One line."""
    file = directory / "federation.toml"
    file.write_text("".join(CLOUD.format(number=number) for number in range(clouds)))
    names = tuple(f"c{number}" for number in range(clouds))
    options = wall_time(speed=1.0, history=HISTORY, samples=samples, seed=0)
    processes = ProcessList(file, names, options, monte_carlo=workers, port=free_port())
    began_s = time.monotonic()
    with LocalFederation(processes, directory / "state") as federation:
        ready_s = time.monotonic() - began_s
        line = {"clouds": float(clouds), "ready_s": round(ready_s, 1)} | _tables(federation, clouds)
        with _watchers(federation):
            time.sleep(REST_S / 2)
            before = resources(federation)
            time.sleep(REST_S)
            after = resources(federation)
            for kind in KINDS:
                line[f"{kind}_mb"] = round(after[kind][0] / 1e6, 1)
                line[f"{kind}_cpu"] = round(100 * (after[kind][1] - before[kind][1]) / REST_S, 1)
            return line | _admissions(federation, line)


def _tables(federation: LocalFederation, clouds: int) -> dict[str, float]:
    began_s = time.monotonic()
    with federation.client() as client:

        def made() -> bool:
            with suppress(ClientError):
                views = client.clouds.list()
                return sum(bool(view.advert and view.advert.table_version) for view in views) == clouds
            return False

        wait_until(made, "all tables", limit_s=TABLES_S)
    cpu_s = resources(federation)["workers"][1]
    return {"tables_s": round(time.monotonic() - began_s, 1), "tables_cpu_s": round(cpu_s, 2)}


def resources(federation: LocalFederation) -> Use:
    """Bytes of memory and seconds of CPU by kind of process."""
    found: Use = dict.fromkeys(KINDS, (0.0, 0.0))
    for name, pid in federation.pids.items():
        kind = {"cloud": "owners", "montecarlo": "workers"}.get(name.partition("-")[0], name)
        if kind in found:
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                used, cpu = one.memory_full_info().uss, one.cpu_times()
                found[kind] = found[kind][0] + used, found[kind][1] + cpu.user + cpu.system
    return found


@contextmanager
def _watchers(federation: LocalFederation) -> Iterator[None]:
    """Readers of the event stream, and one who lists all clouds as the dashboard does."""
    ends = threading.Event()

    def follow(client: Client) -> None:
        with suppress(Exception):  # when the client is closed
            for _ in client.events.stream():
                if ends.is_set():
                    return

    def look(client: Client) -> None:
        while not ends.wait(1.0):
            with suppress(ClientError):
                client.clouds.list()

    with ExitStack() as clients:
        for watch in (*[follow] * STREAMS, look):
            client = clients.enter_context(federation.client())
            threading.Thread(target=watch, args=(client,), daemon=True).start()
        yield
        ends.set()


def _admissions(federation: LocalFederation, rest: dict[str, float]) -> dict[str, float]:
    def ask(number: int) -> SpotRequest:
        return SpotRequest(id=f"r{number}", origin="user", cores=1, lifetime_s=600.0)

    with federation.client() as client:
        line: dict[str, float] = {}
        lists = [[ask(SINGLE + first * LIST + number) for number in range(LIST)] for first in range(LISTS)]
        for name, calls in (("one", [[ask(number)] for number in range(SINGLE)]), ("list", lists)):
            before, began_s = resources(federation), time.perf_counter()
            for call in calls:
                client.requests.submit(call[0]) if name == "one" else client.requests.submit_many(call)
            count, took_s, after = sum(map(len, calls)), time.perf_counter() - began_s, resources(federation)
            line[f"{name}_s"] = round(count / took_s)
            for kind in ("owners", "api", "queue"):
                spent_s = after[kind][1] - before[kind][1] - took_s * rest[f"{kind}_cpu"] / 100
                line[f"{kind}_{name}_ms"] = round(1e3 * spent_s / count, 2)
        return line


def predict(lines: list[dict[str, float]]) -> dict[str, float]:
    """What the first two lines say of the last one's number of clouds."""
    first, second, last = lines[0], lines[1], lines[-1]
    told = {name: value for name, value in second.items() if name.endswith("_ms")}
    for name in GROWING:
        each = (second[name] - first[name]) / (second["clouds"] - first["clouds"])
        told[name] = round(first[name] + each * (last["clouds"] - first["clouds"]), 1)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clouds", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="file for the lines")
    arguments = parser.parse_args()
    local.START_LIMIT_S = 1200.0
    lines: list[dict[str, float]] = []
    for clouds in arguments.clouds:
        with tempfile.TemporaryDirectory() as directory:
            lines.append(measure(clouds, Path(directory), arguments.workers, arguments.samples))
        if arguments.json:
            arguments.json.write_text(json.dumps(lines, indent=1))
        sys.stdout.write("  ".join(f"{name} {value:g}" for name, value in lines[-1].items()) + "\n")
        sys.stdout.flush()
    if len(lines) > 2:
        sys.stdout.write("\n")
        for name, value in (lines[-1] | predict(lines)).items():
            measured = lines[-1][name]
            told = f"predicted {value:g}" if name in predict(lines) else ""
            sys.stdout.write(f"{name:>16}  " + "  ".join(f"{line[name]:>9g}" for line in lines))
            sys.stdout.write(f"  {told:<18} {measured / value:.2f}\n" if told and value else "\n")


if __name__ == "__main__":
    main()
