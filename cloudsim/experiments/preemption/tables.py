"""Tables 3 to 6 of the preemption paper (P5 §4.4): the victims on full hosts for one more instance.

The product's own cloud decides: the hosts as printed, line-up ``partial-hour``, nodes of 8 vCPU and 16,000 MB
(docs/design/preemption.md "Acceptance"). Beside it stand the same line-up ranked as OpenStack does, and the
result of the paper's Algorithms 4 and 5 taken word by word (``as_printed``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.drawing import Axes, Figure, legend_below, panels
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.model.changes import End, Ended, Started
from cloudsim.model.instances import Instance
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.requests import Amounts, Kind, Request
from cloudsim.plots import GREY, INK, LEVELS, PALE
from cloudsim.scheduling.lineups import PARTIAL_HOUR, PARTIAL_HOUR_WEIGHTED, lineup

MEMORY = "memory_mb"
CORES, MEMORY_MB = 8, 16_000  # of a host
#: Size → vCPU and MB (P5 Table 2); disks are left out.
SIZES = {"S": (1, 2_000), "M": (2, 4_000), "L": (4, 8_000)}
_NOW_MINUTES = 600  # after every start
_LONGEST_MINUTES = 300  # that instances were asked to run (P5 §4.4.1)


class Test(NamedTuple):
    """One table of the paper.

    size: of the request. hosts: host → its instances, each with name, minutes run and size; a second letter P
    in the name means preemptible. victims: the instances that the paper marks.
    """

    size: str
    hosts: Mapping[str, str]
    victims: tuple[str, ...]


TESTS = {
    "table3": Test(
        "M",
        {
            "host-A": "A1 272 M, A2 172 M, AP1 96 M, AP2 207 M",
            "host-B": "B1 136 M, B2 200 M, BP1 71 M, BP2 91 M",
            "host-C": "C1 97 M, C2 275 M, CP1 210 M, CP2 215 M",
            "host-D": "D1 16 M, DP1 85 M, DP2 199 M, DP3 152 M",
        },
        ("BP1",),
    ),
    "table4": Test(
        "M",
        {
            "host-A": "AP1 247 M, AP2 463 M, AP3 403 M, AP4 410 M",
            "host-B": "B1 388 M, B2 103 M, BP1 344 M, BP2 476 M",
            "host-C": "C1 481 M, C2 177 M, CP1 181 M, CP2 160 M",
            "host-D": "D1 173 M, DP1 384 M, DP2 168 M, DP3 232 M",
        },
        ("CP1",),
    ),
    "table5": Test(
        "L",
        {
            "host-A": "AP1 298 L, AP2 278 M, AP3 190 S, AP4 187 S",
            "host-B": "B1 494 L, BP1 178 L",
            "host-C": "CP1 297 L, CP2 296 M, CP3 296 S",
            "host-D": "D1 176 M, D2 200 M, D3 116 L",
        },
        ("AP2", "AP3", "AP4"),
    ),
    "table6": Test(
        "M",
        {
            "host-A": "A1 234 L, A2 122 M, AP1 172 M",
            "host-B": "BP1 272 L, BP2 212 M, BP3 380 S",
            "host-C": "C1 182 S, C2 120 M, C3 116 L",
            "host-D": "DP1 232 L, DP2 213 S, DP3 324 M, DP4 314 S",
        },
        ("BP3",),
    ),
}


def run(_data: Path | None, *, table: str, order: str) -> list[Row]:
    """Return a row for each instance of a table, with the decision of the line-up ``order`` about it.

    Columns: table, lineup, request (size), host, instance, preemptible, size, cores, memory_mb, run_minutes,
    partial_minutes (since the last full hour), marked (by the paper), evicted (by us).
    """
    test = TESTS[table]
    details = NodeDetails(((MEMORY, (MEMORY_MB,) * len(test.hosts)),))
    cloud = Cloud(CloudSpec("testbed", (CORES,) * len(test.hosts), details, lineup(order)))
    rows = [
        _row(table, order, host, printed.split())
        for host, instances in test.hosts.items()
        for printed in instances.split(", ")
    ]
    hosts = list(test.hosts)
    for number, row in enumerate(sorted(rows, key=lambda row: -int(row["run_minutes"]))):
        kind = Kind.SPOT if row["preemptible"] else Kind.ON_DEMAND
        start_s = 60.0 * (_NOW_MINUTES - row["run_minutes"])
        cloud.apply(
            Started(
                Instance(
                    row["instance"], kind, row["cores"], hosts.index(row["host"]), start_s, math.inf, number,
                    amounts=_memory(row["size"]),
                )
            )
        )  # fmt: skip
    request = Request("new", Kind.ON_DEMAND, SIZES[test.size][0], None, amounts=_memory(test.size))
    changes = cloud.start_on_demand(request, 60.0 * _NOW_MINUTES)
    victims = {end.instance.id for end in changes if isinstance(end, Ended) and end.how is End.EVICTED}
    return [row | {"evicted": row["instance"] in victims} for row in rows]


def _row(table: str, order: str, host: str, printed: Sequence[str]) -> Row:
    name, minutes, size = printed
    cores, memory_mb = SIZES[size]
    return {
        "table": table,
        "lineup": order,
        "request": TESTS[table].size,
        "host": host,
        "instance": name,
        "preemptible": name[1] == "P",
        "size": size,
        "cores": cores,
        MEMORY: memory_mb,
        "run_minutes": int(minutes),
        "partial_minutes": int(minutes) % 60,
        "marked": name in TESTS[table].victims,
    }


def _memory(size: str) -> Amounts:
    return ((MEMORY, SIZES[size][1]),)


def _cases(_quick: bool) -> list[Case]:
    return [
        Case(f"{table}, {order.name}", run, {"table": table, "order": order.name})
        for order in (PARTIAL_HOUR, PARTIAL_HOUR_WEIGHTED)
        for table in TESTS
    ]


def _of(rows: Sequence[Row], table: str, order: str = PARTIAL_HOUR.name) -> list[Row]:
    return where(rows, table=table, lineup=order)


def evicted(rows: Sequence[Row], table: str, order: str = PARTIAL_HOUR.name) -> list[str]:
    """Return the names of the instances that leave for the request of a table."""
    return sorted(row["instance"] for row in _of(rows, table, order) if row["evicted"])


def _victims(rows: Sequence[Row]) -> dict[str, Any]:
    return {table: evicted(rows, table) for table in TESTS}


class Printed(NamedTuple):
    """Results of the paper's algorithms as printed.

    host: ranked best by Algorithm 4 of those that the request fits without spot. victims: of Algorithm 5 on
    the right host, with an infinite first cost; the printed first cost is that of no victims, 0.
    """

    host: str
    victims: tuple[str, ...]


def _marked_host(rows: Sequence[Row]) -> str:
    return str(where(rows, marked=True)[0]["host"])


def as_printed(rows: Sequence[Row], table: str) -> Printed:
    """Run the paper's algorithms on a table, word by word.

    Algorithm 4 sums over all spot instances of a host, and Algorithm 5 asks for more than the request
    (``>``), whatever is free.
    """
    own = _of(rows, table)
    cores, memory_mb = SIZES[TESTS[table].size]
    sums: dict[str, int] = {}
    for host in TESTS[table].hosts:
        normal = where(own, host=host, preemptible=False)
        if CORES - sum(row["cores"] for row in normal) >= cores:
            sums[host] = sum(row["partial_minutes"] for row in where(own, host=host, preemptible=True))
    spot = where(own, host=_marked_host(own), preemptible=True)
    least, victims = math.inf, ()
    for count in range(1, len(spot) + 1):
        for some in itertools.combinations(spot, count):
            cost = sum(row["partial_minutes"] for row in some)
            more = sum(r["cores"] for r in some) > cores and sum(r[MEMORY] for r in some) > memory_mb
            if more and cost < least:
                least, victims = cost, tuple(row["instance"] for row in some)
    return Printed(min(sums, key=lambda host: sums[host]), victims)


def _title(table: str) -> str:
    return table.replace("table", "Table ")


def _names(names: Sequence[str]) -> str:
    return " + ".join(names) or "nobody"


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for table, test in TESTS.items():
        own, ours = _of(rows, table), evicted(rows, table)
        cost = sum(row["partial_minutes"] for row in own if row["evicted"])
        same = "as the paper marks" if ours == sorted(test.victims) else f"not {_names(test.victims)}"
        texts.append(
            f"{_title(table)}: for a request of size {test.size}, {_names(ours)} must leave, {cost} min "
            f"since the last full hours, {same}."
        )
    printed = {table: as_printed(rows, table) for table in TESTS}
    wrong = [
        f"{_title(table)} {printed[table].host} instead of {right}"
        for table in TESTS
        if printed[table].host != (right := _marked_host(_of(rows, table)))
    ]
    texts.append(
        "Printed wrongly: Algorithm 4 ranks a host by the partial hours of all its spot instances, also of "
        f"those who can stay; taken at its word it picks the wrong host in {len(wrong)} of {len(TESTS)} "
        f"tables: {'; '.join(wrong) or 'none'}. The cost of a host is that of its cheapest sufficient set."
    )
    longer = [
        f"{_title(table)} {_names(result.victims)}"
        for table, result in printed.items()
        if sorted(result.victims) != sorted(TESTS[table].victims)
    ]
    texts.append(
        "Printed wrongly: Algorithm 5 compares with the cost of nobody, which is 0, so that it never finds "
        "anybody. With an infinite cost to begin with, its > instead of >=, which also forgets what is free, "
        f"still evicts others than those marked in {len(longer)} of {len(TESTS)} tables: {'; '.join(longer)}."
    )
    weighted = [
        f"{_title(table)} {_names(evicted(rows, table, PARTIAL_HOUR_WEIGHTED.name))}"
        for table in TESTS
        if evicted(rows, table, PARTIAL_HOUR_WEIGHTED.name) != evicted(rows, table)
    ]
    texts.append(
        "Ranked as OpenStack does, costs and free cores each stretched to 0..1 and summed, other victims "
        f"leave in {len(weighted)} of {len(TESTS)} tables: {'; '.join(weighted) or 'none'}. So the cost "
        "comes first here, and other weighers decide among equals."
    )
    times = [row["run_minutes"] for row in where(rows, lineup=PARTIAL_HOUR.name)]
    long = sum(minutes > _LONGEST_MINUTES for minutes in times)
    texts.append(
        f"The text has instances run for 10 to {_LONGEST_MINUTES} min, but {long} of the {len(times)} that "
        f"the tables show have already run for longer, up to {max(times)} min."
    )
    return texts


def _draw(rows: Sequence[Row]) -> Figure:
    title = "Who leaves for one more on-demand instance"
    with panels(title, 2, 2, size=(9, 7), sharey=True) as (figure, axes):
        for axis, table in zip(axes.flat, TESTS, strict=True):
            _draw_hosts(axis, _of(rows, table))
            axis.set_title(f"{_title(table)}: request of size {TESTS[table].size}", loc="left")
        for line in axes:
            line[0].set_ylabel("vCPU")
        legend_below(figure, axes[0, 0])
    return figure


def _draw_hosts(axis: Axes, rows: Sequence[Row]) -> None:
    looks: dict[str, Any] = {
        "on-demand": {"color": PALE, "edgecolor": GREY},
        "spot": {"color": LEVELS[5][0], "edgecolor": "white", "alpha": 0.55},
        "evicted": {"color": LEVELS[0][0], "edgecolor": INK, "hatch": "//", "alpha": 0.85},
    }
    hosts = distinct(rows, "host")
    for name, look in looks.items():
        axis.bar([0], [0], label=name, **look)
    for place, host in enumerate(hosts):
        bottom = 0
        for row in where(rows, host=host):
            name = "evicted" if row["evicted"] else "spot" if row["preemptible"] else "on-demand"
            axis.bar([place], [row["cores"]], 0.8, bottom, **looks[name])
            text = f"{row['instance']}  {row['run_minutes'] // 60} h {row['partial_minutes']:02}"
            middle = bottom + row["cores"] / 2
            axis.text(
                place, middle, text, ha="center", va="center", fontsize=8,
                fontweight="bold" if row["evicted"] else "normal",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.75},
            )  # fmt: skip
            bottom += row["cores"]
    axis.plot([-0.5, len(hosts) - 0.5], [CORES, CORES], color=INK, lw=1, ls="--")
    axis.set_xticks(range(len(hosts)), hosts)
    axis.set_ylim(0, CORES + 0.3)


EXPERIMENT = Experiment(
    name="preemption-tables",
    title="Who is terminated: the preemption paper's four tables",
    source="López García et al., a preemptible-aware scheduler for OpenStack, Tables 3 to 6",
    cases=_cases,
    pictures=(
        Picture(
            "preemption-tables",
            "Hosts of 8 vCPU with the instances of the paper's Tables 3 to 6 and the time that each has run. "
            "Those hatched leave for the request, by line-up partial-hour: the least time since full hours.",
            _draw,
        ),
    ),
    sentences=_sentences,
    own_keys=_victims,
)
