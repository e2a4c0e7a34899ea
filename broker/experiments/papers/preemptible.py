"""P5: the printed numbers of the preemptible-aware scheduler."""

from __future__ import annotations

from collections.abc import Callable

from broker.experiments.papers.number import (
    NotComputed,
    Ours,
    PrintedNumber,
    Rows,
    at_least,
    at_most,
    select,
)
from cloudsim.experiments.preemption.tables import MEMORY, MEMORY_MB, evicted
from cloudsim.scheduling.lineups import PARTIAL_HOUR

_TABLES = "preemption-tables"


def _leave(table: str) -> Callable[[Rows], Ours]:
    def ours(rows: Rows) -> Ours:
        select(rows, table=table, lineup=PARTIAL_HOUR.name)
        return Ours(", ".join(evicted(rows, table)))

    return ours


def _minutes(table: str, *names: str) -> Callable[[Rows], Ours]:
    def ours(rows: Rows) -> Ours:
        return Ours(
            sum(
                select(rows, table=table, lineup=PARTIAL_HOUR.name, instance=name)[0]["partial_minutes"]
                for name in names
            )
        )

    return ours


def _run_minutes(pick: Callable[[list[int]], int]) -> Callable[[Rows], Ours]:
    return lambda rows: Ours(pick([row["run_minutes"] for row in select(rows, lineup=PARTIAL_HOUR.name)]))


def _fit(rows: Rows) -> Ours:
    row = select(rows, size="M")[0]
    return Ours(MEMORY_MB // row[MEMORY])


NUMBERS: tuple[PrintedNumber, ...] = (
    PrintedNumber("P5 Table 3, §4.4.1", "the instance that leaves", "BP1", _TABLES, _leave("table3")),
    PrintedNumber("P5 Table 4, §4.4.1", "the instance that leaves", "CP1", _TABLES, _leave("table4")),
    PrintedNumber("P5 Table 5, §4.4.2", "the instances that leave", "AP2, AP3, AP4", _TABLES,
        _leave("table5")),
    PrintedNumber("P5 Table 6, §4.4.2", "the instance that leaves", "BP3", _TABLES, _leave("table6")),
    PrintedNumber(
        "P5 Table 4, §4.4.1", "minutes of CP1 since its last full hour", "1", _TABLES, _minutes("table4",
        "CP1")
    ),
    PrintedNumber(
        "P5 Table 5, §4.4.2", "minutes of AP2, AP3 and AP4 since their last full hours", "55", _TABLES,
        _minutes("table5", "AP2", "AP3", "AP4"),
    ),
    PrintedNumber(
        "P5 Table 5, §4.4.2", "minutes of BP1 since its last full hour", "58", _TABLES, _minutes("table5",
        "BP1")
    ),
    PrintedNumber(
        "P5 Table 5, §4.4.2", "minutes of CP1 since its last full hour", "57", _TABLES, _minutes("table5",
        "CP1")
    ),
    PrintedNumber(
        "P5 Table 5, §4.4.2", "minutes of CP2 and CP3 since their last full hours", "112", _TABLES,
        _minutes("table5", "CP2", "CP3"),
    ),
    PrintedNumber("P5 §4.4.1", "medium instances that fit on a host", "4", _TABLES, _fit),
    PrintedNumber(
        "P5 §4.4.1", "shortest time that an instance has run, minutes", "10", _TABLES, _run_minutes(min),
        within=at_least(10),
    ),
    PrintedNumber(
        "P5 §4.4.1", "longest time that an instance has run, minutes", "300", _TABLES, _run_minutes(max),
        within=at_most(300),
    ),
)  # fmt: skip

NOT_COMPUTED: tuple[NotComputed, ...] = (
    NotComputed(
        "P5 Figure 2", "times of a scheduling call in seven scenarios", 7,
        "bars without numbers, of the authors' 26 servers; make bench-nova compares the orders here",
    ),
    NotComputed("P5 Tables 3 to 6", "sizes and run times of the instances", 0,
        "states, which are our inputs"),
    NotComputed(
        "P5 Tables 1 and 2, §4.3 and §4.5", "servers, instance sizes and the 130 instances", 0,
        "settings of the authors' test bed; the sizes are our inputs",
    ),
)  # fmt: skip
