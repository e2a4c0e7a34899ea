"""What forbids a strict promise to admit more of the papers' production traces, and to complete more work?

A strict promise needs evidence: a virtual instance of this size, born into as many free slots, was followed
up for as long as the request asks. How many such lifetimes a history must hold is ``history_lifetimes`` of
``AdmissionRule``, varied here on all platforms of PREDICTION.md "On the papers' production traces". Beside it
stands a bound that no such rule passes: when a request asks for more time than the cloud has recorded at all,
nobody can have been followed up so long. What the SLA-unaware baseline completes is therefore counted by
lifetime ÷ history at the time of asking. Nobody asks before the first table: spot comes 24 h late (P2 §3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.admission.rule import PAPERS_ADMISSION, STRICT_RULE, AdmissionRule
from cloudsim.cloud.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.cloud.inventory import parse_nodes
from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.promise.pairs import needs
from cloudsim.experiments.promise.published_numbers import ADMITTED, BASELINE_COUNTS, EVICTED, PAIRS, drawn
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.model.changes import Change, End, Ended
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind
from cloudsim.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLA = 0.01
DELAY_S = 86_400.0
#: Of ``AdmissionRule``: at SLA .01 no, two and four lifetimes; the last is the rule of our clouds. One is
#: what a sample followed up so long takes anyway.
NO_RULE, OUR_LIFETIMES = PAPERS_ADMISSION.history_lifetimes, STRICT_RULE.history_lifetimes
HISTORY_LIFETIMES = (NO_RULE, 0.02, OUR_LIFETIMES)
#: Lifetime ÷ history up to which requests are counted; None: all of them.
WHOLE, QUARTER = 1.0, 0.25
HISTORY_SHARES: tuple[float | None, ...] = (None, WHOLE, 0.5, QUARTER)
RULE, WORK = "rule", "work"
_FULL = {pair: next(nodes for own, nodes in BASELINE_COUNTS if own == pair) for pair in PAIRS}
_QUICK_REQUESTS = 300
#: PREDICTION.md, "samples still alive", for a prototype that asks for one sample followed up so long.
_EXPECTED = {"A-B": 0.933, "B-A": 0.855, "C-D": 0.931, "D-C": 0.960}
#: P2 §3.6, for D-C at SLA .01.
_PAPERS_WORK = 0.54
#: Of the baseline's core-hours: what a strict rule is asked to complete.
_WANTED = 0.9


class Outcomes(NamedTuple):
    """Spot requests in order of asking; every column has shape (n,)."""

    asked_s: NDArray[np.float64]  # cloud's time, which is also how long its history is
    cores: NDArray[np.int64]
    lifetime_s: NDArray[np.float64]
    completed: NDArray[np.bool_]

    @property
    def core_hours(self) -> NDArray[np.float64]:
        """What each asks for."""
        return self.cores * self.lifetime_s / 3600

    def within(self, history_share: float | None) -> NDArray[np.bool_]:
        """Who asks for no more than this share of the history at the time of asking."""
        return self.lifetime_s <= self.asked_s * (np.inf if history_share is None else history_share)


def unaware(nodes: str, on_demand: Trace, spot: Trace) -> Outcomes:
    """The SLA-unaware baseline: the replay of ``single_cloud_row`` without an SLA, request by request."""
    spec = CloudSpec("cloud", parse_nodes(nodes))
    member = FederatedCloud(spec, nodes, on_demand)
    federation = Federation((member,), (Workload("spot", spot, DELAY_S, None, (spec.id,)),))
    cloud = Cloud(spec, on_demand, federation.ends_s)
    asked = list(federation.requests())
    changes: list[Change] = []
    for now_s, request, _ in asked:
        changes += cloud.advance(now_s)
        answer = cloud.admit(request, now_s)
        changes += [] if isinstance(answer, Refusal) else answer
    changes += cloud.advance(*AFTER_EVERYTHING)
    done = {
        change.instance.id
        for change in changes
        if isinstance(change, Ended) and change.how is End.COMPLETED and change.instance.kind is Kind.SPOT
    }
    return Outcomes(
        np.array([now_s for now_s, _, _ in asked]),
        np.array([request.cores for _, request, _ in asked], dtype=np.int64),
        np.array([request.lifetime_s for _, request, _ in asked], dtype=np.float64),
        np.array([request.id in done for _, request, _ in asked], dtype=np.bool_),
    )


def _traces(data: Path, pair: str, most: int | None) -> tuple[Trace, Trace]:
    from cloudsim.traces.formats import read

    on_demand, spot = (read(data / name)[0] for name in needs(pair))
    return (on_demand, spot) if most is None else (on_demand.head(most), spot.head(most))


def admit(data: Path, *, pair: str, nodes: str, history_lifetimes: float, most: int | None) -> list[Row]:
    """A pair on a platform at SLA .01 under one rule of evidence: a row of ``single_cloud_row``."""
    from cloudsim.experiments.runs import single_cloud_row

    on_demand, spot = _traces(data, pair, most)
    row = single_cloud_row(
        pair=pair, nodes=nodes, on_demand=on_demand, spot=spot, sla=SLA, spot_delay_s=DELAY_S,
        admission=AdmissionRule(history_lifetimes=history_lifetimes),
    )  # fmt: skip
    return [{"measure": RULE, "history_lifetimes": history_lifetimes, **row}]


def work(data: Path, *, pair: str, nodes: str, most: int | None) -> list[Row]:
    """A pair on a platform without an SLA: whose core-hours the baseline completes.

    A row for each of ``HISTORY_SHARES``, about the requests with lifetime ≤ share × history that fit on an
    empty node: eligible (their number); core_hours_eligible (that they ask for), core_hours_of_baseline (of
    them, that the baseline completes among all requests) and core_hours_alone (that it completes when it is
    asked by nobody else). spot_requests and core_hours_requested are of all requests.
    """
    on_demand, spot = _traces(data, pair, most)
    largest = max(parse_nodes(nodes))
    whole = unaware(nodes, on_demand, spot)
    rows: list[Row] = []
    for share in HISTORY_SHARES:
        eligible = whole.within(share) & (whole.cores <= largest)
        alone = whole
        if share is not None:
            history_s = spot.start_s + DELAY_S
            alone = unaware(nodes, on_demand, spot.select(spot.lifetime_s <= share * history_s))
        rows.append({
            "measure": WORK, "pair": pair, "nodes": nodes, "history_share": share,
            "spot_requests": len(whole.cores), "eligible": int(eligible.sum()),
            "core_hours_requested": float(whole.core_hours.sum()),
            "core_hours_eligible": float(whole.core_hours[eligible].sum()),
            "core_hours_of_baseline": float(whole.core_hours[eligible & whole.completed].sum()),
            "core_hours_alone": float(alone.core_hours[alone.completed].sum()),
        })  # fmt: skip
    return rows


def _cases(quick: bool) -> list[Case]:
    most = _QUICK_REQUESTS if quick else None
    platforms = [(PAIRS[0], _FULL[PAIRS[0]])] if quick else list(BASELINE_COUNTS)
    cases = [
        Case(
            f"{pair} on {nodes}, {lifetimes:g}/p lifetimes", admit,
            {"pair": pair, "nodes": nodes, "history_lifetimes": lifetimes, "most": most}, needs(pair),
        )
        for pair, nodes in platforms
        for lifetimes in ((NO_RULE, OUR_LIFETIMES) if quick else HISTORY_LIFETIMES)
    ]  # fmt: skip
    return cases + [
        Case(f"{pair}, work", work, {"pair": pair, "nodes": _FULL[pair], "most": most}, needs(pair))
        for pair in (PAIRS[:1] if quick else PAIRS)
    ]


class CompletedWork(NamedTuple):
    """Core-hours of a pair on its full platform as shares of what the baseline completes there."""

    pair: str
    of_requested: float  # the baseline's own, of all that is requested
    beyond: dict[float, float]  # lifetimes longer than this share of the history, of the baseline's
    eligible: dict[float, float]  # that lifetimes up to this share of the history ask for
    alone: dict[float, float]  # the baseline's when only those ask
    reached: dict[float, float]  # by a strict promise, by history_lifetimes


def shares_of_work(rows: Sequence[Row]) -> list[CompletedWork]:
    """The pairs whose baseline was measured and completed anything."""
    found, limits = [], [share for share in HISTORY_SHARES if share is not None]
    for pair in PAIRS:
        parts = {row["history_share"]: row for row in rows if row["measure"] == WORK and row["pair"] == pair}
        done = parts[None]["core_hours_of_baseline"] if parts else 0.0
        if not done:
            continue
        promised = _rule(rows, pair, _FULL[pair])
        found.append(CompletedWork(
            pair, done / parts[None]["core_hours_requested"],
            {share: 1 - parts[share]["core_hours_of_baseline"] / done for share in limits},
            {share: parts[share]["core_hours_eligible"] / done for share in limits},
            {share: parts[share]["core_hours_alone"] / done for share in limits},
            {row["history_lifetimes"]: row["spot_core_hours_completed"] / done for row in promised},
        ))  # fmt: skip
    return found


def _rule(rows: Sequence[Row], pair: str, nodes: str) -> list[Row]:
    return [row for row in rows if row["measure"] == RULE and (row["pair"], row["nodes"]) == (pair, nodes)]


def _named(history_lifetimes: float) -> str:
    return f"{history_lifetimes:g}/p lifetimes" if history_lifetimes else "no rule"


def _findings(rows: Sequence[Row]) -> list[str]:
    rules = [[row for row in rows if row.get("history_lifetimes") == rule] for rule in HISTORY_LIFETIMES]
    found = [_promise(own[0]["history_lifetimes"], own) for own in rules if own]
    for pair in PAIRS:
        if own := _rule(rows, pair, _FULL[pair]):
            found += [_admission(pair, own), _refusals(rows, pair, own[-1])]
    works = shares_of_work(rows)
    found += [_of_work(one) for one in works]
    return found + (_judgement(works) if works else []) + _papers_count(works)


def _promise(lifetimes: float, rows: Sequence[Row]) -> str:
    broken = [
        f"{row['pair']} on {row['nodes']} ({row['evicted']} of {row['spot_admitted']}, "
        f"{drawn(row, EVICTED):.4f}; 95 % from {row['evicted_low']:.4f} to {row['evicted_high']:.4f})"
        for row in rows
        if row["evicted"] > row["sla"] * row["spot_admitted"]
    ]
    what = f"A history of {_named(lifetimes)}" if lifetimes else "No rule but a sample followed up so long"
    return f"{what}: SLA .01 is kept on {len(rows) - len(broken)} of {len(rows)} platforms" + (
        f"; broken on {', '.join(broken)}." if broken else "."
    )


def _admission(pair: str, rows: Sequence[Row]) -> str:
    told = [
        f"{drawn(row, ADMITTED):.3f} with {_named(row['history_lifetimes'])} ({row['evicted']} of "
        f"{row['spot_admitted']} evicted, 95 % to {row['evicted_high']:.4f})"
        for row in rows
    ]
    price = drawn(rows[0], ADMITTED) - drawn(rows[-1], ADMITTED)
    change = "costs" if price >= 0 else "gains"
    return (
        f"{pair} on {rows[0]['nodes']} admits {', '.join(told)}; the strictest {change} {abs(price):.3f}, "
        f"where PREDICTION.md expects {_EXPECTED[pair]:.3f} without it."
    )


def _refusals(rows: Sequence[Row], pair: str, kept: Row) -> str:
    of = {row["history_share"]: row for row in rows if row["measure"] == WORK and row["pair"] == pair}
    reasons = ", ".join(f"{count} {reason}" for reason, count in kept["refusals"].items()) or "none, 0 in all"
    told = f"{pair}, refused with {_named(kept['history_lifetimes'])} of {kept['spot_requests']}: {reasons}"
    if of:
        fits = of[None]["eligible"]
        told += (
            f"; of the {fits} that fit on a node {fits - of[WHOLE]['eligible']} ask for longer than there is "
            f"history, {fits - of[QUARTER]['eligible']} for longer than a quarter of it"
        )
    return told + "."


def _of_work(one: CompletedWork) -> str:
    longer = ", ".join(
        f"{part:.2f} with one longer than {'all' if share == WHOLE else f'{share:g}'} of it"
        for share, part in one.beyond.items()
    )
    reached = " and ".join(f"{share:.2f} with {_named(rule)}" for rule, share in one.reached.items())
    return (
        f"{one.pair}, work: without an SLA {one.of_requested:.3f} of the requested core-hours complete. Of "
        f"these, by lifetime ÷ history at the time of asking: {longer}. Requests no longer than the history "
        f"ask for {one.eligible[WHOLE]:.2f} of what the baseline completes, which is the most that any rule "
        f"with evidence can reach; taking each of them that fits, without any promise, completes "
        f"{one.alone[WHOLE]:.2f} (no longer than a quarter of it: {one.alone[QUARTER]:.2f}). Our strict "
        f"promise completes {reached or 'nothing measured, 0'}."
    )


def _judgement(works: Sequence[CompletedWork]) -> list[str]:
    asked = [f"{one.pair} ({one.eligible[WHOLE]:.2f})" for one in works if one.eligible[WHOLE] < _WANTED]
    taken = [f"{one.pair} ({one.alone[WHOLE]:.2f})" for one in works if one.alone[WHOLE] < _WANTED]
    left = ", ".join(
        f"{one.alone[QUARTER] - one.reached[OUR_LIFETIMES]:.2f} on {one.pair}"
        for one in works
        if OUR_LIFETIMES in one.reached
    )
    bound = (
        f"To complete {_WANTED:g} of the baseline's core-hours from lifetimes that the history has seen is "
        f"out of reach on {', '.join(asked) or 'no pair'}, where less is asked for; taking all that "
        f"fits falls short of it on {', '.join(taken) or 'no pair'}, of {len(works)} pairs."
    )
    beside = (
        "What evidence does not explain: lifetimes up to a quarter of the history complete more of the "
        "baseline's core-hours without a promise than with ours, which refuses each risk above .01, by "
        f"{left}."
    )
    return [bound, beside] if left else [bound]


def _papers_count(works: Sequence[CompletedWork]) -> list[str]:
    return [
        (
            f"P2 §3.6 has {_PAPERS_WORK} of the total spot work on D-C at SLA .01, work being lifetime × "
            "cores of completed spot instances, and does not say of which run. Of all that is requested it "
            f"would be more than our baseline completes ({one.of_requested:.2f}), so we read it as of the "
            "baseline's completed work. Counted so, ours is "
            + " and ".join(
                f"{share:.2f} with {_named(rule)} ({share * one.of_requested:.2f} of the requested)"
                for rule, share in one.reached.items()
            )
            + f"; lifetimes that the history has seen give {one.alone[WHOLE]:.2f} with all that fits taken."
        )
        for one in works
        if one.pair == "D-C" and one.of_requested < _PAPERS_WORK and one.reached
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    from cloudsim.experiments.drawing import figure_of, styled

    with styled():
        figure = figure_of(10.5, 4.8)
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        _draw_promises(left, [row for row in rows if row["measure"] == RULE])
        _draw_work(right, shares_of_work(rows))
        for axes in (left, right):
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return figure


def _draw_promises(axes: Axes, rows: Sequence[Row]) -> None:
    from cloudsim.experiments.drawing import evicted_axis
    from cloudsim.experiments.panels import Dot, dots_by_group
    from cloudsim.plots import GREY

    platforms = [one for one in BASELINE_COUNTS if _rule(rows, *one)]
    series = {
        f"history of {_named(lifetimes)}" if lifetimes else "no rule of evidence": {
            " ".join(one): Dot(drawn(row, EVICTED), row["evicted_low"], row["evicted_high"])
            for one in platforms
            for row in _rule(rows, *one)
            if row["history_lifetimes"] == lifetimes and row["spot_admitted"]
        }
        for lifetimes in (NO_RULE, OUR_LIFETIMES)
    }
    dots_by_group(axes, [" ".join(one) for one in platforms], series)
    axes.axhline(SLA, ls=":", color=GREY, lw=1.4, zorder=0, label="the promise")
    evicted_axis(axes, 0.05)
    axes.set_ylabel("evicted ÷ admitted, exact 95 %")
    axes.set_xticks(
        range(len(platforms)),
        [
            nodes.partition("x")[0] + (f"\n{pair}" if nodes == _FULL[pair] else "")
            for pair, nodes in platforms
        ],
    )
    axes.set_xlabel("pair and nodes")
    axes.set_title("Is SLA .01 kept?", loc="left")


def _draw_work(axes: Axes, works: Sequence[CompletedWork]) -> None:
    from cloudsim.experiments.drawing import LINES
    from cloudsim.experiments.panels import share_axis
    from cloudsim.plots import GREY, INK

    places = list(range(len(works)))
    share_axis(axes, "core-hours ÷ those of the baseline without an SLA")
    parts = (
        ("lifetime longer than the history", WHOLE, "#BDBDBD"),
        ("longer than a quarter of it", QUARTER, "#D9D9D9"), ("shorter", 0.0, "#F0F0F0"),
    )  # fmt: skip
    below = [1.0] * len(works)
    for label, limit, colour in parts:
        lower = [1 - one.beyond[limit] if limit else 0.0 for one in works]
        heights = [high - low for high, low in zip(below, lower, strict=True)]
        axes.bar(places, heights, 0.86, lower, color=colour, edgecolor="white", label=label, zorder=1)
        below = lower
    marks = (
        ("asked for within the history", [one.eligible[WHOLE] for one in works], "_", INK, -0.3),
        ("completed of it, all that fits", [one.alone[WHOLE] for one in works], "_", GREY, -0.3),
        ("SLA .01, no rule", [one.reached.get(NO_RULE, np.nan) for one in works], *LINES[0][::-1], 0.05),
        (f"SLA .01, {_named(OUR_LIFETIMES)}", [one.reached.get(OUR_LIFETIMES, np.nan) for one in works],
         *LINES[1][::-1], 0.27),
    )  # fmt: skip
    for label, values, marker, colour, offset in marks:
        at = [place + offset for place in places]
        wide, edge = (17, 2.2) if marker == "_" else (6, 0.0)
        axes.plot(at, values, marker, color=colour, ms=wide, mew=edge, zorder=3, label=label)
    axes.set_xticks(places, [one.pair for one in works])
    axes.set_ylim(0, 1.02)
    axes.set_title("Whose work is it?", loc="left")


EXPERIMENT = Experiment(
    name="evidence",
    title="What a strict promise has no evidence for",
    source="our own question, on the pairs of P1 Tables III and IV and P2 §3.6",
    cases=_cases,
    pictures=(
        Picture(
            "evidence",
            "Left, spot evicted at SLA .01 with and without a rule of evidence. Right, core-hours completed "
            "without an SLA, by lifetime ÷ history at the time of asking, and shares of them: what requests "
            "no longer than the history ask for (no rule with evidence completes more), what of it completes "
            "when all that fits is taken, and what a strict promise of .01 completes.",
            _draw,
        ),
    ),
    findings=_findings,
)
