"""Evidence: what keeps a strict promise from admitting and completing more of the papers' production traces.

A strict promise needs evidence: a virtual instance of this size, born into as many free slots, was followed
up for as long as the request asks. The number of such lifetimes that a history must hold is
``history_lifetimes`` of ``AdmissionRule``, varied here on all platforms of docs/design/prediction.md "On the
papers' production traces". Beside it stands a bound that no such rule passes: when a request asks for more
time than the cloud has recorded at all, nothing can have been followed up for so long. The work that the
SLA-unaware baseline completes is therefore counted by lifetime ÷ history at the time of asking. No request
comes before the first table: spot is delayed by 24 h (P2 §3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloudsim.admission.rule import PAPERS_ADMISSION, STRICT_RULE, AdmissionRule
from cloudsim.cloud.cloud import AFTER_EVERYTHING, Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.experiments.drawing import (
    LINES,
    Axes,
    Dot,
    Figure,
    dots_by_group,
    evicted_axis,
    figure_of,
    share_axis,
    styled,
)
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, where
from cloudsim.experiments.promise.outcomes import keeps_promise
from cloudsim.experiments.promise.pairs import needs, pair_row, read_pair, shape
from cloudsim.experiments.promise.published_numbers import ADMITTED, BASELINE_COUNTS, EVICTED, PAIRS, drawn
from cloudsim.experiments.runs import SPOT_DELAY_S
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.model.changes import Change, End, Ended
from cloudsim.model.refusals import Refusal
from cloudsim.model.requests import Kind
from cloudsim.plots import GREY, INK
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.trace import Trace

SLA = 0.01
#: ``AdmissionRule.history_lifetimes``: at SLA .01 no, two and four lifetimes; the last is the rule of our
#: clouds. A sample that was followed up so long takes one in any case.
NO_RULE, OUR_LIFETIMES = PAPERS_ADMISSION.history_lifetimes, STRICT_RULE.history_lifetimes
HISTORY_LIFETIMES = (NO_RULE, 0.02, OUR_LIFETIMES)
#: Lifetime ÷ history up to which requests are counted; None: all of them.
WHOLE, QUARTER = 1.0, 0.25
HISTORY_SHARES: tuple[float | None, ...] = (None, WHOLE, 0.5, QUARTER)
RULE, WORK = "rule", "work"
_FULL = {pair: shape(pair) for pair in PAIRS}
_QUICK_REQUESTS = 300
#: docs/design/prediction.md "What the papers leave open", for a prototype that asks for one sample followed
#: up so long.
_EXPECTED = {"A-B": 0.933, "B-A": 0.855, "C-D": 0.931, "D-C": 0.960}
#: P2 §3.6, for D-C at SLA .01.
_PAPERS_WORK = 0.54
#: Share of the baseline's core-hours that a strict rule is asked to complete.
_WANTED = 0.9


class Outcomes(NamedTuple):
    """Spot requests in order of asking; every column has shape (n,)."""

    asked_s: NDArray[np.float64]  # cloud's time, which is also how long its history is
    cores: NDArray[np.int64]
    lifetime_s: NDArray[np.float64]
    completed: NDArray[np.bool_]

    @property
    def core_hours(self) -> NDArray[np.float64]:
        """Core-hours that each request asks for, shape (n,)."""
        return self.cores * self.lifetime_s / 3600

    def within(self, history_share: float | None) -> NDArray[np.bool_]:
        """Return which requests ask for at most this share of the history so far, shape (n,)."""
        return self.lifetime_s <= self.asked_s * (np.inf if history_share is None else history_share)


def unaware(nodes: str, on_demand: Trace, spot: Trace) -> Outcomes:
    """Replay the SLA-unaware baseline of ``single_cloud_row`` request by request."""
    spec = CloudSpec("cloud", parse_nodes(nodes))
    member = FederatedCloud(spec, nodes, on_demand)
    federation = Federation((member,), (Workload("spot", spot, SPOT_DELAY_S, None, (spec.id,)),))
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


def measure_rule(
    data: Path, *, pair: str, nodes: str, history_lifetimes: float, most: int | None
) -> list[Row]:
    """Run a pair on a platform at SLA .01 under one rule of evidence: a row of ``single_cloud_row``."""
    rule = AdmissionRule(history_lifetimes=history_lifetimes)
    row = pair_row(data, pair, nodes, most=most, sla=SLA, admission=rule)
    return [{"measure": RULE, "history_lifetimes": history_lifetimes, **row}]


def measure_work(data: Path, *, pair: str, nodes: str, most: int | None) -> list[Row]:
    """Run a pair on a platform without an SLA and count the core-hours that the baseline completes.

    A row for each of ``HISTORY_SHARES``, about the requests with lifetime ≤ share × history that fit on an
    empty node: eligible (their number); core_hours_eligible (that they ask for), core_hours_of_baseline (of
    these, completed by the baseline among all requests) and core_hours_alone (completed when no other request
    comes). spot_requests and core_hours_requested are of all requests.
    """
    on_demand, spot = read_pair(data, pair, most)
    largest = max(parse_nodes(nodes))
    whole = unaware(nodes, on_demand, spot)
    rows: list[Row] = []
    for share in HISTORY_SHARES:
        eligible = whole.within(share) & (whole.cores <= largest)
        alone = whole
        if share is not None:
            history_s = spot.start_s + SPOT_DELAY_S
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
            f"{pair} on {nodes}, {lifetimes:g}/p lifetimes", measure_rule,
            {"pair": pair, "nodes": nodes, "history_lifetimes": lifetimes, "most": most}, needs(pair),
        )
        for pair, nodes in platforms
        for lifetimes in ((NO_RULE, OUR_LIFETIMES) if quick else HISTORY_LIFETIMES)
    ]  # fmt: skip
    return cases + [
        Case(f"{pair}, work", measure_work, {"pair": pair, "nodes": _FULL[pair], "most": most}, needs(pair))
        for pair in (PAIRS[:1] if quick else PAIRS)
    ]


class CompletedWork(NamedTuple):
    """Core-hours of a pair on its full platform as shares of the baseline's completed ones."""

    pair: str
    of_requested: float  # the baseline's own, of all that is requested
    beyond: dict[float, float]  # lifetimes longer than this share of the history, of the baseline's
    eligible: dict[float, float]  # that lifetimes up to this share of the history ask for
    alone: dict[float, float]  # the baseline's when only those ask
    reached: dict[float, float]  # by a strict promise, by history_lifetimes


def shares_of_work(rows: Sequence[Row]) -> list[CompletedWork]:
    """Return the pairs whose baseline was measured and completed anything."""
    works, limits = [], [share for share in HISTORY_SHARES if share is not None]
    for pair in PAIRS:
        parts = {row["history_share"]: row for row in where(rows, measure=WORK, pair=pair)}
        done = parts[None]["core_hours_of_baseline"] if parts else 0.0
        if not done:
            continue
        promised = _rule(rows, pair, _FULL[pair])
        works.append(CompletedWork(
            pair, done / parts[None]["core_hours_requested"],
            {share: 1 - parts[share]["core_hours_of_baseline"] / done for share in limits},
            {share: parts[share]["core_hours_eligible"] / done for share in limits},
            {share: parts[share]["core_hours_alone"] / done for share in limits},
            {row["history_lifetimes"]: row["spot_core_hours_completed"] / done for row in promised},
        ))  # fmt: skip
    return works


def _rule(rows: Sequence[Row], pair: str, nodes: str) -> list[Row]:
    return where(rows, measure=RULE, pair=pair, nodes=nodes)


def _named(history_lifetimes: float) -> str:
    return f"{history_lifetimes:g}/p lifetimes" if history_lifetimes else "no rule"


def _sentences(rows: Sequence[Row]) -> list[str]:
    rules = [where(rows, history_lifetimes=rule) for rule in HISTORY_LIFETIMES]
    texts = [_promise(own[0]["history_lifetimes"], own) for own in rules if own]
    for pair in PAIRS:
        if own := _rule(rows, pair, _FULL[pair]):
            texts += [_admission(pair, own), _refusals(rows, pair, own[-1])]
    works = shares_of_work(rows)
    texts += [_of_work(work) for work in works]
    return texts + (_judgement(works) if works else []) + _papers_count(works)


def _promise(lifetimes: float, rows: Sequence[Row]) -> str:
    broken = [
        f"{row['pair']} on {row['nodes']} ({row['evicted']} of {row['spot_admitted']}, "
        f"{drawn(row, EVICTED):.4f}; 95 % from {row['evicted_low']:.4f} to {row['evicted_high']:.4f})"
        for row in rows
        if not keeps_promise(row)
    ]
    what = f"A history of {_named(lifetimes)}" if lifetimes else "No rule but a sample followed up so long"
    return f"{what}: SLA .01 is kept on {len(rows) - len(broken)} of {len(rows)} platforms" + (
        f"; broken on {', '.join(broken)}." if broken else "."
    )


def _admission(pair: str, rows: Sequence[Row]) -> str:
    shares = [
        f"{drawn(row, ADMITTED):.3f} with {_named(row['history_lifetimes'])} ({row['evicted']} of "
        f"{row['spot_admitted']} evicted, 95 % to {row['evicted_high']:.4f})"
        for row in rows
    ]
    price = drawn(rows[0], ADMITTED) - drawn(rows[-1], ADMITTED)
    change = "costs" if price >= 0 else "gains"
    return (
        f"{pair} on {rows[0]['nodes']} admits {', '.join(shares)}; the strictest {change} {abs(price):.3f}, "
        f"where docs/design/prediction.md expects {_EXPECTED[pair]:.3f} without it."
    )


def _refusals(rows: Sequence[Row], pair: str, kept: Row) -> str:
    of = {row["history_share"]: row for row in where(rows, measure=WORK, pair=pair)}
    reasons = ", ".join(f"{count} {reason}" for reason, count in kept["refusals"].items()) or "none, 0 in all"
    text = f"{pair}, refused with {_named(kept['history_lifetimes'])} of {kept['spot_requests']}: {reasons}"
    if of:
        fits = of[None]["eligible"]
        text += (
            f"; of the {fits} that fit on a node {fits - of[WHOLE]['eligible']} ask for longer than there is "
            f"history, {fits - of[QUARTER]['eligible']} for longer than a quarter of it"
        )
    return text + "."


def _of_work(work: CompletedWork) -> str:
    longer = ", ".join(
        f"{part:.2f} with one longer than {'all' if share == WHOLE else f'{share:g}'} of it"
        for share, part in work.beyond.items()
    )
    reached = " and ".join(f"{share:.2f} with {_named(rule)}" for rule, share in work.reached.items())
    return (
        f"{work.pair}, work: without an SLA {work.of_requested:.3f} of the requested core-hours complete. Of "
        f"these, by lifetime ÷ history at the time of asking: {longer}. Requests no longer than the history "
        f"ask for {work.eligible[WHOLE]:.2f} of what the baseline completes, which is the most that any rule "
        f"with evidence can reach; taking each of them that fits, without any promise, completes "
        f"{work.alone[WHOLE]:.2f} (no longer than a quarter of it: {work.alone[QUARTER]:.2f}). Our strict "
        f"promise completes {reached or 'nothing measured, 0'}."
    )


def _judgement(works: Sequence[CompletedWork]) -> list[str]:
    asked = [f"{work.pair} ({work.eligible[WHOLE]:.2f})" for work in works if work.eligible[WHOLE] < _WANTED]
    taken = [f"{work.pair} ({work.alone[WHOLE]:.2f})" for work in works if work.alone[WHOLE] < _WANTED]
    left = ", ".join(
        f"{work.alone[QUARTER] - work.reached[OUR_LIFETIMES]:.2f} on {work.pair}"
        for work in works
        if OUR_LIFETIMES in work.reached
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
            f"would be more than our baseline completes ({work.of_requested:.2f}), so we read it as of the "
            "baseline's completed work. Counted so, ours is "
            + " and ".join(
                f"{share:.2f} with {_named(rule)} ({share * work.of_requested:.2f} of the requested)"
                for rule, share in work.reached.items()
            )
            + f"; lifetimes that the history has seen give {work.alone[WHOLE]:.2f} with all that fits taken."
        )
        for work in works
        if work.pair == "D-C" and work.of_requested < _PAPERS_WORK and work.reached
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    with styled():
        figure = figure_of(10.5, 4.8)
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        _draw_promises(left, where(rows, measure=RULE))
        _draw_work(right, shares_of_work(rows))
        for axes in (left, right):
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return figure


def _draw_promises(axes: Axes, rows: Sequence[Row]) -> None:
    platforms = [platform for platform in BASELINE_COUNTS if _rule(rows, *platform)]
    series = {
        f"history of {_named(lifetimes)}" if lifetimes else "no rule of evidence": {
            " ".join(platform): Dot(drawn(row, EVICTED), row["evicted_low"], row["evicted_high"])
            for platform in platforms
            for row in _rule(rows, *platform)
            if row["history_lifetimes"] == lifetimes and row["spot_admitted"]
        }
        for lifetimes in (NO_RULE, OUR_LIFETIMES)
    }
    dots_by_group(axes, [" ".join(platform) for platform in platforms], series)
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
    places = list(range(len(works)))
    share_axis(axes, "core-hours ÷ those of the baseline without an SLA")
    parts = (
        ("lifetime longer than the history", WHOLE, "#BDBDBD"),
        ("longer than a quarter of it", QUARTER, "#D9D9D9"), ("shorter", 0.0, "#F0F0F0"),
    )  # fmt: skip
    below = [1.0] * len(works)
    for label, limit, colour in parts:
        lower = [1 - work.beyond[limit] if limit else 0.0 for work in works]
        heights = [high - low for high, low in zip(below, lower, strict=True)]
        axes.bar(places, heights, 0.86, lower, color=colour, edgecolor="white", label=label, zorder=1)
        below = lower
    marks = (
        ("asked for within the history", [work.eligible[WHOLE] for work in works], "_", INK, -0.3),
        ("completed of it, all that fits", [work.alone[WHOLE] for work in works], "_", GREY, -0.3),
        ("SLA .01, no rule", [work.reached.get(NO_RULE, np.nan) for work in works], *LINES[0][::-1], 0.05),
        (f"SLA .01, {_named(OUR_LIFETIMES)}", [work.reached.get(OUR_LIFETIMES, np.nan) for work in works],
         *LINES[1][::-1], 0.27),
    )  # fmt: skip
    for label, values, marker, colour, offset in marks:
        at = [place + offset for place in places]
        wide, edge = (17, 2.2) if marker == "_" else (6, 0.0)
        axes.plot(at, values, marker, color=colour, ms=wide, mew=edge, zorder=3, label=label)
    axes.set_xticks(places, [work.pair for work in works])
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
    sentences=_sentences,
)
