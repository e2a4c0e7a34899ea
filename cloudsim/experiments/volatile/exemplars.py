"""The paper's four exemplars, made: Figures 3, 9 to 13 and 15 to 17, Tables 2 and 3.

The prices of the four pools of us-west-2a in 2017 cannot be had any more. Pools in their shapes stand for
them (``cloudsim.volatile.synthetic``): their volatility and unit hours are those that are printed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL
from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.experiment import Case, Experiment, Row
from cloudsim.experiments.volatile import exemplars_drawing as drawing
from cloudsim.experiments.volatile.runs import INTERVALS, MODELS, POLICIES, VALUE, Pool, of, pool_rows
from cloudsim.volatile.availability import STUDY_SAMPLES
from cloudsim.volatile.synthetic import EXEMPLARS, PUBLISHED, make_exemplar

STABLE = ("stable-1", "stable-2")
PROFILE = "profile"
#: Of a profile in a picture: every hour.
_SHOWN_EVERY = 12


def measure(_data: Path | None, *, name: str, samples: int) -> list[Row]:
    """A case: all rows of one exemplar (``volatile_runs.pool_rows``), and a row "profile" with its hourly
    units, its place and its hours."""
    made = make_exemplar(name, np.random.default_rng(zlib.crc32(name.encode())), samples)
    profile: Row = {
        "row": PROFILE,
        "pool": name,
        "units": made.units[::_SHOWN_EVERY].tolist(),
        "volatility": made.volatility,
        "periodicity": made.periodicity,
        "total_volatile_hours": made.total_volatile_hours,
    }
    return [profile, *pool_rows(Pool("made", "whole", made))]


def _value(rows: Sequence[Row], pool: str, policy: str, value_function: str = LINEAR.name) -> Row:
    return of(rows, row=VALUE, pool=pool, policy=policy, value_function=value_function)[0]


def _lengths(rows: Sequence[Row], pool: str, policy: str, band: int | None = None) -> Row:
    return of(rows, row=INTERVALS, pool=pool, policy=policy, band=band)[0]


# -- the paper's statements ----------------------------------------------------------------------------------


def _medians(rows: Sequence[Row]) -> Verdict:
    ratios = {
        pool: _lengths(rows, pool, "fifo")["median_minutes"]
        / max(_lengths(rows, pool, "lifo")["median_minutes"], 1)
        for pool in ("stable-2", "periodic")
    }
    text = ", ".join(f"{pool} {ratio:.1f} x" for pool, ratio in ratios.items())
    return Verdict(ratios["stable-2"] >= 2 and ratios["periodic"] >= 5, f"FIFO's over LIFO's median: {text}")


def _spread_of_lifo(rows: Sequence[Row]) -> Verdict:
    ratio = (
        _lengths(rows, "stable-1", "lifo")["std_minutes"] / _lengths(rows, "stable-1", "fifo")["std_minutes"]
    )
    return Verdict(1.1 <= ratio <= 1.6, f"{ratio:.2f} x")


def _pool_0(rows: Sequence[Row]) -> Verdict:
    means = {pool: _bands(rows, pool) for pool in STABLE}
    apart = all(one[0] < 0.8 * min(one[1:]) for one in means.values())
    text = "; ".join(f"{pool} {' / '.join(f'{mean:,.0f}' for mean in one)}" for pool, one in means.items())
    return Verdict(apart, f"mean minutes of pools 0 to 4: {text}")


def _bands(rows: Sequence[Row], pool: str) -> list[float]:
    return [row["mean_minutes"] for row in of(rows, row=INTERVALS, pool=pool, policy="lifo-pools")]


def _unstable_alike(rows: Sequence[Row]) -> Verdict:
    bands = _bands(rows, "unstable")
    return Verdict(
        max(bands) < 1.5 * min(bands),
        f"mean minutes of pools 0 to 4: {' / '.join(f'{one:,.0f}' for one in bands)}",
    )


def _gain_of_pools(rows: Sequence[Row]) -> Verdict:
    gains = {
        pool: _value(rows, pool, "lifo-pools")["of_oracle_mttr"]
        / max(_value(rows, pool, policy)["of_oracle_mttr"] for policy in ("random", "fifo", "lifo"))
        for pool in STABLE
    }
    text = ", ".join(f"{pool} {gain - 1:+.0%}" for pool, gain in gains.items())
    return Verdict(min(gains.values()) >= 1.15, f"over the best other policy: {text}")


def _lifo_full(rows: Sequence[Row]) -> Verdict:
    shares = {policy: _value(rows, "stable-1", policy)["of_oracle_full"] for policy in ("lifo", "lifo-pools")}
    text = ", ".join(f"{policy} {share:.2f}" for policy, share in shares.items())
    return Verdict(min(shares.values()) >= 0.85, text)


def _random_fifo(rows: Sequence[Row]) -> Verdict:
    peaks = {
        policy: max(_value(rows, "stable-1", policy)[f"of_oracle_{model}"] for model in MODELS)
        for policy in ("random", "fifo")
    }
    text = ", ".join(f"{policy} {share:.2f}" for policy, share in peaks.items())
    return Verdict(all(0.5 <= share <= 0.72 for share in peaks.values()), text)


def _unstable_full(rows: Sequence[Row]) -> Verdict:
    full = [_value(rows, "unstable", policy)["of_oracle_full"] for policy in POLICIES]
    p90 = [_value(rows, "unstable", policy)["of_oracle_p90"] for policy in POLICIES]
    near = all(abs(share - 0.67) <= 0.1 for share in full) and all(abs(share - 0.45) <= 0.1 for share in p90)
    return Verdict(
        near,
        f"full {min(full):.2f} to {max(full):.2f}, 90pctile {min(p90):.2f} to {max(p90):.2f}",
    )


def _misled(rows: Sequence[Row]) -> Verdict:
    row = _value(rows, "periodic", "lifo")
    return Verdict(
        row["of_oracle_p10"] < 0.8 * row["of_oracle_mttr"],
        f"10pctile {row['of_oracle_p10']:.2f}, MTTR {row['of_oracle_mttr']:.2f}",
    )


def _full_is_best(rows: Sequence[Row]) -> Verdict:
    own = of(rows, row=VALUE, value_function=LINEAR.name)
    best = sum(
        row["of_oracle_full"] >= max(row[f"of_oracle_{model}"] for model in MODELS) - 1e-9 for row in own
    )
    gain = max(row["of_oracle_full"] / row["of_oracle_p90"] for row in own)
    return Verdict(best == len(own), f"in {best} of {len(own)}; at most {gain:.1f} x 90pctile")


def _polynomial_oracle(rows: Sequence[Row]) -> Verdict:
    own = {
        policy: sum(_value(rows, pool, policy, POLYNOMIAL.name)["value_oracle"] for pool in EXEMPLARS)
        for policy in POLICIES
    }
    text = ", ".join(f"{policy} {one / own['random']:.2f}" for policy, one in own.items())
    return Verdict(
        min(own["lifo"], own["lifo-pools"]) > max(own["random"], own["fifo"]), f"{text} of Random's"
    )


def _success(rows: Sequence[Row]) -> Verdict:
    ratios = {}
    for pool in STABLE:
        pools = _value(rows, pool, "lifo-pools")["success_mttr"]
        ratios[pool] = pools / max(
            _value(rows, pool, policy)["success_mttr"] for policy in ("random", "fifo", "lifo")
        )
    text = ", ".join(f"{pool} {ratio:.2f} x" for pool, ratio in ratios.items())
    return Verdict(ratios["stable-1"] >= 1.5 and ratios["stable-2"] >= 1.2, f"under MTTR: {text}")


def _by_hour(rows: Sequence[Row]) -> Verdict:
    worth = {pool: _value(rows, pool, "random")["per_unit_hour_full"] for pool in EXEMPLARS}
    best = max(worth.values())
    text = ", ".join(f"{pool} {one / best:.2f}" for pool, one in worth.items())
    return Verdict(
        worth["unstable"] == min(worth.values())
        and min(worth[pool] for pool in (*STABLE, "periodic")) >= 0.9 * best,
        f"of the best: {text}",
    )


def _counts(rows: Sequence[Row]) -> Verdict:
    right, told = 0, []
    for pool in EXEMPLARS:
        counts = [_lengths(rows, pool, policy)["intervals"] for policy in ("random", "fifo", "lifo")]
        right += counts[1] <= counts[0] <= counts[2]
        told.append(
            f"{pool} {' / '.join(f'{one:,}' for one in counts)} "
            f"(printed {' / '.join(f'{one:,}' for one in PUBLISHED[pool].intervals)})"
        )
    return Verdict(right == len(EXEMPLARS), f"Random / FIFO / LIFO: {'; '.join(told)}")


CLAIMS = (
    Claim("Table 3", "FIFO makes the fewest intervals and LIFO the most", _counts),
    Claim("§5.1", "LIFO's median is 3 x smaller than FIFO's on Stable 2, 10 x on Periodic", _medians),
    Claim("§5.1", "LIFO's deviation is 1.3 x FIFO's on Stable 1", _spread_of_lifo),
    Claim("§5.1", "of LIFO-pools, pool 0 has a far smaller mean than the others on the stable ones", _pool_0),
    Claim("§5.1", "on Unstable, LIFO-pools makes no distinct pools", _unstable_alike),
    Claim("§5.2", "under MTTR, LIFO-pools gives 30 % more on the stable ones", _gain_of_pools),
    Claim("§5.3", "Random and FIFO peak at .55 to .67 of the Oracle on Stable 1", _random_fifo),
    Claim("§5.3", "LIFO and LIFO-pools reach nearly .90 under full on Stable 1", _lifo_full),
    Claim("§5.3", "on Unstable, full peaks at .67 and 90pctile lies around .45", _unstable_full),
    Claim("§5.3", "10pctile misleads under LIFO on Periodic", _misled),
    Claim("§5.3", "full is best under every policy, up to 1.5 x the next best", _full_is_best),
    Claim("§5.3", "polynomial value: the Oracle gets more under LIFO and LIFO-pools", _polynomial_oracle),
    Claim("§6.2", "LIFO-pools succeeds twice as often on Stable 1, 1.5 x on Stable 2", _success),
    Claim("§6.3", "value by hour is nearly 30 % lower on Unstable, else within 10 %", _by_hour),
)


def _findings(rows: Sequence[Row]) -> list[str]:
    places = [
        f"{row['pool']}: volatility {row['volatility']:.3f} (Table 2: "
        f"{PUBLISHED[row['pool']].volatility:.3f}), periodicity {row['periodicity']:.1f}, "
        f"{row['total_volatile_hours']:.3g} unit hours (Table 3: "
        f"{PUBLISHED[row['pool']].total_volatile_hours:.3g})."
        for row in of(rows, row=PROFILE)
    ]
    return [*places, *judged(CLAIMS, rows)]


def _cases(quick: bool) -> list[Case]:
    samples = STUDY_SAMPLES // 6 if quick else STUDY_SAMPLES
    return [Case(name, measure, {"name": name, "samples": samples}) for name in EXEMPLARS]


EXPERIMENT = Experiment(
    name="volatile-exemplars",
    title="Volatile resources: four pools in the shapes of the paper's exemplars",
    source="paper 002, Figures 3, 9 to 13 and 15 to 17, Tables 2 and 3",
    cases=_cases,
    pictures=drawing.PICTURES,
    findings=_findings,
)
