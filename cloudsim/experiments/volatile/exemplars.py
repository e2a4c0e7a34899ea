"""P3 Figures 3, 9 to 13 and 15 to 17, Tables 2 and 3: pools like the paper's four exemplars.

The prices of the four pools of us-west-2a in 2017 are not available any more. The paper's statements on them
are judged on recorded pools of 2015: three times four that come nearest in volatility or are the most
periodic. Beside them stand pools made in the exemplars' shapes (``cloudsim.volatile.synthetic``), with the
volatility and the unit hours that are printed; what they show says something of that fit only. All is judged
by both readings of a unit that is renewed after 48 hours.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL
from cloudsim.experiments.drawing import (
    LINES,
    Dot,
    Figure,
    dots_by_group,
    grid,
    legend_below,
    panels,
    share_axis,
)
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, distinct, where
from cloudsim.experiments.jobs.runs import MARKETS_2015
from cloudsim.experiments.volatile.measures import (
    LIFO_POOLS,
    OTHERS,
    PERIODIC,
    STABLE,
    UNSTABLE,
    Measure,
    best_model,
    gain,
    length,
    length_ratio,
    over_cases,
    pools_over_others,
    share_of_oracle,
    value,
    worth_by_hour,
)
from cloudsim.experiments.volatile.runs import (
    INTERVALS,
    MODEL_NAMES,
    MODELS,
    POLICIES,
    POLICY_NAMES,
    VALUE,
    Pool,
    pool_rows,
    pools_2015,
)
from cloudsim.volatile.availability import STUDY_SAMPLES
from cloudsim.volatile.managers import Renewal
from cloudsim.volatile.synthetic import EXEMPLARS, PUBLISHED, make_exemplar

MADE = "made"
#: How many times four recorded pools stand for the exemplars.
_QUARTETS = 3
PROFILE = "profile"
#: A picture of a profile shows every twelfth sample, one an hour.
_SHOWN_EVERY = 12
_LONGEST_MINUTES = 2880


def measure(_data: Path | None, *, name: str, samples: int) -> list[Row]:
    """Study one made exemplar: all rows of ``volatile.runs.pool_rows``, and a row "profile".

    Columns of "profile": pool, units (a list, hourly), volatility, periodicity, total_volatile_hours.
    """
    pool = make_exemplar(name, np.random.default_rng(zlib.crc32(name.encode())), samples)
    profile: Row = {
        "row": PROFILE,
        "pool": name,
        "units": pool.units[::_SHOWN_EVERY].tolist(),
        "volatility": pool.volatility,
        "periodicity": pool.periodicity,
        "total_volatile_hours": pool.total_volatile_hours,
    }
    made = Pool(MADE, "whole", pool)
    return [profile, *(row for renewal in Renewal for row in pool_rows(made, renewal=renewal))]


def measure_recorded(data: Path, *, quartets: int) -> list[Row]:
    """Study recorded pools that stand for the exemplars: all rows of ``volatile.runs.pool_rows``.

    Column pool is the exemplar that a pool stands for, market its own name, and quartet the rank of its
    likeness, from 1 on.
    """
    rows: list[Row] = []
    for quartet, pools in enumerate(_quartets(pools_2015(data)[0], quartets), start=1):
        for name, pool in pools.items():
            own = {"pool": name, "market": f"{pool.name} ({pool.window})", "quartet": quartet}
            rows += [row | own for renewal in Renewal for row in pool_rows(pool, renewal=renewal)]
    return rows


def _quartets(pools: Sequence[Pool], most: int) -> list[dict[str, Pool]]:
    """Return sets of pools, each used once, that are most like the exemplars, the most alike first."""
    left = sorted(pools, key=lambda pool: -pool.availability.periodicity)
    periodic, left = left[:most], left[most:]
    quartets: list[dict[str, Pool]] = []
    for first in periodic:
        quartet = {PERIODIC: first}
        for name in (*STABLE, UNSTABLE):
            printed = PUBLISHED[name].volatility
            like = min(left, key=lambda pool: abs(np.log(pool.availability.volatility / printed)))
            left.remove(like)
            quartet[name] = like
        quartets.append(quartet)
    return quartets


def _cases(quick: bool) -> list[Case]:
    samples = STUDY_SAMPLES // 6 if quick else STUDY_SAMPLES
    quartets = 1 if quick else _QUARTETS
    return [
        Case("recorded pools", measure_recorded, {"quartets": quartets}, (MARKETS_2015,)),
        *(Case(name, measure, {"name": name, "samples": samples}) for name in EXEMPLARS),
    ]


def _sentences(rows: Sequence[Row]) -> list[str]:
    recorded: dict[tuple[str, str], Row] = {}
    for row in where(rows, source="2015"):
        recorded.setdefault((row["pool"], row["market"]), row)
    return [
        f"{row['market']} stands for {name}: volatility {row['volatility']:.3f} "
        f"(Table 2: {PUBLISHED[name].volatility:.3f}), periodicity {row['periodicity']:.1f}."
        for (name, _), row in recorded.items()
    ] + [
        f"{row['pool']}, made: volatility {row['volatility']:.3f} (Table 2: "
        f"{PUBLISHED[row['pool']].volatility:.3f}), periodicity {row['periodicity']:.1f}, "
        f"{row['total_volatile_hours']:.3g} unit hours (Table 3: "
        f"{PUBLISHED[row['pool']].total_volatile_hours:.3g})."
        for row in where(rows, row=PROFILE)
    ]


# -- the paper's claims --------------------------------------------------------------------------------------


def _bands(rows: Sequence[Row], pool: str) -> list[float]:
    return [row["mean_minutes"] for row in where(rows, row=INTERVALS, pool=pool, policy=LIFO_POOLS)]


def _list(values: Mapping[str, float], form: str, unit: str = "") -> str:
    return ", ".join(f"{name} {value:{form}}{unit}" for name, value in values.items())


class _Part(NamedTuple):
    """A measure that a statement says something of, and the values with which it holds."""

    name: str
    measure: Measure
    least: float = -math.inf
    most: float = math.inf


def _within(where: str, text: str, form: str, unit: str, *parts: _Part) -> Claim:
    """Return a statement that holds if each measure lies within its bounds."""

    def check(rows: Sequence[Row]) -> Verdict:
        values = {part.name: part.measure(rows) for part in parts}
        holds = all(part.least <= values[part.name] <= part.most for part in parts)
        return Verdict(holds, _list(values, form, unit))

    return Claim(where, text, check)


def _pool_0(rows: Sequence[Row]) -> Verdict:
    means = {pool: _bands(rows, pool) for pool in STABLE}
    apart = all(bands[0] < 0.8 * min(bands[1:]) for bands in means.values())
    figures = (f"{pool} {' / '.join(f'{mean:,.0f}' for mean in bands)}" for pool, bands in means.items())
    return Verdict(apart, f"mean minutes of pools 0 to 4: {'; '.join(figures)}")


def _unstable_alike(rows: Sequence[Row]) -> Verdict:
    bands = _bands(rows, "unstable")
    figures = " / ".join(f"{mean:,.0f}" for mean in bands)
    return Verdict(max(bands) < 1.5 * min(bands), f"mean minutes of pools 0 to 4: {figures}")


def _full_is_best(rows: Sequence[Row]) -> Verdict:
    own = where(rows, row=VALUE, value_function=LINEAR.name)
    best = sum(
        row["of_oracle_full"] >= max(row[f"of_oracle_{model}"] for model in MODELS) - 1e-9 for row in own
    )
    gain = max(row["of_oracle_full"] / row["of_oracle_p90"] for row in own)
    return Verdict(best == len(own), f"in {best} of {len(own)}; at most {gain:.1f} x 90pctile")


def _polynomial_oracle(rows: Sequence[Row]) -> Verdict:
    values = {
        policy: sum(value(rows, pool, policy, POLYNOMIAL.name)["value_oracle"] for pool in EXEMPLARS)
        for policy in POLICIES
    }
    holds = min(values["lifo"], values["lifo-pools"]) > max(values["random"], values["fifo"])
    relative = {policy: value / values["random"] for policy, value in values.items()}
    return Verdict(holds, f"{_list(relative, '.2f')} of Random's")


def _counts(rows: Sequence[Row]) -> Verdict:
    right, figures = 0, []
    for pool in EXEMPLARS:
        counts = [int(length(rows, pool, policy, "intervals")) for policy in OTHERS]
        right += counts[1] <= counts[0] <= counts[2]
        ours, printed = (
            " / ".join(f"{count:,}" for count in each) for each in (counts, PUBLISHED[pool].intervals)
        )
        figures.append(f"{pool} {ours} (printed {printed})")
    return Verdict(right == len(EXEMPLARS), f"Random / FIFO / LIFO: {'; '.join(figures)}")


_CLAIMS = (
    Claim("Table 3", "FIFO makes the fewest intervals and LIFO the most", _counts),
    _within(
        "§5.1", "LIFO's median is 3 x smaller than FIFO's on Stable 2, 10 x on Periodic", ".1f", " x",
        _Part("stable-2", length_ratio("stable-2", "median_minutes", "fifo", "lifo"), 2),
        _Part("periodic", length_ratio("periodic", "median_minutes", "fifo", "lifo"), 5),
    ),
    _within(
        "§5.1", "LIFO's deviation is 1.3 x FIFO's on Stable 1", ".2f", " x",
        _Part("stable-1", length_ratio("stable-1", "std_minutes", "lifo", "fifo"), 1.1, 1.6),
    ),
    Claim("§5.1", "of LIFO-pools, pool 0 has a far smaller mean than the others on the stable ones", _pool_0),
    Claim("§5.1", "on Unstable, LIFO-pools makes no distinct pools", _unstable_alike),
    _within(
        "§5.2", "under MTTR, LIFO-pools gives 30 % more on the stable ones", "+.0%", "",
        *(_Part(pool, gain(pools_over_others(pool, "of_oracle_mttr")), 0.15) for pool in STABLE),
    ),
    _within(
        "§5.3", "Random and FIFO peak at .55 to .67 of the Oracle on Stable 1", ".2f", "",
        *(_Part(policy, best_model("stable-1", policy), 0.5, 0.72) for policy in ("random", "fifo")),
    ),
    _within(
        "§5.3", "LIFO and LIFO-pools reach nearly .90 under full on Stable 1", ".2f", "",
        *(_Part(name, share_of_oracle("stable-1", name, "full"), 0.85) for name in ("lifo", LIFO_POOLS)),
    ),
    _within(
        "§5.3", "on Unstable, full peaks at .67 and 90pctile lies around .45", ".2f", "",
        *(
            _Part(f"{MODEL_NAMES[model]} {name}", share_of_oracle(UNSTABLE, name, model), at - 0.1, at + 0.1)
            for model, at in (("full", 0.67), ("p90", 0.45))
            for name in POLICIES
        ),
    ),
    _within(
        "§5.3", "10pctile misleads under LIFO on Periodic", ".2f", " x MTTR's value",
        _Part(
            "10pctile", over_cases(max, ("p10",), ("mttr",), pools=(PERIODIC,), policies=("lifo",)), most=0.8
        ),
    ),
    Claim("§5.3", "full is best under every policy, up to 1.5 x the next best", _full_is_best),
    Claim("§5.3", "polynomial value: the Oracle gets more under LIFO and LIFO-pools", _polynomial_oracle),
    _within(
        "§6.2", "LIFO-pools succeeds twice as often on Stable 1, 1.5 x on Stable 2", ".2f", " x",
        *(
            _Part(pool, pools_over_others(pool, "success_mttr"), least)
            for pool, least in zip(STABLE, (1.5, 1.2), strict=True)
        ),
    ),
    _within(
        "§6.3", "value by hour is nearly 30 % lower on Unstable, else within 10 %", ".2f", "",
        *(_Part(pool, worth_by_hour(pool), 0.9) for pool in (*STABLE, PERIODIC)),
        _Part(UNSTABLE, worth_by_hour(UNSTABLE), 0.6, 0.8),
    ),
)  # fmt: skip


def _reading(rows: Sequence[Row], claim: Claim, renewal: Renewal, quartets: Sequence[int]) -> list[Verdict]:
    """Return the verdicts on a statement by the quartets of recorded pools, and by the made pools at last."""
    own = where(rows, renewal=renewal.value)
    verdicts = [claim.check(where(own, quartet=quartet)) for quartet in quartets]
    return [*verdicts, claim.check(where(own, source=MADE))]


def _judged(claim: Claim) -> Claim:
    """Return a statement that is judged on recorded pools, and beside that on made ones, by both readings."""

    def check(rows: Sequence[Row]) -> Verdict:
        quartets = sorted({row["quartet"] for row in rows if row.get("quartet")})
        *recorded, made = _reading(rows, claim, Renewal.SLOT, quartets)
        *newest, made_newest = _reading(rows, claim, Renewal.RECENCY, quartets)
        fit = (
            f"made pools, which say something of the fit only: {_yes(made)}, {made.figures}; "
            f"as the newest: {_yes(made_newest)}"
        )
        if not recorded:
            return Verdict(made.holds, fit)
        count, other = (sum(bool(verdict.holds) for verdict in each) for each in (recorded, newest))
        figures = (
            f"in {count} of {len(recorded)} sets of recorded pools, {other} where a renewed unit becomes the "
            f"newest; the most alike: {recorded[0].figures}; {fit}"
        )
        return Verdict(2 * count > len(recorded), figures)

    return Claim(claim.where, claim.text, check)


def _yes(verdict: Verdict) -> str:
    return "yes" if verdict.holds else "no"


CLAIMS = tuple(map(_judged, _CLAIMS))


def made(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the made pools, where a renewed unit keeps its place."""
    return [
        *where(rows, row=PROFILE),
        *where(rows, source=MADE, renewal=Renewal.SLOT.value),
    ]


# -- pictures ------------------------------------------------------------------------------------------------


@contextmanager
def _panels(rows: Sequence[Row], title: str, label: str) -> Iterator[tuple[Figure, list[tuple[Any, str]]]]:
    """Make a figure with a panel for each exemplar; yields it and each panel's axes with the pool's name."""
    rows = made(rows)
    with panels(title, 2, 2, size=(10, 6.6), sharex=True, sharey=True) as (figure, axes):
        pools = list(zip(axes.flat, distinct(rows, "pool"), strict=False))
        yield figure, pools
        for axis, pool in pools:
            axis.set_title(pool, loc="left")
        legend_below(figure, axes[0, 0])
        for axis in axes[:, 0]:
            axis.set_ylabel(label)


def _draw_profiles(rows: Sequence[Row]) -> Figure:
    """Draw the blue lines of Figure 3."""
    rows = made(rows)
    with _panels(rows, "Idle units of the made exemplars", "idle units") as (figure, pools):
        for axis, pool in pools:
            (profile,) = where(rows, row=PROFILE, pool=pool)
            axis.plot(np.arange(len(profile["units"])) / 24, profile["units"], color=LINES[0][0], lw=0.7)
        for axis, _ in pools[2:]:
            axis.set_xlabel("day")
    return figure


def _draw_lengths(rows: Sequence[Row]) -> Figure:
    """Draw Figure 9: mean with deviation, and median, of each policy and of the pools of LIFO-pools."""
    rows = made(rows)
    with _panels(rows, "How long intervals are", "minutes") as (figure, pools):
        for axis, pool in pools:
            groups = {
                POLICY_NAMES[row["policy"]] if row["band"] is None else f"pool {row['band']}": row
                for row in where(rows, row=INTERVALS, pool=pool)
            }
            means: dict[str, Dot] = {}
            for name, row in groups.items():
                mean, deviation = row["mean_minutes"], row["std_minutes"]
                means[name] = Dot(mean, max(mean - deviation, 0), mean + deviation)
            medians = {name: Dot.at(row["median_minutes"]) for name, row in groups.items()}
            dots_by_group(axis, list(groups), {"mean and deviation": means, "median": medians})
            grid(axis)
            axis.set_ylim(0, 1.5 * _LONGEST_MINUTES)
    return figure


def _draw_shares(
    column: str, title: str, label: str, value_function: str
) -> Callable[[Sequence[Row]], Figure]:
    """Return a function that draws a dot for each policy and model."""

    def draw(rows: Sequence[Row]) -> Figure:
        rows = made(rows)
        with _panels(rows, title, label) as (figure, pools):
            for axis, pool in pools:
                own = {policy: value(rows, pool, policy, value_function) for policy in POLICIES}
                series = {
                    MODEL_NAMES[model]: {
                        POLICY_NAMES[policy]: Dot.at(row[f"{column}_{model}"]) for policy, row in own.items()
                    }
                    for model in MODELS
                }
                dots_by_group(axis, [POLICY_NAMES[policy] for policy in POLICIES], series)
                axis.set_ylim(0, 1.02)
                grid(axis)
            for axis, _ in pools[::2]:
                share_axis(axis, label)
        return figure

    return draw


def _draw_targets(rows: Sequence[Row]) -> Figure:
    """Draw Figure 15: the target of each policy under each model, of LIFO-pools one for each pool."""
    rows = made(rows)
    with _panels(rows, "What users aim at, linear value", "target, minutes") as (figure, pools):
        for axis, pool in pools:
            for number, policy in enumerate(POLICIES):
                colour, marker = LINES[number]
                row, at, minutes = value(rows, pool, policy), [], []
                for place, model in enumerate(MODELS):
                    targets = row[f"targets_minutes_{model}"]
                    offsets = np.linspace(-0.08, 0.08, len(targets)) if len(targets) > 1 else [0.0]
                    at += [place + (number - 1.5) * 0.2 + offset for offset in offsets]
                    minutes += [target or 0.0 for target in targets]
                name = POLICY_NAMES[policy]
                axis.plot(at, minutes, marker, color=colour, ms=5, mec="white", mew=0.4, label=name)
            axis.set_xticks(range(len(MODELS)), [MODEL_NAMES[model] for model in MODELS])
            grid(axis)
    return figure


def _draw_by_hour(rows: Sequence[Row]) -> Figure:
    """Draw Figure 17: value by hour of a unit under Random, with full information and the best other."""
    rows = made(rows)
    pools = distinct(rows, "pool")
    series: dict[str, dict[str, Dot]] = {"full": {}, "best of the others": {}}
    for pool in pools:
        row = value(rows, pool, "random")
        others = max(row[f"per_unit_hour_{model}"] for model in MODELS if model != "full")
        series["full"][pool] = Dot.at(row["per_unit_hour_full"])
        series["best of the others"][pool] = Dot.at(others)
    with panels("What an hour of a unit is worth under Random", 1, 1, size=(7, 4)) as (figure, axes):
        dots_by_group(axes[0, 0], pools, series)
        share_axis(axes[0, 0], "value by unit hour")
        axes[0, 0].set_ylim(0, 1)
        legend_below(figure, axes[0, 0])
    return figure


EXPERIMENT = Experiment(
    name="volatile-exemplars",
    title="Volatile resources: recorded and made pools like the paper's exemplars",
    source="P3 Figures 3, 9 to 13 and 15 to 17, Tables 2 and 3",
    cases=_cases,
    pictures=(
        Picture(
            "volatile-exemplars",
            "Idle units over 90 days of four pools made in the shapes of the paper's exemplars (Figure 3).",
            _draw_profiles,
        ),
        Picture(
            "volatile-exemplars-lengths",
            "Lengths of intervals under each policy and in each pool of LIFO-pools (Figure 9).",
            _draw_lengths,
        ),
        Picture(
            "volatile-exemplars-linear",
            "Share of the Oracle's value, which is that of all hours (Figures 10, 11 and 13).",
            _draw_shares(
                "of_oracle", "What users get: linear value", "share of the Oracle's value", "linear"
            ),
        ),
        Picture(
            "volatile-exemplars-polynomial",
            "Share of what the Oracle gets under the same policy when hours^1.5 count (Figure 12).",
            _draw_shares(
                "of_oracle", "What users get: hours^1.5", "share of the Oracle's value", "polynomial"
            ),
        ),
        Picture(
            "volatile-exemplars-targets",
            "What users aim at by what they are told; of LIFO-pools in each of its pools (Figure 15).",
            _draw_targets,
        ),
        Picture(
            "volatile-exemplars-success",
            "Share of intervals that reach their target (Figure 16).",
            _draw_shares("success", "How often the target is reached", "share of intervals", "linear"),
        ),
        Picture(
            "volatile-exemplars-hours",
            "Value by hour of a unit under the random policy (Figure 17).",
            _draw_by_hour,
        ),
    ),
    sentences=_sentences,
    claims=CLAIMS,
)
