"""The choice of the rule of evidence by a procedure that never sees the platforms on which it is reported.

``history_lifetimes`` of ``AdmissionRule`` says how many lifetimes a history must hold at an SLA. Draws of the
long-lived bed and the logs of batch systems choose it. A candidate holds on a bed if SLA .01 is kept in
``ENOUGH`` of its draws; of those that hold on most beds the one that asks for least is taken. The papers'
traces on all their platforms, and other draws of the bed, only judge: what the choice keeps, admits and
completes there, beside no rule at all and beside the rule of our clouds. See docs/design/prediction.md "The
rule of evidence".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cloudsim.admission.rule import PAPERS_ADMISSION, STRICT_RULE, AdmissionRule
from cloudsim.experiments.drawing import LINES, Axes, Figure, figure_of, legend_below, share_axis, styled
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row, distinct, where
from cloudsim.experiments.ours.promise_map import LOG_PAIRS, LOGS
from cloudsim.experiments.promise.beds import draw
from cloudsim.experiments.promise.outcomes import ENOUGH, BedOutcome, outcome, share
from cloudsim.experiments.promise.pairs import needs, pair_row, shape
from cloudsim.experiments.promise.published_numbers import BASELINE_COUNTS, PAIRS
from cloudsim.experiments.runs import single_cloud_row
from cloudsim.traces.formats import read

SLA = 0.01
NO_RULE, OUR_LIFETIMES = PAPERS_ADMISSION.history_lifetimes, STRICT_RULE.history_lifetimes
#: Values of ``history_lifetimes`` to choose from; the last asks for 32 lifetimes of history at SLA .01.
CANDIDATES = (NO_RULE, OUR_LIFETIMES, 0.08, 0.16, 0.32)

#: The bed on which lifetimes are long beside the history; on the others evidence decides nothing.
LONG_LIVED = "long-lived"
CHOOSING, JUDGING = "choosing", "judging"
#: Seeds of the bed that choose, and that judge; the first are reported nowhere else.
CHOOSING_SEEDS, JUDGING_SEEDS = range(1000, 1040), range(40)
#: Jobs of each log that choose, and births a size: a whole log takes an hour.
_JOBS, _LOG_BIRTHS = 3_000, 1_000
#: The machines of the logs, cut into nodes of 16 cores.
_MACHINES = {"KTH": "6x16,1x4", "SDSC": "8x16", "NASA": "8x16"}
_QUICK_HOURS, _QUICK_BIRTHS, _QUICK_REQUESTS = 240.0, 300, 300
_ALL_PLATFORMS = "A to D, all platforms"
_SHOWN = (
    "spot_requests", "spot_admitted", "evicted", "completed_of_requested",
    "spot_core_hours_requested", "spot_core_hours_completed", "spot_core_hours_baseline",
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
    return [*beds, *logs, *pairs]


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
    shares = [row["completed_of_requested"] or 0.0 for row in rows]
    return sum(shares) / max(len(shares), 1)


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


def _sentences(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    choice = choose(rows)
    return [
        *(_of_group(name, own) for name, own in _groups(rows)),
        _of_choice(choice),
        *_effect(rows, choice),
    ]


def _of_group(name: str, rows: Sequence[Row]) -> str:
    parts = []
    for lifetimes in sorted(distinct(rows, "history_lifetimes")):
        own = where(rows, history_lifetimes=lifetimes)
        found = outcome(own)
        parts.append(
            f"{_named(lifetimes)}: kept in {found.kept_text}, {share(found.admitted)} admitted, "
            f"{share(found.evicted)} of them evicted, {share(_completed(own))} of the core-hours completed"
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


def _draw(rows: Sequence[Row]) -> Figure:
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
        legend_below(figure, left)
    return figure


def _axes(axes: Axes, label: str) -> None:
    share_axis(axes, label)
    axes.set_ylim(0, 1.03)
    axes.set_xticks(range(len(CANDIDATES)), [_named(rule) for rule in CANDIDATES], fontsize=8)


EXPERIMENT = Experiment(
    name="evidence-choice",
    title="The rule of evidence, chosen where it is not reported",
    source='docs/design/prediction.md "The rule of evidence"',
    cases=_cases,
    pictures=(
        Picture(
            "evidence-choice",
            "Left, the share of draws in which SLA .01 is kept, by lifetimes that a history must hold; "
            "dashed lines choose, the others only judge. Right, what is admitted.",
            _draw,
        ),
    ),
    sentences=_sentences,
)
