"""A fleet on a terminal: a table that is redrawn on a terminal, lines elsewhere, and totals at the end."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from broker.cli import formatting
from broker.cli.console import coloured, console, make_table, number, print_json
from broker.contract import CounterOffers, Lease
from broker.fleet.controller import FleetController, FleetSpec
from broker.fleet.events import FleetEvent, FleetEventKind, FleetTotals
from broker.fleet.snapshot import FleetSnapshot

_COLOURS = {
    FleetEventKind.ADMITTED: "green",
    FleetEventKind.FOUND: "green",
    FleetEventKind.EXTENDED: "green",
    FleetEventKind.EVICTED: "red",
    FleetEventKind.FAILED: "red",
    FleetEventKind.COMMAND: "yellow",
    FleetEventKind.REFUSED: "yellow",
    FleetEventKind.AWAY: "red",
}
#: Rows of leases, and of events, on a terminal that has room for them.
_MOST_LEASES, _MOST_LINES = 20, 8
#: Lines of the table beside its rows, and of the two sentences below it.
_FRAME_LINES = 7


class FleetScreen:
    """Shows a fleet: redrawn on a terminal, as lines without one, as lines of JSON with ``as_json``."""

    def __init__(self, spec: FleetSpec, live: Live | None, *, as_json: bool):
        self._spec, self._live, self._as_json = spec, live, as_json
        self._out = console()
        self._last: deque[str] = deque(maxlen=_MOST_LINES)

    def add_event(self, event: FleetEvent) -> None:
        """Show an event."""
        if self._as_json:
            print_json(event.as_dict(), lines=True)
        elif self._live is None:
            self._out.print(event_line(event), soft_wrap=True)
            sys.stdout.flush()
        else:
            self._last.append(event_line(event))

    def update(self, controller: FleetController) -> None:
        """Show the present state of the fleet, on a terminal."""
        if self._live is not None:
            self._live.update(self._render(controller), refresh=True)

    def _render(self, controller: FleetController) -> RenderableType:
        leases = [member.lease for member in controller.members.values()]
        title = f"Fleet {self._spec.name}: {len(leases)} of {self._spec.instances} instances"
        most = max(1, min(_MOST_LEASES, self._out.height - _FRAME_LINES - len(self._last)))
        notes = [f"and {len(leases) - most} more"] if len(leases) > most else []
        if controller.offers and len(leases) < self._spec.instances:
            notes.append(_offers_line(controller.offers))
        return Group(leases_table(title, leases[:most], controller.market), *notes, *self._last)


@contextmanager
def open_screen(spec: FleetSpec, *, as_json: bool) -> Iterator[FleetScreen]:
    """Open the screen of a fleet and restore the terminal at the end."""
    out = console()
    if as_json or not out.is_terminal:
        yield FleetScreen(spec, None, as_json=as_json)
        return
    with Live(console=out, auto_refresh=False) as live:
        yield FleetScreen(spec, live, as_json=False)


def leases_table(title: str, leases: Sequence[Lease], market: FleetSnapshot) -> Table:
    """Return a table of the leases of a fleet."""
    numbers = ("cores", "promised SLA", "risk", "ends in")
    table = make_table(title, "lease", "cloud", *map(number, numbers))
    for lease in leases:
        left_s = market.remaining_s(lease)
        table.add_row(
            lease.id,
            lease.cloud,
            str(lease.cores),
            formatting.sla(lease.promised_sla),
            formatting.risk(lease.eviction_probability),
            "–" if left_s is None else formatting.duration(max(0.0, left_s)),
        )
    return table


def event_line(event: FleetEvent) -> str:
    """Return an event of a fleet as one line, with the colour of its kind as markup."""
    kind = coloured(event.kind.value, _COLOURS.get(event.kind))
    about = [kind, *([event.lease] if event.lease else []), *([f"on {event.cloud}"] if event.cloud else [])]
    detail = f": {escape(event.detail)}" if event.detail else ""
    return f"{event.at[11:19]}  {event.held}/{event.wanted}  {' '.join(about)}{detail}"


def summary_lines(spec: FleetSpec, totals: FleetTotals) -> list[str]:
    """Return the totals of a fleet that has ended, as lines."""
    counts = totals.counts
    full = f"{totals.full_s / totals.seconds:.0%}" if totals.seconds else "–"
    kinds = (
        FleetEventKind.ADMITTED,
        FleetEventKind.EXTENDED,
        FleetEventKind.EVICTED,
        FleetEventKind.COMPLETED,
        FleetEventKind.FAILED,
        FleetEventKind.RETURNED,
    )
    hours, span = totals.instance_s / 3600, formatting.duration(totals.seconds)
    lines = [
        f"fleet {spec.name}: {hours:.2f} instance-hours in {span}",
        f"all {spec.instances} instances for {full} of the time",
        ", ".join(f"{counts[kind]} {kind}" for kind in kinds),
    ]
    if totals.priced_s:
        part = "" if totals.priced_s == totals.instance_s else " (of clouds that tell a price)"
        lines.append(f"cost: {totals.cost_usd:.4f} $" + part)
    return lines


def _offers_line(offers: CounterOffers) -> str:
    instead = []
    if offers.lifetime_s is not None:
        instead.append(f"{formatting.duration(offers.lifetime_s)} at this SLA")
    if offers.sla is not None and offers.sla < 1:
        instead.append(f"SLA {formatting.rounded_up(offers.sla):g} at this lifetime")
    return "some are refused; accepted instead: " + (", or ".join(instead) or "nothing for now")
