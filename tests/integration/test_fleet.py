"""Fleets against a broker and clouds whose own users want their cores back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.client import Client, InputRefusedError, UnavailableError
from broker.client.resources.requests import RequestsResource
from broker.contract import LeaseState, OnDemandRequest, SpotRequest
from broker.fleet.commands import Commands
from broker.fleet.controller import FleetController, FleetSpec
from broker.fleet.events import FleetEvent, FleetEventKind
from broker.fleet.state_file import FleetFile
from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList, wall_time
from tests.contract.harness import KEY, Federation, serving
from tests.support.ports import free_port
from tests.support.wait import wait_until

ROOT = Path(__file__).resolve().parents[2]
SPOTFED = (sys.executable, "-c", "from broker.cli import main; main()")
WISH = FleetSpec(
    "night", 3, SpotRequest(origin="lab", cores=1, lifetime_s=3600.0), cool_down_s=1000.0, poll_s=0.1
)

pytestmark = pytest.mark.xdist_group("federation")


@pytest.fixture
def federation(redis_url: str) -> Iterator[Federation]:
    with serving(Federation(redis_url)) as made:
        made.join("north", (4,))
        made.join("south", (2, 2))
        yield made


@pytest.fixture
def client(federation: Federation) -> Iterator[Client]:
    with Client(federation.url, KEY, deadline_s=60.0) as made:
        yield made


def running(client: Client) -> dict[str, str]:
    """Clouds of the leases that run, by id."""
    return {one.id: one.cloud for one in client.leases.list(state=LeaseState.RUNNING, origin="lab").leases}


class Kept:
    """A keeper in this process, and what it told."""

    def __init__(
        self, stack: ExitStack, client: Client, directory: Path, wish: FleetSpec = WISH, **commands: str
    ):
        self.told: list[FleetEvent] = []
        file = FleetFile(directory, wish.name)
        kept = stack.enter_context(file.lock())
        made = Commands(commands.get("on_start"), commands.get("on_end"))
        self.keeper = FleetController(client, wish, file, kept, made, self.told.append)

    @property
    def kinds(self) -> list[FleetEventKind]:
        return [one.kind for one in self.told]

    def rounds_until(self, condition: Callable[[], Any], what: str) -> Any:
        def after_a_round() -> Any:
            self.keeper.run_round()
            return condition()

        return wait_until(after_a_round, what)


@contextmanager
def kept(client: Client, directory: Path, wish: FleetSpec = WISH, **commands: str) -> Iterator[Kept]:
    with ExitStack() as stack:
        yield Kept(stack, client, directory, wish, **commands)


def test_what_is_evicted_is_replaced_elsewhere_and_all_is_returned(client: Client, tmp_path: Path) -> None:
    wish = replace(WISH, request=WISH.request.model_copy(update={"targets": ("north", "south")}))
    ends = (
        f'echo "$SPOTFED_LEASE $SPOTFED_CLOUD $SPOTFED_CORES $SPOTFED_FLEET $SPOTFED_END" >> {tmp_path}/ends'
    )
    with kept(client, tmp_path, wish, on_end=ends) as fleet:
        fleet.keeper.run_round()
        first = running(client)
        assert len(first) == 3
        taken = next(iter(first.values()))
        client.on_demand.start(taken, OnDemandRequest(id="own.1", cores=4 if taken == "north" else 2))
        gone = wait_until(lambda: first.keys() - running(client).keys(), "an eviction")
        fleet.rounds_until(lambda: len(running(client)) == 3, "it is replaced")
        added = running(client).keys() - first.keys()
        other = "south" if taken == "north" else "north"
        assert {running(client)[lease] for lease in added} == {other}
        evicted = [one for one in fleet.told if one.kind is FleetEventKind.EVICTED]
        assert {one.lease for one in evicted} == gone
        assert fleet.keeper.give_back() == []
        assert running(client) == {}
        lines = (tmp_path / "ends").read_text().splitlines()
        assert sorted(lines) == sorted(
            [f"{lease} {taken} 1 night evicted" for lease in gone]
            + [f"{lease} {first.get(lease) or other} 1 night returned" for lease in {*first, *added} - gone]
        )
        assert fleet.keeper.totals.counts[FleetEventKind.RETURNED] == 3
    assert not (tmp_path / "fleets" / "night.json").exists()


def test_ends_are_put_off(client: Client, tmp_path: Path) -> None:
    request = WISH.request.model_copy(update={"lifetime_s": 8.0})
    with kept(client, tmp_path, replace(WISH, request=request)) as fleet:
        fleet.keeper.run_round()
        first = running(client)

        def all_extended() -> bool:
            client.requests.quote(request)  # these clouds look at the clock when they are asked something
            extended = {one.lease for one in fleet.told if one.kind is FleetEventKind.EXTENDED}
            return extended == first.keys()

        fleet.rounds_until(all_extended, "each is extended")
        assert running(client) == first
        assert min(fleet.keeper.market.left_s(one.lease) for one in fleet.keeper.members.values()) > 2.0
        fleet.keeper.give_back()


def test_what_is_noticed_is_replaced_before_it_leaves(redis_url: str, tmp_path: Path) -> None:
    with serving(Federation(redis_url)) as federation:
        federation.join("north", (2,), grace_s=1000.0)
        with Client(federation.url, KEY) as client:
            wish = replace(WISH, instances=2)
            with kept(client, tmp_path, wish) as fleet:
                fleet.keeper.run_round()
                client.clouds.drain("north")
                federation.join("south", (4,))
                fleet.rounds_until(lambda: len(running(client)) == 4, "others stand beside those who leave")
                assert list(running(client).values()).count("south") == 2
                fleet.keeper.give_back()
                assert running(client) == {}


def test_without_room_there_are_fewer_and_later_all(client: Client, tmp_path: Path) -> None:
    for cloud in ("north", "south"):
        for number in range(2):
            client.on_demand.start(cloud, OnDemandRequest(id=f"{cloud}.{number}", cores=2))
    with kept(client, tmp_path) as fleet:
        fleet.rounds_until(lambda: FleetEventKind.REFUSED in fleet.kinds, "a refusal")
        assert running(client) == {}
        assert next(one.detail for one in fleet.told if one.kind is FleetEventKind.REFUSED) == "no_capacity"
        client.on_demand.stop("south", "south.0")
        fleet.rounds_until(lambda: len(running(client)) == 2, "as many as there is room for")
        client.on_demand.stop("south", "south.1")
        fleet.rounds_until(lambda: len(running(client)) == 3, "all")
        fleet.keeper.give_back()


def test_the_next_keeper_goes_on_where_answers_were_lost(client: Client, tmp_path: Path) -> None:
    class Deaf(RequestsResource):
        """Its requests arrive, and the answers do not."""

        def submit_many(self, requests: Any) -> Any:
            super().submit_many(requests)
            raise UnavailableError("it does not answer")

    with Client(str(client._http.base_url), KEY) as deaf, kept(deaf, tmp_path) as fleet:
        deaf.requests = Deaf(deaf._transport)
        fleet.keeper.run_round()
        fleet.keeper.run_round()
        assert fleet.kinds == [FleetEventKind.AWAY]
    first = wait_until(lambda: running(client) if len(running(client)) == 3 else None, "three run")
    with kept(client, tmp_path) as fleet:
        fleet.keeper.run_round()
        assert fleet.kinds == [FleetEventKind.ADMITTED] * 3
        assert fleet.keeper.members.keys() == first.keys()
        fleet.keeper.run_round()
        assert running(client) == first
    (tmp_path / "fleets" / "night.json").unlink()
    with kept(client, tmp_path, replace(WISH, instances=2)) as fleet:
        fleet.keeper.run_round()
        assert fleet.kinds == [FleetEventKind.FOUND] * 3 + [FleetEventKind.RETURNED]
        assert len(running(client)) == 2
        fleet.keeper.give_back()
        assert running(client) == {}


def test_while_the_broker_is_away_nothing_is_lost(federation: Federation, tmp_path: Path) -> None:
    with Client(federation.url, KEY, deadline_s=0.3) as client, kept(client, tmp_path) as fleet:
        fleet.keeper.run_round()
        first = running(client)
        send = client._transport.send
        client._transport.send = lambda *_, **__: (_ for _ in ()).throw(UnavailableError("away"))  # type: ignore[method-assign]
        for _ in range(3):
            fleet.keeper.run_round()
        assert fleet.kinds.count(FleetEventKind.AWAY) == 1
        assert fleet.keeper.members.keys() == first.keys()
        assert sorted(fleet.keeper.give_back(limit_s=0.2)) == sorted(first)
        client._transport.send = send  # type: ignore[method-assign]
        fleet.keeper.run_round()
        assert fleet.kinds[-1] is FleetEventKind.BACK
        assert running(client) == first
        assert fleet.keeper.give_back() == []


def test_what_can_never_be_had_ends_it(client: Client, tmp_path: Path) -> None:
    wish = replace(WISH, request=WISH.request.model_copy(update={"cores": 5}))
    with kept(client, tmp_path, wish) as fleet:
        with pytest.raises(InputRefusedError, match="cores"):
            fleet.keeper.keep(threading.Event(), None, lambda: None)
        assert fleet.keeper.give_back() == []


# -- the command ---------------------------------------------------------------------------------------------


class Told:
    """The environment of ``spotfed`` for a federation."""

    def __init__(self, federation: Federation, directory: Path):
        own = {name: value for name, value in os.environ.items() if not name.startswith("SPOTFED_")}
        self.environment = {
            **own,
            "SPOTFED_URL": federation.url,
            "SPOTFED_API_KEY": KEY,
            "SPOTFED_STATE_DIR": str(directory),
            "PYTHONPATH": str(ROOT),
        }

    def spotfed(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*SPOTFED, *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    @contextmanager
    def keeping(self, *more: str) -> Iterator[subprocess.Popen[str]]:
        """A keeper; what is left of it is killed."""
        options = (
            "--instances",
            "3",
            "--sla",
            "none",
            "--origin",
            "lab",
            "--name",
            "night",
            "--poll",
            "0.1s",
        )
        with subprocess.Popen(
            [*SPOTFED, "fleet", "keep", *options, *more],
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def told(federation: Federation, tmp_path: Path) -> Told:
    return Told(federation, tmp_path)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def all_run(client: Client) -> dict[str, str] | None:
    found = running(client)
    return found if len(found) == 3 else None


def test_killed_it_goes_on_and_in_the_end_all_is_returned(told: Told, client: Client, tmp_path: Path) -> None:
    starts = f"echo $SPOTFED_LEASE >> {tmp_path}/starts; exec sleep 1000"
    with told.keeping("--on-start", starts) as first:
        leases = wait_until(lambda: all_run(client), "three run")
        wait_until(lambda: set(lines(tmp_path / "starts")) == leases.keys(), "each has its worker")
        status = told.spotfed("fleet", "status", "night", "--origin", "lab", "--json")
        assert json.loads(status.stdout)["keeper"] == first.pid
        again = told.spotfed("fleet", "keep", "--instances", "1", "--name", "night")
        assert again.returncode == 1
        assert f"fleet night is kept by process {first.pid} on this machine" in again.stderr
        first.kill()
    with told.keeping("--on-start", starts, "--json") as second:
        assert second.stdout is not None
        found = [json.loads(second.stdout.readline()) for _ in range(3)]
        assert {one["lease"] for one in found} == leases.keys()
        assert {one["kind"] for one in found} == {"found"}
        second.send_signal(signal.SIGTERM)
        rest, errors = second.communicate(timeout=60)
    assert second.returncode == 0, errors
    last = json.loads(rest.splitlines()[-1])
    assert (last["returned"], last["left"], last["admitted"]) == (3, [], 0)
    assert running(client) == {}


def test_leases_that_are_kept_are_ended_by_name(told: Told, client: Client) -> None:
    with told.keeping("--keep-leases", "--for", "3s") as first:
        out, errors = first.communicate(timeout=60)
    assert first.returncode == 0, errors
    assert "3 admitted" in out
    assert all_run(client)
    shown = told.spotfed("fleet", "status", "night", "--origin", "lab")
    assert "not kept on this machine" in shown.stdout
    with told.keeping():
        wait_until(
            lambda: told.spotfed("fleet", "status", "night", "--json").stdout.count('"keeper": null') == 0,
            "one",
        )
        ended = told.spotfed("fleet", "end", "night", "--origin", "lab", "--json")
    assert ended.returncode == 0, ended.stderr
    assert "stopping it" in ended.stderr
    assert json.loads(ended.stdout) == {"name": "night", "returned": [], "left": []}
    assert running(client) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--name", "a/b"), "'a/b' is no name of a fleet"),
        (("--lifetime", "none", "--sla", "none"), "--sla: a lifetime of none goes with an SLA"),
        (("--keep-leases",), "--keep-leases goes with --name"),
        (("--for", "soon"), "'soon' is not a duration"),
    ],
)
def test_options_that_cannot_be(told: Told, options: tuple[str, ...], message: str) -> None:
    done = told.spotfed("fleet", "keep", "--instances", "1", *options)
    assert done.returncode == 2
    assert message in done.stderr


# -- a federation that lives ---------------------------------------------------------------------------------

_FEDERATION = """
[[cloud]]
id = "harbour"
nodes = "8x4"
trace = { synthetic = "table-1", hours = 400, seed = 11 }
spot_usd_per_core_hour = 0.02
on_demand_usd_per_core_hour = 0.05

[[cloud]]
id = "meadow"
nodes = "7x12"
trace = { synthetic = "production-A", days = 16, seed = 12 }
spot_usd_per_core_hour = 0.03
on_demand_usd_per_core_hour = 0.05
"""


def test_a_cloud_with_a_load_of_its_own_evicts_and_the_fleet_stands(redis_url: str, tmp_path: Path) -> None:
    """600 times as fast. Who is without a promise on the busy one is soon evicted, and goes to the other."""
    file = tmp_path / "federation.toml"
    file.write_text(_FEDERATION)
    options = wall_time(speed=600, history="48h", samples=200, seed=0)
    layout = ProcessList(file, ("harbour", "meadow"), options, port=free_port())
    wish = FleetSpec("live", 12, SpotRequest(cores=1, lifetime_s=48 * 3600), cool_down_s=300.0, poll_s=0.5)
    with (
        LocalFederation(
            layout, tmp_path / "state", redis_url=redis_url, key_prefix="fleet:", forget=True
        ) as local,
        local.client(deadline_s=60.0) as client,
        kept(client, tmp_path, wish) as fleet,
    ):
        counts = fleet.keeper.totals.counts
        fleet.rounds_until(lambda: len(fleet.keeper.members) == 12, "all stand")
        fleet.rounds_until(lambda: counts[FleetEventKind.EVICTED] >= 3, "evictions")
        fleet.rounds_until(lambda: len(fleet.keeper.members) == 12, "all stand again")
        assert fleet.keeper.give_back() == []
        assert client.leases.list(state=LeaseState.RUNNING).leases == []
        assert fleet.keeper.totals.as_dict()["cost_usd"] > 0
        ends = (
            FleetEventKind.EVICTED,
            FleetEventKind.COMPLETED,
            FleetEventKind.CANCELLED,
            FleetEventKind.FAILED,
            FleetEventKind.RETURNED,
        )
        assert counts[FleetEventKind.ADMITTED] == sum(counts[kind] for kind in ends)
