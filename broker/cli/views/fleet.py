"""A fleet on a terminal: a table that stands, lines elsewhere, and the sums in the end."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.cli import formatting
from broker.cli.console import coloured, console, print_json
from broker.fleet.events import FleetEvent, FleetEventKind, FleetTotals

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from broker.contract import CounterOffers, Lease
    from broker.fleet.controller import FleetController, FleetSpec
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
#: Rows of leases, and of what happened, on a terminal that has room for them.
_MOST_LEASES, _MOST_LINES = 20, 8
#: Lines of the table beside its rows, and of the two sentences below it.
_FRAME_LINES = 7


class Screen:
    """Where a fleet is shown. Without a terminal there are lines only, with JSON they are JSON."""

    def __init__(self, wish: FleetSpec, live: Live | None, *, as_json: bool):
        self._wish, self._live, self._as_json = wish, live, as_json
        self._out = console()
        self._last: deque[str] = deque(maxlen=_MOST_LINES)

    def tell(self, what: FleetEvent) -> None:
        """Something happened."""
        if self._as_json:
            print_json(what.as_dict(), lines=True)
        elif self._live is None:
            self._out.print(happening_line(what), soft_wrap=True)
            sys.stdout.flush()
        else:
            self._last.append(happening_line(what))

    def show(self, keeper: FleetController) -> None:
        """How it stands now."""
        if self._live is not None:
            self._live.update(self._standing(keeper), refresh=True)

    def _standing(self, keeper: FleetController) -> RenderableType:
        from rich.console import Group

        leases = [member.lease for member in keeper.members.values()]
        title = f"Fleet {self._wish.name}: {len(leases)} of {self._wish.instances} instances"
        most = max(1, min(_MOST_LEASES, self._out.height - _FRAME_LINES - len(self._last)))
        table = leases_table(title, leases[:most], keeper.market)
        more = len(leases) - most
        missing = [_instead(keeper.offers)] if keeper.offers and len(leases) < self._wish.instances else []
        return Group(table, *([f"and {more} more"] if more > 0 else []), *missing, *self._last)


@contextmanager
def screen(wish: FleetSpec, *, as_json: bool) -> Iterator[Screen]:
    """Until the fleet has ended."""
    out: Console = console()
    if as_json or not out.is_terminal:
        yield Screen(wish, None, as_json=as_json)
        return
    from rich.live import Live

    with Live(console=out, auto_refresh=False) as live:
        shown = Screen(wish, live, as_json=False)
        yield shown


def leases_table(title: str, leases: Sequence[Lease], market: FleetSnapshot) -> Table:
    """Which leases it has."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in ("lease", "cloud"):
        table.add_column(name)
    for name in ("cores", "promised SLA", "risk", "ends in"):
        table.add_column(name, justify="right")
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


def happening_line(what: FleetEvent) -> str:
    """On one line, with the colours of its kind as markup."""
    from rich.markup import escape

    kind = coloured(what.kind.value, _COLOURS.get(what.kind))
    about = [kind, *([what.lease] if what.lease else []), *([f"on {what.cloud}"] if what.cloud else [])]
    detail = f": {escape(what.detail)}" if what.detail else ""
    return f"{what.at[11:19]}  {what.held}/{what.wanted}  {' '.join(about)}{detail}"


def summary_lines(wish: FleetSpec, tally: FleetTotals) -> list[str]:
    """What it came to."""
    counts = tally.counts
    full = f"{tally.full_s / tally.seconds:.0%}" if tally.seconds else "–"
    hours, span = tally.instance_s / 3600, formatting.duration(tally.seconds)
    told = (
        FleetEventKind.ADMITTED,
        FleetEventKind.EXTENDED,
        FleetEventKind.EVICTED,
        FleetEventKind.COMPLETED,
        FleetEventKind.FAILED,
        FleetEventKind.RETURNED,
    )
    lines = [
        f"fleet {wish.name}: {hours:.2f} instance-hours in {span}",
        f"all {wish.instances} instances for {full} of the time",
        ", ".join(f"{counts[kind]} {kind}" for kind in told),
    ]
    if tally.priced_s:
        part = "" if tally.priced_s == tally.instance_s else " (of clouds that tell a price)"
        lines.append(f"cost: {tally.cost_usd:.4f} $" + part)
    return lines


def _instead(offers: CounterOffers) -> str:
    told = []
    if offers.lifetime_s is not None:
        told.append(f"{formatting.duration(offers.lifetime_s)} at this SLA")
    if offers.sla is not None and offers.sla < 1:
        told.append(f"SLA {formatting.rounded_up(offers.sla):g} at this lifetime")
    return "some are refused; accepted instead: " + (", or ".join(told) or "nothing for now")
