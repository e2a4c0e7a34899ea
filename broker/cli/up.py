"""``up``: keep a federation running on this machine."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from broker.cli import federations
from broker.cli.console import JsonOption, command_name, print_json
from broker.cli.errors import CommandError, ExitCode, warn
from broker.cli.federate import load_federation
from broker.cli.simulation_options import SEED, samples_and_seed
from broker.cli.stop_signal import stop_signal
from broker.client import ClientError
from broker.journal.archive import archives_directory
from broker.local.federation import LocalFederation, forget_keys
from broker.local.process_list import ProcessList, wall_time
from broker.local.state_files import key_file
from broker.settings import Settings, settings, variable
from broker.storage.private_files import write_private_file
from cloudsim.federation.file import read_file
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError

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
    monte_carlo: Annotated[int, typer.Option(min=1, help="Number of Monte-Carlo workers.")] = 1,
    managers: Annotated[
        int, typer.Option(min=1, help="Number of job managers, where clouds run the commands of batch jobs.")
    ] = 1,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the API.", show_default="SPOTFED_PORT, else 8000"),
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

    Processes that die are started again. Leases are kept in the state directory for the next start.

    Example: spotfed up --speed 600
    """
    with stop_signal() as stopped:
        config = settings()
        parse_duration_s(history, field="--history")
        federation = federations.find(federation)
        loaded = load_federation(federation, None)
        members = loaded.clouds
        for warning in loaded.own_misfits():
            warn(warning)
        births, key = samples_and_seed(samples, seed)
        if samples is None and "samples" not in config.model_fields_set:
            births = _SAMPLES
        processes = ProcessList(
            federation.absolute(),
            tuple(member.spec.id for member in members),
            wall_time(speed=speed, history=history, samples=births, seed=key),
            monte_carlo,
            config.host,
            config.port if port is None else port,
            tls=config.tls_cert is not None,
            commanded=tuple(member.spec.id for member in members if member.driver == "process"),
            managers=managers,
            instanced=tuple(member.spec.id for member in members if member.instances is not None),
            boots_agents=any(member.boot_s is not None for member in members),
        )
        with _lock(config.state_dir):
            _check_port(processes)
            _check_leftovers(config, processes, fresh=fresh)
            local = LocalFederation(
                processes,
                config.state_dir,
                redis_url=config.redis_url,
                key_prefix=config.key_prefix,
                environment={} if config.data is None else {"SPOTFED_DATA": str(config.data)},
                say=lambda text: typer.echo(text, err=as_json),
                stopped=stopped,
            )
            with local:
                _await_tables(local, stopped)
                if not stopped.is_set():
                    _welcome(local, processes, key_file(config.state_dir), as_json=as_json)
                stopped.wait()


def _await_tables(local: LocalFederation, stopped: threading.Event) -> None:
    """Wait some seconds for the clouds' first quantile tables; without one nothing is promised."""
    limit_s = time.monotonic() + _TABLES_S
    if stopped.is_set():
        return
    local.tell("waiting for the first quantile tables")
    with local.client(deadline_s=1.0) as client:
        while time.monotonic() < limit_s and not stopped.wait(0.2):
            try:
                views = client.clouds.list()
            except ClientError:
                continue
            if all(view.advert is not None and view.advert.table_version is not None for view in views):
                return
    if not stopped.is_set():
        local.tell("some tables are still being made; until then spot with an SLA is refused (no_table)")


def _welcome(local: LocalFederation, processes: ProcessList, api_key_file: Path, *, as_json: bool) -> None:
    if as_json:
        started = {"url": processes.url, "api_key_file": str(api_key_file), "pids": local.pids}
        with suppress(OSError):  # the federation goes on; ``spotfed ps`` has it all
            print_json(started, lines=True)
        return
    clouds = processes.clouds
    spotfed = command_name()
    if processes.commanded:
        job = f"""  {spotfed} job submit --home {processes.commanded[0]} -- python3 -c 'print("hello")'
      (runs here, on an instance of {" or ".join(processes.commanded)})
"""
    else:
        job = ""
    # Not Rich: it ends the process when a reader has left.
    local.tell(f"""
The federation runs. {len(clouds)} clouds: {", ".join(clouds)}.
Dashboard: {processes.url}/   API: {processes.url}/docs   API key: {api_key_file}

In another terminal (commands find address and key by themselves):

  {spotfed} clouds
  {spotfed} events --follow
  {spotfed} quote --cores 1 --lifetime 2h --sla 0.05
  {spotfed} submit --cores 1 --lifetime 4h --sla none --cloud {clouds[0]} --count 10
      (without a promise: some are soon evicted)
{job}
Ctrl-C stops everything.
""")


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a state directory. Raises CommandError while another ``spotfed up`` holds it."""
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


def _check_port(processes: ProcessList) -> None:
    host, port = processes.host, processes.port
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        advice = "Does another program use it? Choose another port with --port"
        if error.errno != errno.EADDRINUSE:
            advice = f"Name an address of this machine in {variable('host')}, and a port that you may use"
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}. {advice}") from error


def _check_leftovers(config: Settings, processes: ProcessList, *, fresh: bool) -> None:
    """Check that the state directory is empty or belongs to this federation.

    Clouds may have come, left, or changed: their owners see to that. But an owner cannot go on with the
    journal of another cloud, or of the same cloud under another load.
    """
    path = config.state_dir / "federation.toml"
    if fresh:
        _forget(config)
    elif path.exists() and not _continues(path, processes.federation):
        raise CommandError(
            f"{config.state_dir} holds the leases of another federation, or of clouds with other loads: give "
            "its file, forget it with --fresh, or set SPOTFED_STATE_DIR to another directory",
            ExitCode.BAD_INPUT,
        )
    write_private_file(path, processes.federation.read_text(encoding="utf-8"))


def _continues(earlier: Path, federation: Path) -> bool:
    """Return whether clouds of an earlier file are in a federation, all with the loads that they had."""
    if earlier.read_bytes() == federation.read_bytes():
        return True
    try:
        before, now = read_file(earlier), read_file(federation)
    except SpecError:  # the earlier one is of another version
        return False
    loads = {cloud.id: cloud.trace for cloud in before.cloud}
    same = {cloud.trace == loads[cloud.id] for cloud in now.cloud if cloud.id in loads}
    return same == {True} and before.until_s == now.until_s


def _forget(config: Settings) -> None:
    shutil.rmtree(archives_directory(config.state_dir, config.key_prefix), ignore_errors=True)
    if config.redis_url is None:
        shutil.rmtree(config.state_dir / "redis", ignore_errors=True)
    else:
        forget_keys(config.redis_url, config.key_prefix)
