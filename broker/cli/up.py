"""``spotfed up`` keeps a federation running on this machine; ``spotfed ps`` shows its processes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli import federations
from broker.cli.console import CommandError, ExitCode, JsonOption, command_name, console, print_json
from broker.cli.simulation_options import SEED, samples_and_seed

if TYPE_CHECKING:
    from broker.local.federation import LocalFederation
    from broker.local.process_list import Layout
    from broker.settings import Settings

#: A person waits for tables: fewer samples than in a study.
_SAMPLES = 2000
_TABLES_S = 30.0


def up(
    federation: Annotated[
        Path,
        typer.Option(
            help="Federation file: clouds and their loads. 'jobs': one with clouds that run batch jobs.",
            show_default="three simulated clouds",
        ),
    ] = federations.UP,
    speed: Annotated[
        float, typer.Option(min=0.001, help="Seconds of the clouds that pass in a second.")
    ] = 600.0,
    history: Annotated[str, typer.Option(help="Load that is replayed before the clouds open.")] = "48h",
    monte_carlo: Annotated[int, typer.Option(min=1, help="Monte-Carlo workers.")] = 1,
    managers: Annotated[
        int, typer.Option(min=1, help="Job managers, where clouds run the commands of batch jobs.")
    ] = 1,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Of the API.", show_default="SPOTFED_PORT, else 8000")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Monte-Carlo samples a size.", show_default="SPOTFED_SAMPLES, else 2000"),
    ] = None,
    seed: Annotated[int | None, SEED] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what an earlier run has left.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep a federation of simulated clouds running until Ctrl-C, with its API on 127.0.0.1:8000.

    What dies is started again. What was admitted is kept in the state directory for the next start.

    Example: spotfed up --speed 600
    """
    from broker.cli.federate import load
    from broker.local.federation import LocalFederation
    from broker.local.process_list import Layout, wall_time
    from broker.settings import settings
    from cloudsim.model.durations import parse_duration_s

    told = settings()
    parse_duration_s(history, field="--history")
    federation = federations.named(federation)
    members = load(federation, None).clouds
    births, key = samples_and_seed(samples, seed)
    if samples is None and "samples" not in told.model_fields_set:
        births = _SAMPLES
    layout = Layout(
        federation.absolute(),
        tuple(member.spec.id for member in members),
        wall_time(speed=speed, history=history, samples=births, seed=key),
        monte_carlo,
        told.host,
        told.port if port is None else port,
        tls=told.tls_cert is not None,
        commanded=tuple(member.spec.id for member in members if member.driver == "process"),
        managers=managers,
        instanced=tuple(member.spec.id for member in members if member.instances is not None),
    )
    out = console(stderr=as_json)
    with _alone(told.state_dir), until_told() as over:
        _check_port(layout)
        _check_leftovers(told, layout, fresh=fresh)
        local = LocalFederation(
            layout,
            told.state_dir,
            redis_url=told.redis_url,
            key_prefix=told.key_prefix,
            environment={} if told.data is None else {"SPOTFED_DATA": str(told.data)},
            say=lambda text: out.print(text, soft_wrap=True, markup=False),
            over=over,
        )
        with local:
            _await_tables(local, over)
            if over.is_set():
                return
            if as_json:
                print_json(
                    {"url": layout.url, "api_key_file": str(_key_file(told)), "pids": local.pids}, lines=True
                )
            else:
                _welcome(out, local, told)
            over.wait()


def ps(as_json: JsonOption = False) -> None:
    """Show the processes of the federation that `spotfed up` runs here.

    Example: spotfed ps
    """
    from broker.local.federation import record_file
    from broker.settings import settings

    path = record_file(settings().state_dir)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"no federation runs in {path.parent}: start one with `spotfed up`"
        raise CommandError(message, ExitCode.UNREACHABLE) from None
    if not _is_running(record["supervisor"]):
        message = f"the federation in {path.parent} was killed: start it again with `spotfed up`"
        raise CommandError(message, ExitCode.UNREACHABLE)
    if as_json:
        print_json(record)
        return
    from rich.table import Table

    table = Table(title=f"Federation at {record['url']}", title_justify="left")
    for name in ("process", "pid", "restarts", "log"):
        table.add_column(name, justify="right" if name in {"pid", "restarts"} else "left", overflow="fold")
    for process in record["processes"]:
        pid = process["pid"]
        state = "starting" if pid is None else str(pid)
        table.add_row(process["name"], state, str(process["restarts"]), process["log"])
    console().print(table)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _await_tables(local: LocalFederation, over: threading.Event) -> None:
    """Gives the clouds some time to make their first quantile tables; without one nothing is promised."""
    from broker.client import ClientError

    limit_s = time.monotonic() + _TABLES_S
    local.say("waiting for the first quantile tables")
    with local.client(deadline_s=1.0) as client:
        while time.monotonic() < limit_s and not over.wait(0.2):
            try:
                views = client.clouds.list()
            except ClientError:
                continue
            if all(view.advert is not None and view.advert.table_version is not None for view in views):
                return
    if not over.is_set():
        local.say("some tables are still being made; until then spot with an SLA is refused (no_table)")


def _welcome(out: Any, local: LocalFederation, told: Settings) -> None:
    clouds = local.layout.clouds
    spotfed = command_name()
    if local.layout.commanded:
        job = f"""  {spotfed} job submit --home {local.layout.commanded[0]} -- python3 -c 'print("hello")'
      (runs here, on an instance of {" or ".join(local.layout.commanded)})
"""
    else:
        job = ""
    out.print(f"""
[bold green]The federation runs.[/bold green] {len(clouds)} clouds: {", ".join(clouds)}.
Dashboard: {local.layout.url}/   API: {local.layout.url}/docs   API key: {_key_file(told)}

In another terminal (commands find address and key by themselves):

  {spotfed} clouds
  {spotfed} events --follow
  {spotfed} quote --cores 1 --lifetime 2h --sla 0.05
  {spotfed} submit --cores 1 --lifetime 4h --sla none --cloud {clouds[0]} --count 10
      (without a promise: some are soon evicted)
{job}
Ctrl-C stops everything.
""", soft_wrap=True)  # fmt: skip


def _key_file(told: Settings) -> Path:
    from broker.local.queue import key_file

    return key_file(told.state_dir)


@contextmanager
def until_told() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, and nothing else: a second one does not interrupt stopping."""
    over = threading.Event()
    before = {
        n: signal.signal(n, lambda *_: over.set()) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One ``spotfed up`` a state directory."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(directory / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                f"a federation runs in {directory} already: stop it, "
                "or set SPOTFED_STATE_DIR to another directory"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _check_port(layout: Layout) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((layout.host, layout.port))
        except OSError as error:
            raise CommandError(
                f"cannot listen on {layout.host}:{layout.port}: {error.strerror}. Another program uses it? "
                "Choose another one with --port"
            ) from error


def _check_leftovers(told: Settings, layout: Layout, *, fresh: bool) -> None:
    """Journals of other clouds, or of the same ones on other loads, cannot be gone on with."""
    path = told.state_dir / "federation.toml"
    text = layout.federation.read_text(encoding="utf-8")
    if fresh:
        _forget(told)
    elif path.exists() and path.read_text(encoding="utf-8") != text:
        raise CommandError(
            f"{told.state_dir} holds the leases of another federation: give its file, "
            "forget it with --fresh, or set SPOTFED_STATE_DIR to another directory",
            ExitCode.BAD_INPUT,
        )
    path.write_text(text, encoding="utf-8")


def _forget(told: Settings) -> None:
    from broker.journal.archive import archives_directory

    shutil.rmtree(archives_directory(told.state_dir, told.key_prefix), ignore_errors=True)
    if told.redis_url is None:
        shutil.rmtree(told.state_dir / "redis", ignore_errors=True)
        return
    from broker.local.federation import forget_keys

    forget_keys(told.redis_url, told.key_prefix)
