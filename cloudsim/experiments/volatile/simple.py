"""P3 Figures 6 and 7: intervals of a daily ramp under each policy (§3.3), and value functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.disclosure.levels import LATTICE_S
from cloudsim.disclosure.targeting import CHECKPOINTED, LINEAR, POLYNOMIAL, SLICES, Value, expected_value
from cloudsim.experiments.drawing import LINES, Axes, Figure, panels
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, where
from cloudsim.experiments.volatile.runs import MINUTE_S, POLICY_NAMES, length_columns
from cloudsim.model.lengths import LengthHistogram
from cloudsim.volatile.availability import DAY_S, STEP_S
from cloudsim.volatile.managers import RevocationPolicy, count_intervals
from cloudsim.volatile.synthetic import make_daily_ramp

DAYS = 90
SEED = 6

#: Length of FIFO's intervals here (§3.3): "all intervals of length close to 1,800 minutes".
FIFO_MINUTES = 1800.0

PROFILE, LENGTHS = "profile", "lengths"

#: Value functions of the pictures.
_AIMED: tuple[Value, ...] = (LINEAR, POLYNOMIAL, CHECKPOINTED)
_MOST: tuple[Value, ...] = (LINEAR, POLYNOMIAL, SLICES)


def measure(_data: Path | None, *, days: int) -> list[Row]:
    """Measure the profile of one day and the intervals that each policy makes of it.

    A row "profile" for each step: hours, units. A row "lengths" for each policy and each of its pools:
    policy, band (of LIFO-pools, else None), ``length_columns``, and at_minutes: length → number of intervals.
    """
    profile = make_daily_ramp(days)
    day = profile.units[: DAY_S // STEP_S].tolist()
    rows: list[Row] = [
        {"row": PROFILE, "hours": at * STEP_S / 3600, "units": units} for at, units in enumerate(day)
    ]
    generator = np.random.default_rng(SEED)
    for policy in RevocationPolicy:
        bands = count_intervals(profile.units, policy, generator)
        for band, lengths in enumerate(bands):
            steps = np.flatnonzero(lengths.counts)
            rows.append(
                {
                    "row": LENGTHS,
                    "policy": policy.value,
                    "band": band if len(bands) > 1 else None,
                    **length_columns(lengths),
                    "at_minutes": {
                        f"{step * STEP_S / MINUTE_S:g}": int(lengths.counts[step]) for step in steps
                    },
                }
            )
    return rows


def _row(rows: Sequence[Row], policy: RevocationPolicy, band: int | None = None) -> Row:
    return where(rows, row=LENGTHS, policy=policy.value, band=band)[0]


def _minutes(row: Row) -> str:
    return (
        f"mean {row['mean_minutes']:,.0f}, median {row['median_minutes']:,.0f}, "
        f"deviation {row['std_minutes']:,.0f} min"
    )


def _fifo_is_narrow(rows: Sequence[Row]) -> Verdict:
    fifo = _row(rows, RevocationPolicy.FIFO)
    share = fifo["at_minutes"].get(f"{FIFO_MINUTES:g}", 0) / fifo["intervals"]
    return Verdict(share >= 0.97, f"{share:.1%} are exactly {FIFO_MINUTES:,.0f} minutes")


def _lifo_is_wide(rows: Sequence[Row]) -> Verdict:
    lifo, fifo = _row(rows, RevocationPolicy.LIFO), _row(rows, RevocationPolicy.FIFO)
    wide = (
        lifo["median_minutes"] < 0.6 * fifo["median_minutes"]
        and lifo["std_minutes"] > 2 * fifo["std_minutes"]
    )
    return Verdict(wide, f"LIFO {_minutes(lifo)}; FIFO {_minutes(fifo)}")


def _low_pools_are_whole(rows: Sequence[Row]) -> Verdict:
    shares = []
    for band in (3, 4):
        row = _row(rows, RevocationPolicy.LIFO_POOLS, band)
        shares.append(row["at_minutes"].get("2880", 0) / row["intervals"])
    return Verdict(
        min(shares) == 1.0, f"{shares[0]:.1%} and {shares[1]:.1%} of the intervals of pools 3 and 4"
    )


CLAIMS = (
    Claim("§3.3", "FIFO makes all intervals close to 1,800 minutes", _fifo_is_narrow),
    Claim("Figure 6b", "LIFO makes shorter medians and wider spreads of the same hours", _lifo_is_wide),
    Claim(
        "docs/design/volatile-resources.md",
        "the two lower pools live for 48 hours, always",
        _low_pools_are_whole,
    ),
)


def _sentences(rows: Sequence[Row]) -> list[str]:
    return [
        f"{POLICY_NAMES[row['policy']]}{'' if row['band'] is None else ', pool ' + str(row['band'])}: "
        f"{row['intervals']:,} intervals, {_minutes(row)}."
        for row in where(rows, row=LENGTHS)
    ]


def _draw(rows: Sequence[Row]) -> Figure:
    with panels("One daily ramp, and what each policy makes of it", 1, 2, size=(10, 4.2)) as (figure, axes):
        profile, lengths = axes.flat
        day = where(rows, row=PROFILE)
        profile.plot([row["hours"] for row in day], [row["units"] for row in day], color=LINES[0][0])
        profile.set(xlabel="hour of the day", ylabel="idle units", xlim=(0, 24), ylim=(0, 5200))
        profile.set_xticks(range(0, 25, 6))
        profile.set_title("the profile (Figure 6a)", loc="left")
        _draw_lengths(lengths, rows)
    return figure


def _draw_lengths(axis: Axes, rows: Sequence[Row]) -> None:
    # All pools of LIFO-pools together are LIFO.
    for policy, (colour, _) in zip(
        (RevocationPolicy.RANDOM, RevocationPolicy.FIFO, RevocationPolicy.LIFO), LINES, strict=False
    ):
        counts = {float(minutes): count for minutes, count in _row(rows, policy)["at_minutes"].items()}
        minutes = np.array(sorted(counts))
        share = np.cumsum([counts[length] for length in minutes]) / sum(counts.values())
        axis.step([0, *minutes], [0, *share], where="post", color=colour, label=POLICY_NAMES[policy.value])
    axis.set(xlabel="length of an interval, hours", ylabel="share of intervals up to it", ylim=(0, 1.02))
    axis.set_xticks(range(0, 2881, 480), [f"{minute // 60}" for minute in range(0, 2881, 480)])
    axis.set_title("lengths of intervals (Figure 6b)", loc="left")
    axis.legend(loc="upper left")


def _draw_values(_rows: Sequence[Row]) -> Figure:
    """Draw the worth of an interval by its length: with a target of 6 hours, and with its length known."""
    hours = LATTICE_S / 3600
    with panels("What an interval is worth", 1, 2, size=(10, 4.2)) as (figure, axes):
        aimed, most = axes.flat
        for value, (colour, _) in zip(_AIMED, LINES, strict=False):
            worth = [
                expected_value(value, 6 * 3600.0, LengthHistogram.from_lengths([length]))
                for length in LATTICE_S.tolist()
            ]
            aimed.step(hours, worth, where="post", color=colour, label=value.name)
        aimed.set(xlabel="length of the interval, hours", ylabel="value, hours", xlim=(0, 12), ylim=(0, 16))
        aimed.set_title("to who aims at 6 hours (Figure 7a)", loc="left")
        for value, (colour, _) in zip(_MOST, LINES, strict=False):
            most.step(hours, value.perfect(LATTICE_S), where="post", color=colour, label=value.name)
        most.set(xlabel="length of the interval, hours", ylabel="value, hours", xlim=(0, 12), ylim=(0, 42))
        most.set_title("at most (Figure 7b)", loc="left")
        for axis in axes.flat:
            axis.legend(loc="upper left")
    return figure


EXPERIMENT = Experiment(
    name="volatile-simple",
    title="Volatile resources: one daily ramp under each policy",
    source="P3 §3.3, Figures 6 and 7",
    cases=lambda quick: [Case("daily ramp", measure, {"days": 10 if quick else DAYS})],
    pictures=(
        Picture(
            "volatile-simple",
            "A day in which half of the units are lent and taken back, and how long intervals are under each "
            "policy over 90 such days.",
            _draw,
        ),
        Picture(
            "volatile-simple-values",
            "What an interval is worth by its length: to who aims at 6 hours, and to who knows its length.",
            _draw_values,
        ),
    ),
    sentences=_sentences,
    claims=CLAIMS,
)
