"""Many clouds on this machine: memory, CPU at rest, and admissions, by number of clouds.

    python -m tests.bench.bench_clouds [--clouds 10 50 200]

Each cloud has 50 nodes of 4 cores and plays a load of its own at speed 1; owners share processes as under
``spotfed up``. ``owners_mb`` and ``owners_cpu`` are of all owner processes together: memory of their own
(USS), and per cent of a core over ``REST_S`` seconds without requests; others likewise. ``one_s`` and
``list_s`` are admissions a second, one by one and in lists of ``LIST``. The last line is what the first two
predict for the last: a fixed part, and one for each cloud.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil

from broker.contract import SpotRequest
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from tests.support.ports import free_port

REST_S = 20.0
SINGLE, LISTS, LIST = 200, 10, 100
MEASURED = ("owners_mb", "owners_cpu", "api_mb", "api_cpu", "queue_mb", "queue_cpu")

CLOUD = """
[[cloud]]
id = "c{number}"
nodes = "50x4"
trace = {{ synthetic = "table-1", hours = 240, seed = {number} }}
"""


def measure(clouds: int, directory: Path) -> dict[str, float]:
    """One line."""
    file = directory / "federation.toml"
    file.write_text("".join(CLOUD.format(number=number) for number in range(clouds)))
    names = tuple(f"c{number}" for number in range(clouds))
    options = wall_time(speed=1.0, history="1h", samples=200, seed=0)
    processes = ProcessList(file, names, options, port=free_port())
    began_s = time.monotonic()
    with LocalFederation(processes, directory / "state") as federation:
        ready_s = time.monotonic() - began_s
        time.sleep(REST_S / 2)
        before = _resources(federation)
        time.sleep(REST_S)
        after = _resources(federation)
        line = {"clouds": float(clouds), "ready_s": round(ready_s, 1)}
        for kind in ("owners", "api", "queue"):
            line[f"{kind}_mb"] = round(after[kind][0] / 1e6, 1)
            line[f"{kind}_cpu"] = round(100 * (after[kind][1] - before[kind][1]) / REST_S, 1)
        return line | _admissions(federation)


def _resources(federation: LocalFederation) -> dict[str, tuple[float, float]]:
    """Bytes of memory and seconds of CPU by kind of process."""
    found = {"owners": (0.0, 0.0), "api": (0.0, 0.0), "queue": (0.0, 0.0)}
    for name, pid in federation.pids.items():
        kind = "owners" if name.startswith("cloud-") else name
        if kind in found:
            process = psutil.Process(pid)
            for one in (process, *process.children(recursive=True)):
                used, cpu = one.memory_full_info().uss, one.cpu_times()
                found[kind] = found[kind][0] + used, found[kind][1] + cpu.user + cpu.system
    return found


def _admissions(federation: LocalFederation) -> dict[str, float]:
    def ask(number: int) -> SpotRequest:
        return SpotRequest(id=f"r{number}", origin="user", cores=1, lifetime_s=600.0)

    with federation.client() as client:
        began_s = time.perf_counter()
        for number in range(SINGLE):
            client.requests.submit(ask(number))
        one_s = time.perf_counter() - began_s
        began_s = time.perf_counter()
        for first in range(LISTS):
            client.requests.submit_many([ask(SINGLE + first * LIST + number) for number in range(LIST)])
        list_s = time.perf_counter() - began_s
    return {"one_s": round(SINGLE / one_s), "list_s": round(LISTS * LIST / list_s)}


def predict(lines: list[dict[str, float]]) -> dict[str, float]:
    """What the first two lines say of the last one's number of clouds."""
    first, second, last = lines[0], lines[1], lines[-1]
    told = {}
    for name in MEASURED:
        each = (second[name] - first[name]) / (second["clouds"] - first["clouds"])
        told[name] = round(first[name] + each * (last["clouds"] - first["clouds"]), 1)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clouds", type=int, nargs="+", default=[10, 50, 200])
    lines: list[dict[str, float]] = []
    for clouds in parser.parse_args().clouds:
        with tempfile.TemporaryDirectory() as directory:
            lines.append(measure(clouds, Path(directory)))
        if len(lines) == 1:
            sys.stdout.write("  ".join(lines[0]) + "\n")
        _write(lines[-1], lines[0])
    if len(lines) > 2:
        sys.stdout.write("predicted:\n")
        _write({"clouds": lines[-1]["clouds"]} | predict(lines), lines[0])


def _write(line: dict[str, float], columns: dict[str, float]) -> None:
    sys.stdout.write("  ".join(f"{line.get(name, ''):>{len(name)}}" for name in columns) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
