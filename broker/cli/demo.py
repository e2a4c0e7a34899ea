"""``demo``: a live federation from start to figures, in well under two minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from broker.cli import federations, formatting
from broker.cli.console import JsonOption, can_draw, check_picture, command_name, console, print_json
from broker.cli.federate import load_federation, strictest_slas
from broker.cli.live_run import LiveRun, drive, read_events, start
from broker.cli.simulation_options import SEED, samples_and_seed
from broker.cli.views.cloud_use import cloud_use
from broker.cli.views.federation import show_report
from broker.client import GrantedRequest
from broker.contract import Event
from broker.local.federation import LocalFederation
from broker.local.trace_driver import Answer
from broker.settings import settings
from broker.storage.connections import connect
from cloudsim.model.requests import Request
from cloudsim.plots import CloudUse, save, use_figure

_RECORDED = "eucalyptus/DS5-trace.txt"
_EVICTIONS_SHOWN = 12  # the others are only counted
_PROGRESS_EVERY_S = 3.0


def demo(
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Where the picture goes: .png, .svg or .pdf.", show_default="demo.png in the state directory"
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Monte-Carlo samples a size.")] = 500,
    seed: Annotated[int | None, SEED] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a live federation of three clouds on this machine, show what it does, and stop it again.

    Own users' load and spot workloads are recorded ones if SPOTFED_DATA has them, else synthesised ones.

    Example: spotfed demo
    """
    path = _picture_path(picture)
    out = console(stderr=as_json)
    _, key = samples_and_seed(samples, seed)
    file = _federation_file()
    loads = "recorded" if file == federations.DEMO_RECORDED else "synthesised"
    out.print(f"A federation of three clouds on {loads} loads ({file.name}).")
    federation = load_federation(file, None)
    run = LiveRun(file, federation, None, samples, key, monte_carlo=1)
    began_s = time.perf_counter()
    with start(run, lambda text: out.print(text, soft_wrap=True, markup=False)) as local:
        out.print(
            f"everything runs after {time.perf_counter() - began_s:.1f} s; "
            "own users come first, spot requests a day later"
        )
        with _show_evictions(out, local):
            report = drive(run, local, _ProgressLines(out, federation.ends_s))
        report |= {
            "mode": "live",
            "seconds": round(time.perf_counter() - began_s, 3),
            "samples": samples,
            "seed": key,
        }
        uses = [
            cloud_use(member.spec.id, sum(member.spec.node_cores), read_events(local, member.spec.id))
            for member in federation.clouds
        ]
    saved = _save_picture(path, uses, federation.ends_s)
    if as_json:
        print_json({**report, "picture": saved})
        return
    out.print()
    show_report(out, report, strictest_slas(federation))
    _show_next_steps(out, saved)


def _picture_path(path: Path | None) -> Path:
    if path is None:
        settings().state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        return settings().state_dir / "demo.png"
    if can_draw():
        check_picture(path, field="--picture")
    return path


def _federation_file() -> Path:
    data = settings().data
    has_recordings = data is not None and (data / _RECORDED).is_file()
    return federations.DEMO_RECORDED if has_recordings else federations.DEMO_SYNTHETIC


class _ProgressLines:
    """Prints every few seconds how far the run is, as it is called for each answer."""

    def __init__(self, out: Console, ends_s: float):
        self._out, self._ends_s = out, ends_s
        self._requests = self._admitted = 0
        self._due_s = 0.0

    def __call__(self, at_s: float, request: Request, answer: Answer) -> None:  # noqa: ARG002
        self._requests += 1
        self._admitted += isinstance(answer, GrantedRequest)
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _PROGRESS_EVERY_S
            self._out.print(
                f"[dim]{at_s / self._ends_s:4.0%}[/dim]  day {at_s / 86400:.1f}: "
                f"{self._requests} spot requests, {self._admitted} admitted"
            )


@contextmanager
def _show_evictions(out: Console, local: LocalFederation) -> Iterator[None]:
    """Print evictions as a plain Redis subscriber receives them."""
    assert local.redis_url is not None, "it runs"
    stopped = threading.Event()
    client = connect(local.redis_url, socket_timeout=None)
    pubsub: Any = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
    pubsub.psubscribe(local.keys.channel("*"))

    def listen() -> None:
        evictions = 0
        while not stopped.is_set():
            message: Any = pubsub.get_message(timeout=0.1)
            event = None if message is None else Event.model_validate_json(message["data"])
            if event is None or event.kind != "evicted" or event.lease is None:
                continue
            evictions += 1
            if evictions <= _EVICTIONS_SHOWN:
                ran = formatting.duration(event.at_s - event.lease.starts_at_s)
                out.print(f"      [red]evicted[/red] on {event.cloud}: {event.lease.request} after {ran}")
            elif evictions == _EVICTIONS_SHOWN + 1:
                out.print("      (further evictions are in the table and the picture)")

    listener = threading.Thread(target=listen, name="evictions", daemon=True)
    listener.start()
    try:
        yield
    finally:
        stopped.set()
        listener.join()
        client.close()


def _save_picture(path: Path, uses: Sequence[CloudUse], until_s: float) -> str | None:
    if not can_draw():
        return None
    save(use_figure(uses, title="spotfed demo: what the cores of three clouds did", until_s=until_s), path)
    return str(path.absolute())


def _show_next_steps(out: Console, saved: str | None) -> None:
    no_picture = "No picture: that needs matplotlib (pip install 'spotfed[plots]')"
    out.print(f"Picture: {saved}" if saved else no_picture, soft_wrap=True)
    spotfed = command_name()
    out.print(
        f"""
What next:
  {spotfed} up                        keep a federation running, then in another terminal:
  {spotfed} clouds                      see its members
  {spotfed} quote --cores 1 --lifetime 2h --sla 0.05
  {spotfed} replay --help             study a cloud's own traces""",
        soft_wrap=True,
    )
