"""``spotfed demo``: a live federation from start to figures, in well under two minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli import federations, formatting
from broker.cli.console import JsonOption, can_draw, check_picture, command_name, console, print_json
from broker.cli.federate import load, slas_of
from broker.cli.live_run import LiveRun, drive, journal, running
from broker.cli.simulation_options import SEED, samples_and_seed
from broker.cli.views.federation import show_report

if TYPE_CHECKING:
    from rich.console import Console

    from broker.local.federation import LocalFederation
    from broker.local.trace_driver import Answer
    from cloudsim.model.requests import Request

_RECORDED = "eucalyptus/DS5-trace.txt"
_EVICTIONS_TOLD = 12  # the others are only counted
_TOLD_EVERY_S = 3.0


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
    from broker.cli.cloud_use import cloud_use

    path = _picture_path(picture)
    out = console(stderr=as_json)
    _, key = samples_and_seed(samples, seed)
    file = _federation_file()
    recorded = file == federations.DEMO_RECORDED
    out.print(
        f"A federation of three clouds on {'recorded' if recorded else 'synthesised'} loads ({file.name})."
    )
    federation = load(file, None)
    run = LiveRun(file, federation, None, samples, key, monte_carlo=1)
    began = time.perf_counter()
    with running(run, lambda text: out.print(text, soft_wrap=True, markup=False)) as local:
        out.print(
            f"everything runs after {time.perf_counter() - began:.1f} s; "
            "own users come first, spot requests a day later"
        )
        counter = _Counter(out, federation.ends_s)
        with _evictions(out, local):
            report = drive(run, local, counter)
        report |= {
            "mode": "live",
            "seconds": round(time.perf_counter() - began, 3),
            "samples": samples,
            "seed": key,
        }
        uses = [
            cloud_use(m.spec.id, sum(m.spec.node_cores), journal(local, m.spec.id)) for m in federation.clouds
        ]
    saved = _save(path, uses, federation.ends_s)
    if as_json:
        print_json({**report, "picture": saved})
        return
    out.print()
    show_report(out, report, slas_of(federation))
    _farewell(out, saved)


def _picture_path(asked: Path | None) -> Path:
    from broker.settings import settings

    if asked is None:
        settings().state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        return settings().state_dir / "demo.png"
    if can_draw():
        check_picture(asked, field="--picture")
    return asked


def _federation_file() -> Path:
    from broker.settings import settings

    data = settings().data
    return (
        federations.DEMO_RECORDED
        if data is not None and (data / _RECORDED).is_file()
        else federations.DEMO_SYNTHETIC
    )


class _Counter:
    """Says every few seconds how far it got."""

    def __init__(self, out: Console, ends_s: float):
        self._out, self._ends_s = out, ends_s
        self._requests = self._admitted = 0
        self._due_s = 0.0

    def __call__(self, at_s: float, request: Request, answer: Answer) -> None:  # noqa: ARG002
        from broker.client import GrantedRequest

        self._requests += 1
        self._admitted += isinstance(answer, GrantedRequest)
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _TOLD_EVERY_S
            self._out.print(
                f"[dim]{at_s / self._ends_s:4.0%}[/dim]  day {at_s / 86400:.1f}: "
                f"{self._requests} spot requests, {self._admitted} admitted"
            )


@contextmanager
def _evictions(out: Console, local: LocalFederation) -> Iterator[None]:
    """Tells of evictions as a plain Redis subscriber hears of them."""
    from broker.contract import Event
    from broker.storage.connections import connect

    assert local.redis_url is not None, "it runs"
    over = threading.Event()
    client = connect(local.redis_url, socket_timeout=None)
    pubsub: Any = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
    pubsub.psubscribe(local.keys.channel("*"))

    def listen() -> None:
        told = 0
        while not over.is_set():
            message: Any = pubsub.get_message(timeout=0.1)
            event = None if message is None else Event.model_validate_json(message["data"])
            if event is None or event.kind != "evicted" or event.lease is None:
                continue
            told += 1
            if told <= _EVICTIONS_TOLD:
                ran = formatting.duration(event.at_s - event.lease.starts_at_s)
                out.print(f"      [red]evicted[/red] on {event.cloud}: {event.lease.request} after {ran}")
            elif told == _EVICTIONS_TOLD + 1:
                out.print("      (further evictions are in the table and the picture)")

    listener = threading.Thread(target=listen, name="evictions", daemon=True)
    listener.start()
    try:
        yield
    finally:
        over.set()
        listener.join()
        client.close()


def _save(path: Path, uses: list[Any], until_s: float) -> str | None:
    if not can_draw():
        return None
    from cloudsim.plots import save, use_figure

    save(use_figure(uses, title="spotfed demo: what the cores of three clouds did", until_s=until_s), path)
    return str(path.absolute())


def _farewell(out: Console, saved: str | None) -> None:
    out.print(
        f"Picture: {saved}" if saved else "No picture: that needs matplotlib (pip install 'spotfed[plots]')",
        soft_wrap=True,
    )
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
