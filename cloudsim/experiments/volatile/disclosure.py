"""The cost and the gain of disclosing more (docs/design/volatile-resources.md "In the product").

A live cloud in replay: its own load comes and goes, and tables are made every six hours. Each user reads the
table published at that moment, chooses a lifetime for a value function as ``spotfed target`` does
(``cloudsim.disclosure.targeting``) and asks for it; the cloud decides by the same table. Where nothing is
disclosed, a user asks for the lifetime of the recorded request.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cloudsim.cloud.cloud import AFTER_EVERYTHING
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
from cloudsim.experiments.drawing import Figure, dots_by_group, legend_below, panels, share_axis, spread
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, ratio, total, where
from cloudsim.experiments.promise.beds import draw, seeds
from cloudsim.experiments.runs import CLOUD, SPOT, SPOT_DELAY_S
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import ReplayMember
from cloudsim.history.event_log import PHASE_SPOT
from cloudsim.model.changes import Change, End, Ended
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.inventory import parse_nodes

BEDS = ("synthetic", "long-lived")
SEEDS = range(4)
BIRTHS = 10_000
VALUE_FUNCTIONS = ("linear", "polynomial", "checkpointed")
LEVELS = tuple(level.value for level in Disclosure)

#: Users ask for the promise that the cloud makes for their lifetime, where it makes one, or for none.
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
    """Run one draw of a bed under each level, for each value function and way to ask.

    Columns: bed, seed, level, value_function, asks, requests, asked (requests whose users could choose a
    lifetime), admitted, completed, evicted; core_hours (used, lost ones included), value (cores times hours),
    value_per_core_hour, value_per_idle_core_hour (of the cores that the own load left idle), mean_lifetime_h
    (asked for), and believed_success (mean chance of completion that admitted users expected; None where the
    disclosed table gives none).
    """
    return [
        {"bed": bed, "seed": seed, "level": level, "value_function": value_function, "asks": asks}
        | _Run(bed, seed, births, hours, Disclosure(level), find_value(value_function)).row(
            promised=asks == PROMISED
        )
        for level, value_function, asks in itertools.product(levels, value_functions, ASKS)
    ]


class _Run:
    """Replays one cloud whose users all have the same value function."""

    def __init__(
        self, bed: str, seed: int, births: int, hours: float | None, level: Disclosure, value: Value
    ):
        drawn = draw(bed, seed, hours)
        spec = CloudSpec(CLOUD, parse_nodes(drawn.nodes), disclosure=level)
        cloud = FederatedCloud(spec, drawn.nodes, drawn.on_demand)
        # Each user chooses the promise; any SLA here makes tables hold the sizes of the requests.
        workload = Workload(SPOT, drawn.spot, SPOT_DELAY_S, 0.5, (CLOUD,))
        self._federation = Federation((cloud,), (workload,))
        self._member = ReplayMember(cloud, 0, self._federation, seed, births)
        self._level, self._value = level, value
        self._read: tuple[QuantileTable, dict[int, TargetChoice | None]] | None = None
        self._own_core_s = 0.0
        self._ended = {End.COMPLETED: 0, End.EVICTED: 0}
        self._core_h, self._worth = 0.0, 0.0

    def row(self, *, promised: bool) -> Row:
        """Replay all requests and return the counted columns."""
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
            _, answer = self._member.quote(request, now_s)
            if isinstance(answer, Refusal):
                continue
            changes = cloud.admit(request, now_s)
            assert not isinstance(changes, Refusal), "nothing happened between quote and admission"
            admitted += 1
            choice = self._choice(request.cores)
            if choice is not None and choice.chance is not None:
                believed.append(choice.chance)
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
        """Return the request that a user makes of a recorded one; None if no lifetime can be chosen."""
        if self._level is Disclosure.NOTHING:
            assert recorded.lifetime_s is not None
            return replace(recorded, lifetime_s=min(recorded.lifetime_s, float(LATTICE_S[-1])), sla=None)
        choice = self._choice(recorded.cores)
        if choice is None:
            return None
        return replace(recorded, lifetime_s=choice.lifetime_s, sla=choice.sla if promised else None)

    def _choice(self, cores: int) -> TargetChoice | None:
        """Return the choice by the table published now, read once; None where nothing is disclosed."""
        table = self._member.cloud.table
        if table is None or self._level is Disclosure.NOTHING:
            return None
        if self._read is None or self._read[0] is not table:
            choices = {
                part["cores"]: choose_target(parse_disclosed(self._level, part), self._value)
                for part in describe_table(table)["lifetimes"]
            }
            self._read = table, choices
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
    """Return the value in hours of one instance that lived for ``lived_s``."""
    return float(value.expected(np.array([target_s]), lambda at_s: (at_s <= lived_s).astype(np.float64))[0])


def _cases(quick: bool) -> list[Case]:
    short = {"hours": _QUICK_HOURS, "births": _QUICK_BIRTHS} if quick else {}
    return [
        Case(f"{bed}, seed {seed}", measure, {"bed": bed, "seed": seed, **short})
        for bed in BEDS[: 1 if quick else None]
        for seed in seeds(SEEDS, quick)
    ]


def _mean(rows: Sequence[Row], column: str) -> float:
    return float(np.mean([row[column] for row in rows]))


def _sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for bed in distinct(rows, "bed"):
        for value_function, asks in itertools.product(VALUE_FUNCTIONS, ASKS):
            parts = []
            for level in LEVELS:
                own = where(rows, bed=bed, value_function=value_function, asks=asks, level=level)
                admitted = total(own, "admitted") / total(own, "requests")
                parts.append(
                    f"{level} {ratio(own, 'value', 'core_hours'):.2f} ({admitted:.0%} admitted, "
                    f"{ratio(own, 'evicted', 'admitted'):.1%} of them evicted, "
                    f"{_mean(own, 'value_per_idle_core_hour'):.3f} by idle core-hour)"
                )
            texts.append(f"{bed}, {value_function} value, {asks}: by core-hour used {'; '.join(parts)}.")
        texts += [_gain(rows, bed), _belief(rows, bed)]
    texts.append(
        "To aim at the greatest value of an instance, as users do in the paper (§4.2), is not to aim at that "
        "of an hour: where spot instances compete for room, long ones leave less to all and are evicted more."
    )
    return texts


def _belief(rows: Sequence[Row], bed: str) -> str:
    """Compare the success that users expected with the realised one.

    Published lifetimes are those of the usual conditions, and users who all stay longer make others.
    """
    parts = []
    for level in LEVELS:
        own = where(rows, bed=bed, level=level, value_function="linear", asks=UNPROMISED)
        own = [row for row in own if row["believed_success"] is not None]
        if own:
            came = ratio(own, "completed", "admitted")
            parts.append(f"{level} believed {_mean(own, 'believed_success'):.0%}, came {came:.0%}")
    return f"{bed}, linear value, without a promise: success {'; '.join(parts)}."


def _gain(rows: Sequence[Row], bed: str) -> str:
    """Count how often more disclosure is worth more, level by level, seed by seed."""
    parts = []
    for less, more in itertools.pairwise(LEVELS):
        pairs = [
            (row, other)
            for row in where(rows, bed=bed, level=less)
            for other in where(
                rows, bed=bed, level=more, **{name: row[name] for name in ("seed", "value_function", "asks")}
            )
        ]
        better = sum(b["value_per_core_hour"] > a["value_per_core_hour"] for a, b in pairs)
        parts.append(f"{more} over {less} in {better} of {len(pairs)}")
    return f"{bed}: more value by core-hour with more told: {', '.join(parts)}."


def _draw(rows: Sequence[Row]) -> Figure:
    beds = distinct(rows, "bed")
    title, size = "What an hour of a core is worth to users, by what the cloud tells", (11, 1 + 3 * len(beds))
    with panels(title, len(beds), len(VALUE_FUNCTIONS), size=size, sharex=True) as (figure, axes):
        for line, bed in zip(axes, beds, strict=True):
            for axis, value_function in zip(line, VALUE_FUNCTIONS, strict=True):
                own = where(rows, bed=bed, value_function=value_function)
                series = {
                    asks: {
                        level: spread([row["value_per_core_hour"] for row in each])
                        for level in LEVELS
                        if (each := where(own, asks=asks, level=level))
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
    source='docs/design/volatile-resources.md "In the product"; our own question',
    cases=_cases,
    pictures=(
        Picture(
            "volatile-disclosure",
            "Value by core-hour used when the same users aim at lifetimes by what the cloud discloses; mean "
            "over seeds, from the smallest to the largest.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
