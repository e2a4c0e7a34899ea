"""A live federation gives the report of the replay, however many workers it has, and with an owner killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.cli import live_run
from broker.cli.federate import load_federation
from broker.cli.live_run import LiveRun
from broker.settings import settings
from cloudsim.federation.replay import replay

pytestmark = pytest.mark.xdist_group("federation")

SAMPLES, SEED = 200, 3
# Both promises and none, sizes that fit nowhere, and enough load that spot instances are evicted.
FEDERATION = """
[[cloud]]
id = "north"
nodes = "4x4"
trace = { synthetic = "table-1", hours = 32, seed = 1 }

[[cloud]]
id = "south"
nodes = "8x4"
trace = { synthetic = "table-1", hours = 32, seed = 2 }

[[cloud]]
id = "east"
nodes = "2x16"
trace = { synthetic = "production-B", days = 2, seed = 5 }

[[workload]]
origin = "north"
trace = { synthetic = "table-1", hours = 1, seed = 3 }
delay = "24h"
sla = 0.1

[[workload]]
origin = "guest"
trace = { synthetic = "production-D", days = 1, seed = 4 }
delay = "24h"
targets = ["north", "south"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION)
    return path


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("SPOTFED_REDIS_URL", raising=False)
    monkeypatch.setenv("SPOTFED_STATE_DIR", str(tmp_path))
    settings.cache_clear()
    yield
    settings.cache_clear()


def live(file: Path, monte_carlo: int, kill_at: int | None = None) -> tuple[dict[str, Any], list[int]]:
    """The report of a live run, and its processes. An owner is killed after request ``kill_at``."""
    federation = load_federation(file, "27h")
    run = LiveRun(file, federation, "27h", SAMPLES, SEED, monte_carlo)
    said: list[str] = []
    requests = 0
    with live_run.start(run, said.append) as local:
        pids = dict(local.pids)

        def told(*_: Any) -> None:
            nonlocal requests
            requests += 1
            if requests == kill_at:
                os.kill(local.pids["cloud-south"], signal.SIGKILL)

        report = live_run.drive(run, local, told)
        if kill_at is not None:
            assert local.pids["cloud-south"] != pids["cloud-south"]
            assert any("cloud-south was killed by signal 9" in line for line in said)
    return report, list(pids.values())


@pytest.mark.parametrize(("monte_carlo", "kill_at"), [(1, None), (3, None), (1, 60)])
def test_live_equals_replay(file: Path, monte_carlo: int, kill_at: int | None) -> None:
    expected = replay(load_federation(file, "27h"), seed=SEED, births=SAMPLES)
    assert expected["total"]["requests"] > 100
    assert expected["total"]["evicted"] > 0
    assert expected["clouds"]["south"]["refusals"].keys() >= {"too_large", "no_capacity", "risk_too_high"}
    report, pids = live(file, monte_carlo, kill_at)
    assert report == expected
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


PRODUCTS = """
[[workload]]
origin = "other"
trace = { synthetic = "table-1", hours = 1, seed = 9 }
delay = "25h"
sla = 0.2

[[workload]]
origin = "other"
trace = { synthetic = "table-1", hours = 1, seed = 8 }
delay = "25h"
sla = 0.4
pool = 1
targets = ["north"]
"""


def test_so_it_is_with_pools_and_fixed_durations(file: Path) -> None:
    pooled = FEDERATION.replace('nodes = "4x4"\n', 'nodes = "4x4"\neviction = "lifo-pools"\npools = 2\n')
    sliced = pooled.replace('nodes = "8x4"\n', 'nodes = "8x4"\neviction = "fifo"\nslices_h = [0.1, 0.5, 2]\n')
    file.write_text(sliced + PRODUCTS)
    expected = replay(load_federation(file, "27h"), seed=SEED, births=SAMPLES)
    assert expected["total"]["evicted"] > 0
    assert expected["clouds"]["north"]["spot"]["admitted"] > 0
    assert expected["clouds"]["south"]["refusals"]["no_such_product"] > 0
    assert live(file, 1)[0] == expected
