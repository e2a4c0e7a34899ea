"""What it costs and gains that a cloud discloses more: the same users aim at lifetimes by what it tells, and
the cloud decides by what it tells (VOLATILE.md "In the product, not only in the study").

A live cloud in replay: its own load comes and goes, tables are made every six hours, and each user who comes
reads what is published at that moment, chooses a lifetime for a value function (``choosing``, as ``spotfed
target`` does) and asks for it. Who is told nothing asks for the lifetime of the recorded request.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cloudsim.cloud.cloud import AFTER_EVERYTHING
from cloudsim.cloud.inventory import parse_nodes
from cloudsim.cloud.spec import CloudSpec
from cloudsim.disclosure.levels import LATTICE_S, Disclosure
from cloudsim.disclosure.masked_tables import describe_table
from cloudsim.disclosure.targeting import (
    HOUR_S,
    TargetChoice,
    Value,
    choose_target,
    find_value,
    parse_disclosed,
)
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise.beds import SPOT_DELAY_S, draw, seeds
from cloudsim.experiments.runs import CLOUD, SPOT
from cloudsim.experiments.volatile.runs import of
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import ReplayMember
from cloudsim.history.event_log import PHASE_SPOT
from cloudsim.model.changes import Change, End, Ended
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.tables import QuantileTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEDS = ("synthetic", "long-lived")
SEEDS = range(4)
BIRTHS = 10_000
VALUE_FUNCTIONS = ("linear", "polynomial", "checkpointed")
LEVELS = tuple(level.value for level in Disclosure)

#: How users ask: for the promise that the cloud makes for their lifetime, where it makes one; or for none.
PROMISED, UNPROMISED = "with the promise", "without a promise"
ASKS = (PROMISED, UNPROMISED)

_QUICK_HOURS, _QUICK_BIRTHS = 60.0, 300


def measure(
    _data: Path | None,
    *,
    bed: str,
    seed: int,
    births: int = BIRTHS,
    hours: float | None = None,
    levels: Sequence[str] = LEVELS,
    value_functions: Sequence[str] = VALUE_FUNCTIONS,
) -> list[Row]:
    """A case: one draw of a bed under each level, for each value function and way to ask.

    Columns: bed, seed, level, value_function, asks, requests, asked (of those that could choose a lifetime),
    admitted, completed, evicted; core_hours (used, lost ones too), value (of cores times hours),
    value_per_core_hour, value_per_idle_core_hour (of the cores that the own load left idle),
    mean_lifetime_h (asked for), and believed_success (the mean chance that those who were admitted believed
    in; None where what is told lets nobody believe in one).
    """
    rows = []
    for level in levels:
        for value_function in value_functions:
            for asks in ASKS:
                run = _Run(bed, seed, births, hours, Disclosure(level), find_value(value_function))
                rows.append(
                    {"bed": bed, "seed": seed, "level": level, "value_function": value_function, "asks": asks}
                    | run.row(promised=asks == PROMISED)
                )
    return rows


class _Run:
    """One cloud, and its users who all value alike."""

    def __init__(
        self, bed: str, seed: int, births: int, hours: float | None, level: Disclosure, value: Value
    ):
        drawn = draw(bed, seed, hours)
        spec = CloudSpec(CLOUD, parse_nodes(drawn.nodes), disclosure=level)
        cloud = FederatedCloud(spec, drawn.nodes, drawn.on_demand)
        # What it offers is chosen by each user; a promise is wanted, so that tables hold its sizes.
        workload = Workload(SPOT, drawn.spot, SPOT_DELAY_S, 0.5, (CLOUD,))
        self._federation = Federation((cloud,), (workload,))
        self._member = ReplayMember(cloud, 0, self._federation, seed, births)
        self._level, self._value = level, value
        self._read: tuple[QuantileTable, dict[int, TargetChoice | None]] | None = None
        self._own_core_s = 0.0
        self._ended = {End.COMPLETED: 0, End.EVICTED: 0}
        self._core_h, self._worth = 0.0, 0.0

    def row(self, *, promised: bool) -> Row:
        cloud = self._member.cloud
        requests, admitted, lifetimes_s, believed = 0, 0, list[float](), list[float]()
        for now_s, recorded, _ in self._federation.requests():
            requests += 1
            self._count(cloud.advance(now_s, PHASE_SPOT))
            self._member.refresh(now_s)
            request = self._aimed(recorded, promised=promised)
            if request is None:
                continue
            assert request.lifetime_s is not None
            lifetimes_s.append(request.lifetime_s)
            if isinstance(self._member.quote(request, now_s), Refusal):
                continue
            changes = cloud.admit(request, now_s)
            assert not isinstance(changes, Refusal), "nothing happened between quote and admission"
            admitted += 1
            chosen = self._choice(request.cores)
            if chosen is not None and chosen.chance is not None:
                believed.append(chosen.chance)
            self._count(changes)
        self._count(cloud.advance(*AFTER_EVERYTHING))
        idle_core_h = (sum(cloud.spec.node_cores) * self._federation.ends_s - self._own_core_s) / HOUR_S
        return {
            "requests": requests,
            "asked": len(lifetimes_s),
            "admitted": admitted,
            "completed": self._ended[End.COMPLETED],
            "evicted": self._ended[End.EVICTED],
            "core_hours": self._core_h,
            "value": self._worth,
            "value_per_core_hour": self._worth / self._core_h if self._core_h else 0.0,
            "value_per_idle_core_hour": self._worth / idle_core_h,
            "mean_lifetime_h": float(np.mean(lifetimes_s)) / HOUR_S if lifetimes_s else 0.0,
            "believed_success": float(np.mean(believed)) if believed else None,
        }

    def _aimed(self, recorded: Request, *, promised: bool) -> Request | None:
        """The request that its user makes of a recorded one; None if he cannot choose a lifetime."""
        if self._level is Disclosure.NOTHING:
            assert recorded.lifetime_s is not None
            return replace(recorded, lifetime_s=min(recorded.lifetime_s, float(LATTICE_S[-1])), sla=None)
        chosen = self._choice(recorded.cores)
        if chosen is None:
            return None
        return replace(recorded, lifetime_s=chosen.lifetime_s, sla=chosen.sla if promised else None)

    def _choice(self, cores: int) -> TargetChoice | None:
        """What is chosen by the table that is published now, read once; None where nothing is told."""
        table = self._member.cloud.table
        if table is None or self._level is Disclosure.NOTHING:
            return None
        if self._read is None or self._read[0] is not table:
            told = {
                one["cores"]: choose_target(parse_disclosed(self._level, one), self._value)
                for one in describe_table(table)["lifetimes"]
            }
            self._read = table, told
        return self._read[1].get(cores)

    def _count(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if not isinstance(change, Ended):
                continue
            instance, lived_s = change.instance, change.at_s - change.instance.start_s
            if instance.kind is not Kind.SPOT:
                inside_s = min(change.at_s, self._federation.ends_s) - instance.start_s
                self._own_core_s += instance.cores * max(inside_s, 0.0)
                continue
            target_s = instance.end_s - instance.start_s
            reached_s = target_s if change.how is End.COMPLETED else lived_s
            self._ended[change.how] += 1
            self._core_h += instance.cores * lived_s / HOUR_S
            self._worth += instance.cores * _worth(self._value, target_s, reached_s)


def _worth(value: Value, target_s: float, lived_s: float) -> float:
    """What one instance is worth that lived so long, in hours."""
    return float(value.expected(np.array([target_s]), lambda at_s: (at_s <= lived_s).astype(np.float64))[0])


def _cases(quick: bool) -> list[Case]:
    return [
        Case(
            f"{bed}, seed {seed}",
            measure,
            {"bed": bed, "seed": seed} | ({"hours": _QUICK_HOURS, "births": _QUICK_BIRTHS} if quick else {}),
        )
        for bed in BEDS[: 1 if quick else None]
        for seed in seeds(SEEDS, quick)
    ]


# -- what is said --------------------------------------------------------------------------------------------


def _total(rows: Sequence[Row], column: str) -> float:
    return float(sum(row[column] for row in rows))


def per_core_hour(rows: Sequence[Row]) -> float:
    """Value by core-hour used, over all rows together."""
    used = _total(rows, "core_hours")
    return _total(rows, "value") / used if used else 0.0


def _findings(rows: Sequence[Row]) -> list[str]:
    found = []
    for bed in dict.fromkeys(row["bed"] for row in rows):
        for value_function in VALUE_FUNCTIONS:
            for asks in ASKS:
                told = []
                for level in LEVELS:
                    own = of(rows, bed=bed, value_function=value_function, asks=asks, level=level)
                    evicted = _total(own, "evicted") / max(_total(own, "admitted"), 1)
                    idle = float(np.mean([row["value_per_idle_core_hour"] for row in own]))
                    admitted = _total(own, "admitted") / _total(own, "requests")
                    told.append(
                        f"{level} {per_core_hour(own):.2f} ({admitted:.0%} admitted, {evicted:.1%} of them "
                        f"evicted, {idle:.3f} by idle core-hour)"
                    )
                found.append(f"{bed}, {value_function} value, {asks}: by core-hour used {'; '.join(told)}.")
        found += [_gain(rows, bed), _belief(rows, bed)]
    found.append(
        "To aim at the greatest value of an instance, as users do in the paper (§4.2), is not to aim at that "
        "of an hour: where spot instances compete for room, long ones leave less to all and are evicted more."
    )
    return found


def _belief(rows: Sequence[Row], bed: str) -> str:
    """What users believed, and what came of it: published lifetimes are those of the usual conditions, and
    users who all stay longer make others."""
    parts = []
    for level in LEVELS:
        own = [
            row
            for row in of(rows, bed=bed, level=level, value_function="linear", asks=UNPROMISED)
            if row["believed_success"] is not None
        ]
        if own:
            believed = float(np.mean([row["believed_success"] for row in own]))
            came = _total(own, "completed") / max(_total(own, "admitted"), 1)
            parts.append(f"{level} believed {believed:.0%}, came {came:.0%}")
    return f"{bed}, linear value, without a promise: success {'; '.join(parts)}."


def _gain(rows: Sequence[Row], bed: str) -> str:
    """How often more disclosure is worth more, level by level, seed by seed."""
    parts = []
    for less, more in itertools.pairwise(LEVELS):
        pairs = [
            (row, other)
            for row in of(rows, bed=bed, level=less)
            for other in of(
                rows,
                bed=bed,
                level=more,
                **{name: row[name] for name in ("seed", "value_function", "asks")},
            )
        ]
        better = sum(b["value_per_core_hour"] > a["value_per_core_hour"] for a, b in pairs)
        parts.append(f"{more} over {less} in {better} of {len(pairs)}")
    return f"{bed}: more value by core-hour with more told: {', '.join(parts)}."


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.panels import dots_by_group, legend_below, panels, share_axis, spread

    beds = list(dict.fromkeys(row["bed"] for row in rows))
    with panels(
        "What an hour of a core is worth to users, by what the cloud tells",
        len(beds), len(VALUE_FUNCTIONS), size=(11, 1 + 3 * len(beds)), sharex=True,
    ) as (figure, axes):  # fmt: skip
        for line, bed in zip(axes, beds, strict=True):
            for axis, value_function in zip(line, VALUE_FUNCTIONS, strict=True):
                series = {
                    asks: {
                        level: spread([row["value_per_core_hour"] for row in own])
                        for level in LEVELS
                        if (own := of(rows, bed=bed, value_function=value_function, asks=asks, level=level))
                    }
                    for asks in ASKS
                }
                dots_by_group(axis, list(LEVELS), series)
                axis.set_title(f"{bed}: {value_function}", loc="left")
                share_axis(axis, "")
                axis.set_ylim(bottom=0)
            line[0].set_ylabel("value by core-hour used")
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="volatile-disclosure",
    title="What it is worth to users that a cloud tells of its lifetimes",
    source='VOLATILE.md, "In the product"; our own question',
    cases=_cases,
    pictures=(
        Picture(
            "volatile-disclosure",
            "Value by core-hour used when the same users aim at lifetimes by what the cloud discloses; mean "
            "over seeds, from the smallest to the largest.",
            _draw,
        ),
    ),
    findings=_findings,
)
