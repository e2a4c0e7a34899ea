"""Evidence: how much of it a strict promise should ask for, and the work for which there is none.

A strict promise needs evidence: a virtual instance of this size, born into as many free slots, was followed
up for as long as the request asks. ``history_lifetimes`` of ``AdmissionRule`` says how many lifetimes a
history must hold at an SLA. A procedure chooses it that never sees the platforms on which it is reported:
draws of the long-lived bed and the logs of batch systems choose. A candidate holds on a bed if SLA .01 is
kept in ``ENOUGH`` of its draws; of those that hold on most beds the one that asks for least is taken. The
papers' traces on all their platforms, and other draws of the bed, only judge: what each candidate keeps,
admits and completes there. See docs/design/prediction.md "The rule of evidence".

Beside it stands a bound that no rule passes: when a request asks for more time than the cloud has recorded
at all, nothing can have been followed up for so long. The work that the SLA-unaware baseline completes is
therefore counted by lifetime ÷ history at the time of asking. No request comes before the first table: spot
is delayed by 24 h (P2 §3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloudsim.admission.rule import PAPERS_ADMISSION, STRICT_RULE, AdmissionRule
from cloudsim.cloud.spec import HOUR_S, CloudSpec
from cloudsim.experiments.drawing import (
    LINES,
    Axes,
    Figure,
    figure_of,
    legend_below,
    panels,
    share_axis,
    styled,
)
from cloudsim.experiments.experiment import (
    Case,
    Experiment,
    Picture,
    Row,
    distinct,
    ratio,
    total,
    where,
)
from cloudsim.experiments.ours.promise_map import LOG_PAIRS, LOGS
from cloudsim.experiments.promise.beds import draw
from cloudsim.experiments.promise.outcomes import ENOUGH, BedOutcome, outcome, share
from cloudsim.experiments.promise.pairs import needs, pair_row, read_pair, shape
from cloudsim.experiments.promise.published_numbers import BASELINE_COUNTS, PAIRS
from cloudsim.experiments.runs import SPOT_DELAY_S, single_cloud_row
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.federation.request_outcomes import RequestOutcomes
from cloudsim.model.binomial import clopper_pearson
from cloudsim.model.changes import End
from cloudsim.plots import GREY, INK
from cloudsim.scheduling.inventory import parse_nodes
from cloudsim.traces.formats import read
from cloudsim.traces.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

SLA = 0.01
NO_RULE, OUR_LIFETIMES = PAPERS_ADMISSION.history_lifetimes, STRICT_RULE.history_lifetimes
#: Values of ``history_lifetimes`` to choose from; the last asks for 32 lifetimes of history at SLA .01.
CANDIDATES = (NO_RULE, OUR_LIFETIMES, 0.08, 0.16, 0.32)

#: The bed on which lifetimes are long beside the history; on the others evidence decides nothing.
LONG_LIVED = "long-lived"
CHOOSING, JUDGING, WORK = "choosing", "judging", "work"
#: Seeds of the bed that choose, and that judge; the first are reported nowhere else.
CHOOSING_SEEDS, JUDGING_SEEDS = range(1000, 1040), range(40)
#: Jobs of each log that choose, and births a size: a whole log takes an hour.
_JOBS, _LOG_BIRTHS = 3_000, 1_000
#: The machines of the logs, cut into nodes of 16 cores.
_MACHINES = {"KTH": "6x16,1x4", "SDSC": "8x16", "NASA": "8x16"}
_QUICK_HOURS, _QUICK_BIRTHS, _QUICK_REQUESTS = 240.0, 300, 300
_ALL_PLATFORMS = "A to D, all platforms"
#: Lifetime ÷ history up to which requests are counted; None: all of them.
WHOLE, QUARTER = 1.0, 0.25
HISTORY_SHARES: tuple[float | None, ...] = (None, WHOLE, 0.5, QUARTER)
#: P2 §3.6, for D-C at SLA .01.
_PAPERS_WORK = 0.54
#: Share of the baseline's core-hours that a strict rule is asked to complete.
_WANTED = 0.9
_SHOWN = (
    "spot_requests", "spot_admitted", "evicted", "spot_core_hours_requested",
    "spot_core_hours_completed", "spot_core_hours_baseline",
)  # fmt: skip


def _row(role: str, bed: str, platform: str, history_lifetimes: float, row: Row) -> Row:
    """Return a row of this experiment.

    Columns: role, bed, platform, history_lifetimes, sla, and those of ``single_cloud_row`` in ``_SHOWN``.
    """
    return {
        "role": role, "bed": bed, "platform": platform, "history_lifetimes": history_lifetimes, "sla": SLA,
        **{column: row[column] for column in _SHOWN},
    }  # fmt: skip


def measure_bed(_data: Path | None, *, role: str, seed: int, births: int, hours: float | None) -> list[Row]:
    """Run one draw of the long-lived bed under each candidate."""
    drawn = draw(LONG_LIVED, seed, hours)
    return [
        _row(role, LONG_LIVED, f"seed {seed}", lifetimes, drawn.row(
            sla=SLA, seed=seed, births=births, admission=AdmissionRule(history_lifetimes=lifetimes)
        ))
        for lifetimes in CANDIDATES
    ]  # fmt: skip


def measure_log(data: Path, *, own: str, spot: str, history_lifetimes: float, jobs: int) -> list[Row]:
    """Run the first jobs of a batch log on its machine with those of another as spot."""
    on_demand, asked = (read(data / LOGS[name][0])[0].head(jobs) for name in (own, spot))
    row = single_cloud_row(
        pair=f"{own}-{spot}", nodes=_MACHINES[own], on_demand=on_demand, spot=asked, sla=SLA,
        births=_LOG_BIRTHS, admission=AdmissionRule(history_lifetimes=history_lifetimes),
    )  # fmt: skip
    return [_row(CHOOSING, row["pair"], row["nodes"], history_lifetimes, row)]


def measure_pair(
    data: Path, *, pair: str, nodes: str, history_lifetimes: float, most: int | None
) -> list[Row]:
    """Run one of the papers' pairs on a platform."""
    rule = AdmissionRule(history_lifetimes=history_lifetimes)
    row = pair_row(data, pair, nodes, most=most, sla=SLA, admission=rule)
    return [_row(JUDGING, pair, nodes, history_lifetimes, row)]


def unaware(nodes: str, on_demand: Trace, spot: Trace) -> pd.DataFrame:
    """Replay the SLA-unaware baseline of ``single_cloud_row``, a row a request.

    Columns: those of ``RequestOutcome``, and core_hours (that the request asks for).
    """
    member = FederatedCloud(CloudSpec("cloud", parse_nodes(nodes)), nodes, on_demand)
    workload = Workload("spot", spot, SPOT_DELAY_S, None, (member.spec.id,))
    outcomes = RequestOutcomes()
    replay(Federation((member,), (workload,)), seed=0, births=1, outcomes=outcomes)
    frame = outcomes.to_frame()
    return frame.assign(core_hours=frame["cores"] * frame["lifetime_s"] / HOUR_S)


def measure_work(data: Path, *, pair: str, nodes: str, most: int | None) -> list[Row]:
    """Run a pair on a platform without an SLA and count the core-hours that the baseline completes.

    A row for each of ``HISTORY_SHARES``, about the requests with lifetime ≤ share × history that fit on an
    empty node: eligible (their number); core_hours_eligible (that they ask for), core_hours_of_baseline (of
    these, completed by the baseline among all requests) and core_hours_alone (completed when no other request
    comes). spot_requests and core_hours_requested are of all requests.
    """
    on_demand, spot = read_pair(data, pair, most)
    whole = unaware(nodes, on_demand, spot)
    fits, completed = whole["cores"] <= max(parse_nodes(nodes)), whole["end"] == End.COMPLETED
    rows: list[Row] = []
    for limit in HISTORY_SHARES:
        eligible, alone = fits, whole
        if limit is not None:
            eligible = fits & (whole["lifetime_s"] <= limit * whole["asked_at_s"])
            history_s = spot.start_s + SPOT_DELAY_S
            alone = unaware(nodes, on_demand, spot.select(spot.lifetime_s <= limit * history_s))
        rows.append({
            "role": WORK, "bed": pair, "platform": nodes, "history_share": limit,
            "spot_requests": len(whole), "eligible": int(eligible.sum()),
            "core_hours_requested": float(whole["core_hours"].sum()),
            "core_hours_eligible": float(whole["core_hours"][eligible].sum()),
            "core_hours_of_baseline": float(whole["core_hours"][eligible & completed].sum()),
            "core_hours_alone": float(alone["core_hours"][alone["end"] == End.COMPLETED].sum()),
        })  # fmt: skip
    return rows


def _bed_cases(role: str, seeds: Sequence[int], quick: bool) -> list[Case]:
    options: dict[str, Any] = {"births": 10_000, "hours": None}
    if quick:
        seeds, options = seeds[:2], {"births": _QUICK_BIRTHS, "hours": _QUICK_HOURS}
    return [
        Case(f"{role}: {LONG_LIVED}, seed {seed}", measure_bed, {"role": role, "seed": seed, **options})
        for seed in seeds
    ]


def _cases(quick: bool) -> list[Case]:
    candidates = (NO_RULE, OUR_LIFETIMES) if quick else CANDIDATES
    logs = [
        Case(
            f"{CHOOSING}: {own} with spot of {spot}, {lifetimes:g}/p lifetimes", measure_log,
            {"own": own, "spot": spot, "history_lifetimes": lifetimes,
             "jobs": _QUICK_REQUESTS if quick else _JOBS},
            (LOGS[own][0], LOGS[spot][0]),
        )
        for own, spot in (LOG_PAIRS[:1] if quick else LOG_PAIRS)
        for lifetimes in candidates
    ]  # fmt: skip
    full = [(pair, shape(pair)) for pair in PAIRS]
    platforms = [*full, *(platform for platform in BASELINE_COUNTS if platform not in full)]
    pairs = [
        Case(
            f"{JUDGING}: {pair} on {nodes}, {lifetimes:g}/p lifetimes", measure_pair,
            {"pair": pair, "nodes": nodes, "history_lifetimes": lifetimes,
             "most": _QUICK_REQUESTS if quick else None},
            needs(pair),
        )
        for pair, nodes in (platforms[:1] if quick else platforms)
        for lifetimes in candidates
    ]  # fmt: skip
    beds = [
        case
        for role, seeds in ((CHOOSING, CHOOSING_SEEDS), (JUDGING, JUDGING_SEEDS))
        for case in _bed_cases(role, seeds, quick)
    ]
    works = [
        Case(
            f"{WORK}: {pair} on {nodes}", measure_work,
            {"pair": pair, "nodes": nodes, "most": _QUICK_REQUESTS if quick else None}, needs(pair),
        )
        for pair, nodes in (full[:1] if quick else full)
    ]  # fmt: skip
    return [*beds, *logs, *pairs, *works]


class Choice(NamedTuple):
    """A choice holds what the choosing beds say of each candidate.

    held: by candidate, the one that asks for least first, the beds on which it keeps the promise in enough
    draws. unheld: the beds on which none does, which cannot choose.
    """

    held: dict[float, tuple[str, ...]]
    unheld: tuple[str, ...]

    @property
    def history_lifetimes(self) -> float | None:
        """The candidate that asks for least of those that hold on most beds; None where none holds on any."""
        most = max(map(len, self.held.values()), default=0)
        return next((rule for rule, beds in self.held.items() if len(beds) == most), None) if most else None


def choose(rows: Sequence[Row]) -> Choice:
    """Apply the procedure to the rows whose role is to choose; the others are not looked at."""
    own = where(rows, role=CHOOSING)
    beds = tuple(distinct(own, "bed"))
    held = {}
    for lifetimes in sorted(distinct(own, "history_lifetimes")):
        found = {bed: where(own, bed=bed, history_lifetimes=lifetimes) for bed in beds}
        held[lifetimes] = tuple(bed for bed, draws in found.items() if draws and _holds(outcome(draws)))
    return Choice(held, tuple(bed for bed in beds if not any(bed in own for own in held.values())))


def _holds(found: BedOutcome) -> bool:
    return found.kept >= ENOUGH * found.seeds


def _named(history_lifetimes: float) -> str:
    return f"{history_lifetimes:g}/p lifetimes" if history_lifetimes else "no rule"


def _completed(rows: Sequence[Row]) -> float:
    return ratio(rows, "spot_core_hours_completed", "spot_core_hours_requested")


def _groups(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return what is reported together: each bed, each full pair, and all platforms of the papers."""
    groups = [
        (f"{role}, {bed}", where(rows, role=role, bed=bed))
        for role in (CHOOSING, JUDGING)
        for bed in distinct(where(rows, role=role), "bed")
        if role == CHOOSING or bed not in PAIRS
    ]
    pairs = [row for row in where(rows, role=JUDGING) if row["bed"] in PAIRS]
    full = [row for row in pairs if row["platform"] == shape(row["bed"])]
    groups += [(f"{JUDGING}, {pair}", own) for pair in PAIRS if (own := where(full, bed=pair))]
    return groups + ([(f"{JUDGING}, {_ALL_PLATFORMS}", pairs)] if pairs else [])


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
    works, limits = [], [limit for limit in HISTORY_SHARES if limit is not None]
    for pair in PAIRS:
        parts = {row["history_share"]: row for row in where(rows, role=WORK, bed=pair)}
        done = parts[None]["core_hours_of_baseline"] if parts else 0.0
        if not done:
            continue
        promised = where(rows, role=JUDGING, bed=pair, platform=shape(pair))
        works.append(CompletedWork(
            pair, done / parts[None]["core_hours_requested"],
            {limit: 1 - parts[limit]["core_hours_of_baseline"] / done for limit in limits},
            {limit: parts[limit]["core_hours_eligible"] / done for limit in limits},
            {limit: parts[limit]["core_hours_alone"] / done for limit in limits},
            {
                row["history_lifetimes"]: row["spot_core_hours_completed"] / done
                for row in promised
                if row["history_lifetimes"] in (NO_RULE, OUR_LIFETIMES)
            },
        ))  # fmt: skip
    return works


def _sentences(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    choice, works = choose(rows), shares_of_work(rows)
    return [
        *(_of_group(name, own) for name, own in _groups(rows)),
        _of_choice(choice),
        *_of_draws(rows),
        *_effect(rows, choice),
        *map(_of_work, works),
        *(_judgement(works) if works else []),
        *_papers_count(works),
    ]


def _of_group(name: str, rows: Sequence[Row]) -> str:
    parts = []
    for lifetimes in sorted(distinct(rows, "history_lifetimes")):
        own = where(rows, history_lifetimes=lifetimes)
        found = outcome(own)
        parts.append(
            f"{_named(lifetimes)}: kept in {found.kept_text}, {share(found.admitted)} admitted, "
            f"{share(found.evicted)} of them evicted, {found.work}"
        )
    return f"{name} – {'; '.join(parts)}."


def _of_choice(choice: Choice) -> str:
    held = [
        f"{_named(lifetimes)} on {', '.join(beds) or 'none, 0'}" for lifetimes, beds in choice.held.items()
    ]
    chosen = choice.history_lifetimes
    verdict = "there is no choice" if chosen is None else f"the choice is {_named(chosen)}"
    return (
        f"SLA {SLA:g} is kept in at least {ENOUGH:g} of the draws by {'; '.join(held) or 'no candidate'}. Of "
        f"those that hold on most beds the one that asks for least is taken: {verdict}."
        + (f" No candidate holds on {', '.join(choice.unheld)}." if choice.unheld else "")
    )


def _of_draws(rows: Sequence[Row]) -> list[str]:
    """Say how few evictions a draw of the bed bears, and so why it asks for more than the promise says."""
    own = where(rows, bed=LONG_LIVED, history_lifetimes=OUR_LIFETIMES)
    promises = int(total(own, "spot_admitted") / max(len(own), 1))
    if not promises:
        return []
    borne = int(SLA * promises)
    # The largest rate that makes no more than these in enough draws, if each eviction comes by itself.
    rate, _ = clopper_pearson(borne + 1, promises, 2 * ENOUGH - 1)
    said = (
        f"A draw of {LONG_LIVED} has some {promises} promises with {_named(OUR_LIFETIMES)} and bears {borne} "
        f"evictions. To keep {SLA:g} in {ENOUGH:g} of such draws a rule may evict {share(rate)} if evictions "
        "come by themselves, and less where they come together."
    )
    return [said]


def _effect(rows: Sequence[Row], choice: Choice) -> list[str]:
    """Say what the chosen rule does on the platforms of the papers, which did not choose it."""
    texts = []
    pairs = [row for row in where(rows, role=JUDGING) if row["bed"] in PAIRS]
    for lifetimes in dict.fromkeys((choice.history_lifetimes, OUR_LIFETIMES)):
        if lifetimes is None:
            continue
        parts = []
        for pair in PAIRS:
            own = where(pairs, bed=pair, platform=shape(pair))
            without, ruled = (where(own, history_lifetimes=rule) for rule in (NO_RULE, lifetimes))
            if without and ruled:
                admitted = outcome(ruled).admitted - outcome(without).admitted
                completed = _completed(ruled) - _completed(without)
                parts.append(f"{admitted:+.3f} and {completed:+.3f} on {pair}")
        if parts:
            texts.append(
                f"The effect of {_named(lifetimes)} beside no rule, admitted share and completed share of "
                f"the requested core-hours: {', '.join(parts)}."
            )
    return texts


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


def _draw_choice(rows: Sequence[Row]) -> Figure:
    groups = _groups(rows)
    with styled():
        figure = figure_of(10.5, 4.8)
        left, right = figure.subplots(1, 2)
        for number, (name, own) in enumerate(groups):
            colour, marker = LINES[number % len(LINES)]
            style: Any = {"color": colour, "marker": marker, "ms": 5, "lw": 1.2, "label": name}
            if name.startswith(CHOOSING):
                style["ls"] = (0, (3, 2))
            rules = sorted(distinct(own, "history_lifetimes"))
            found = [outcome(where(own, history_lifetimes=rule)) for rule in rules]
            places = [CANDIDATES.index(rule) for rule in rules]
            left.plot(places, [one.kept / one.seeds for one in found], **style)
            right.plot(places, [one.admitted for one in found], **style)
        left.axhline(ENOUGH, color="black", lw=0.8, ls=":")
        for axes, label in ((left, "draws that keep SLA .01"), (right, "admitted share of requests")):
            _axes(axes, label)
        legend_below(figure, left, columns=5)
    return figure


def _axes(axes: Axes, label: str) -> None:
    share_axis(axes, label)
    axes.set_ylim(0, 1.03)
    axes.set_xticks(range(len(CANDIDATES)), [f"{rule:g}" if rule else "no rule" for rule in CANDIDATES])
    axes.set_xlabel("lifetimes that a history must hold × SLA")


def _draw_work(rows: Sequence[Row]) -> Figure:
    works = shares_of_work(rows)
    places = list(range(len(works)))
    with panels(None, 1, 1, size=(6.5, 4.8)) as (figure, grid):
        (axes,) = grid.flat
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
            *(
                (f"SLA .01, {_named(rule)}", [work.reached.get(rule, np.nan) for work in works],
                 *LINES[number][::-1], offset)
                for number, (rule, offset) in enumerate(((NO_RULE, 0.05), (OUR_LIFETIMES, 0.27)))
            ),
        )  # fmt: skip
        for label, values, marker, colour, offset in marks:
            at = [place + offset for place in places]
            wide, edge = (17, 2.2) if marker == "_" else (6, 0.0)
            axes.plot(at, values, marker, color=colour, ms=wide, mew=edge, zorder=3, label=label)
        axes.set_xticks(places, [work.pair for work in works])
        axes.set_ylim(0, 1.02)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)
    return figure


EXPERIMENT = Experiment(
    name="evidence",
    title="How much evidence a promise should ask for, and the work for which there is none",
    source='docs/design/prediction.md "The rule of evidence", P2 §3.6',
    cases=_cases,
    pictures=(
        Picture(
            "evidence",
            "Left, the share of draws in which SLA .01 is kept, by lifetimes that a history must hold; "
            "dashed lines choose, the others only judge. Right, what is admitted.",
            _draw_choice,
        ),
        Picture(
            "evidence-work",
            "Core-hours completed without an SLA, by lifetime ÷ history at the time of asking, and shares of "
            "them: what requests no longer than the history ask for (no rule with evidence completes more), "
            "what of it completes when all that fits is taken, and what a strict promise of .01 completes.",
            _draw_work,
        ),
    ),
    sentences=_sentences,
)
