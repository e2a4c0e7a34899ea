"""P3 Figures 8, 14 and 18 to 21, §5.6 and §8: value of recorded pools to users, by policy and model.

The pools of 2015 also serve for both readings of LIFO, for the effect of judging on the same trace that
informs (as the paper does), and for further value functions. The markets of 2021, when the provider smoothed
prices, serve for scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

from cloudsim.disclosure.targeting import CHECKPOINTED, LINEAR, POLYNOMIAL, SLICES
from cloudsim.experiments.experiment import Case, Claim, Experiment, Picture, Row, Verdict, total, where
from cloudsim.experiments.jobs.runs import MARKETS_2015
from cloudsim.experiments.volatile.drawing import VALUE_NAMES, draw_ordinal, draw_pools, draw_shares
from cloudsim.experiments.volatile.ordinal import least_volatile, ordinal, sentences
from cloudsim.experiments.volatile.runs import (
    INTERVALS,
    MARKETS_2021,
    MODEL_NAMES,
    MODELS,
    POLICIES,
    POLICY_NAMES,
    VALUE,
    names,
    over_pools,
    pool_rows,
    pools_2015,
    pools_2021,
)
from cloudsim.volatile.managers import Renewal, RevocationPolicy

#: docs/design/volatile-resources.md "Acceptance": linear value over the Oracle's, mean of 27 pools; 18 are
#: among our data.
EXPECTED_POOLS = 27
EXPECTED: Mapping[str, tuple[float, float, float, float]] = {
    "random": (0.40, 0.35, 0.53, 0.73),
    "fifo": (0.41, 0.37, 0.53, 0.69),
    "lifo": (0.38, 0.33, 0.58, 0.85),
    "lifo-pools": (0.46, 0.44, 0.63, 0.85),
}
TOLERANCE = 0.05

#: The first half of a trace informs users, the second judges them.
SPLIT = 0.5

BOTH = (LINEAR.name, POLYNOMIAL.name)
FURTHER = (LINEAR, SLICES, CHECKPOINTED)
EXCLUDED = "excluded"


def measure_policies(data: Path, *, split: float | None, renewal: str, most: int | None) -> list[Row]:
    """Study all pools, or the first ``most``: all rows of ``volatile.runs.pool_rows``."""
    pools, _ = pools_2015(data)
    return [row for pool in pools[:most] for row in pool_rows(pool, split=split, renewal=Renewal(renewal))]


def _policy_cases(quick: bool) -> list[Case]:
    def case(name: str, split: float | None, renewal: Renewal) -> Case:
        options = {"split": split, "renewal": renewal.value, "most": 2 if quick else None}
        return Case(name, measure_policies, options, (MARKETS_2015,))

    return [
        case("told of what they are judged on", None, Renewal.SLOT),
        case("told of the first half, judged on the second", SPLIT, Renewal.SLOT),
        case("a renewed unit becomes the newest", None, Renewal.RECENCY),
    ]


def paper_way(rows: Sequence[Row]) -> list[Row]:
    """Return the rows judged on the trace that informs, where a renewed unit keeps its place."""
    return where(rows, split=None, renewal=Renewal.SLOT.value)


def _tables_as_keys(rows: Sequence[Row]) -> dict[str, Any]:
    return {"mean_value_over_oracle": over_pools(rows), "ordinal": ordinal(rows)}


def _cells(shares: Mapping[str, float], digits: int = 2) -> str:
    return " / ".join(f"{shares[model]:.{digits}f}" for model in MODELS)


def _tables(rows: Sequence[Row]) -> list[str]:
    own = paper_way(rows)
    mean, pools = over_pools(own), len(names(own))
    texts = []
    for policy in POLICIES:
        printed = " / ".join(f"{share:.2f}" for share in EXPECTED[policy])
        off = [
            f"{MODEL_NAMES[model]} {mean[policy][model] - share:+.2f}"
            for model, share in zip(MODELS, EXPECTED[policy], strict=True)
            if abs(mean[policy][model] - share) > TOLERANCE
        ]
        texts.append(
            f"{POLICY_NAMES[policy]}: {_cells(mean[policy])} of the Oracle's linear value, mean of {pools} "
            f"pools under MTTR / 10pctile / 90pctile / full (expected of {EXPECTED_POOLS}, these among them: "
            f"{printed}{'; off by more than .05: ' + ', '.join(off) if off else ''})."
        )
        if off and pools < EXPECTED_POOLS:
            texts.append(_of_the_others(policy, own, mean[policy]))
    texts.append(_by_zone(own))
    for policy, shares in over_pools(own, POLYNOMIAL.name).items():
        texts.append(f"{POLICY_NAMES[policy]}: {_cells(shares)} of the Oracle's polynomial value.")
    for policy, shares in over_pools(where(rows, split=SPLIT)).items():
        texts.append(
            f"{POLICY_NAMES[policy]}: {_cells(shares)} when users are told of the first half of the trace "
            f"and judged on the second."
        )
    return texts


def _of_the_others(policy: str, rows: Sequence[Row], mean: Mapping[str, float]) -> str:
    """Return what the missing pools must be like to explain a mean that is off, and the nearest pool here."""
    here = where(rows, row=VALUE, policy=policy, value_function=LINEAR.name)
    others = EXPECTED_POOLS - len(here)
    needed = {
        model: (EXPECTED_POOLS * share - len(here) * mean[model]) / others
        for model, share in zip(MODELS, EXPECTED[policy], strict=True)
    }

    def of_pool(row: Row) -> dict[str, float]:
        return {model: row[f"of_oracle_{model}"] for model in MODELS}

    def apart(row: Row) -> float:
        return max(abs(share - needed[model]) for model, share in of_pool(row).items())

    like = min(here, key=apart)
    return (
        f"{POLICY_NAMES[policy]} is as expected if the {others} pools that were not handed out have "
        f"{_cells(needed)}; nearest to that is {like['pool']} ({like['window']}) with "
        f"{_cells(of_pool(like))}."
    )


def _by_zone(rows: Sequence[Row]) -> str:
    """Return the means zone by zone: under LIFO-pools they differ most."""
    parts = []
    for zone in sorted({row["pool"].split()[1] for row in rows}):
        own = [row for row in rows if row["pool"].split()[1] == zone]
        mean = over_pools(own)
        lifo, pools = (
            _cells(mean[policy.value]) for policy in (RevocationPolicy.LIFO, RevocationPolicy.LIFO_POOLS)
        )
        parts.append(f"{zone} ({len(names(own))} pools) LIFO {lifo}, LIFO-pools {pools}")
    return f"By zone: {'; '.join(parts)}."


def _readings(rows: Sequence[Row]) -> list[str]:
    """Return how often LIFO-pools with full information is best, by the place of a renewed unit."""
    texts = []
    for renewal in Renewal:
        own = where(rows, split=None, renewal=renewal.value)
        best = ordinal(own)[0]
        place = "keeps its place" if renewal is Renewal.SLOT else "becomes the newest"
        texts.append(
            f"LIFO when a renewed unit {place}: LIFO-pools with full information is the best of all in "
            f"{best['count']} of {best['pools']} pools."
        )
    return texts


def _lifo_pools_never_below(rows: Sequence[Row]) -> Verdict:
    lifo, pools = (
        {
            (row["pool"], row["window"]): row["of_oracle_full"]
            for row in where(rows, row=VALUE, policy=policy.value, value_function=LINEAR.name)
        }
        for policy in (RevocationPolicy.LIFO, RevocationPolicy.LIFO_POOLS)
    )
    below = [name for name in lifo if pools[name] < lifo[name] - 1e-9]
    return Verdict(not below, f"below in {len(below)} of {len(lifo)} pools")


def _p90_beats_mttr(rows: Sequence[Row]) -> Verdict:
    own = where(rows, row=VALUE, value_function=LINEAR.name)
    better = sum(row["of_oracle_p90"] > row["of_oracle_mttr"] for row in own)
    return Verdict(better >= 0.9 * len(own), f"in {better} of {len(own)} pools and policies")


def _p10_and_mttr_poor(rows: Sequence[Row]) -> Verdict:
    mean = over_pools(rows)
    worst = min(mean[policy]["p90"] for policy in POLICIES)
    best = max(mean[policy][model] for policy in POLICIES for model in ("mttr", "p10"))
    return Verdict(best < worst, f"at best {best:.2f}, 90pctile at worst {worst:.2f}")


def _p10_beats_mttr(rows: Sequence[Row]) -> Verdict:
    own = where(rows, row=VALUE, value_function=LINEAR.name)
    better = sum(row["of_oracle_p10"] > row["of_oracle_mttr"] for row in own)
    return Verdict(better > len(own) / 2, f"in {better} of {len(own)} pools and policies")


def _success_of_mttr(rows: Sequence[Row]) -> Verdict:
    # Gaussian lengths with a deviation of a tenth of the mean: 0.9 x mean is one deviation below it.
    gaussian = 1 - NormalDist().cdf(-1.0)
    own = where(rows, row=VALUE, value_function=LINEAR.name)
    here = sum(row["success_mttr"] for row in own) / len(own)
    return Verdict(
        False, f"it would be {gaussian:.0%} by its own assumption; in these pools it is {here:.0%}"
    )


def _lifo_pools_within_reach_of_full(rows: Sequence[Row]) -> Verdict:
    mean = over_pools(rows)
    shares = {policy: mean[policy]["p90"] / mean[policy]["full"] for policy in POLICIES}
    text = ", ".join(f"{POLICY_NAMES[policy]} {share:.2f}" for policy, share in shares.items())
    return Verdict(min(shares.values()) >= 0.75, f"90pctile over full: {text}")


def _interval_counts(rows: Sequence[Row]) -> Verdict:
    counts = {
        policy: sum(row["intervals"] for row in where(rows, row=INTERVALS, policy=policy))
        for policy in ("fifo", "random", "lifo")
    }
    text = ", ".join(f"{POLICY_NAMES[policy]} {count:,}" for policy, count in counts.items())
    return Verdict(counts["fifo"] < counts["random"] < counts["lifo"], text)


_CLAIMS = (
    Claim("Table 3", "FIFO makes the fewest intervals and LIFO the most", _interval_counts),
    Claim("§5.3", "LIFO-pools with full information is never below LIFO", _lifo_pools_never_below),
    Claim("§5.4", "90pctile beats MTTR in nearly all pools", _p90_beats_mttr),
    Claim("§1", "MTTR and 10pctile produce poor value beside 90pctile", _p10_and_mttr_poor),
    Claim("§5.4", "10pctile increases value over MTTR", _p10_beats_mttr),
    Claim("§1", "90pctile approaches the value of full information", _lifo_pools_within_reach_of_full),
    Claim("§4.2", "a target of 0.9 x MTTR succeeds in 67 %", _success_of_mttr),
)


def _by_both_readings(claim: Claim) -> Claim:
    """Return a statement judged where a renewed unit keeps its place; the other reading is told beside it."""

    def check(rows: Sequence[Row]) -> Verdict:
        verdict = claim.check(paper_way(rows))
        newest = where(rows, split=None, renewal=Renewal.RECENCY.value)
        if not newest:
            return verdict
        other = claim.check(newest)
        word = "it holds" if other.holds else "it does not hold"
        figures = f"{verdict.figures}; where a renewed unit becomes the newest {word}: {other.figures}"
        return Verdict(verdict.holds, figures)

    return Claim(claim.where, claim.text, check)


CLAIMS = tuple(map(_by_both_readings, _CLAIMS))


def _policy_sentences(rows: Sequence[Row]) -> list[str]:
    return [*_tables(rows), *_readings(rows), *sentences(ordinal(paper_way(rows)))]


BY_POLICY = Experiment(
    name="volatile-policies",
    title="Volatile resources: what users get, by policy and by what they are told",
    source="P3 Figures 8 and 14, §5.6; docs/design/volatile-resources.md",
    cases=_policy_cases,
    pictures=(
        Picture(
            "volatile-policies",
            "Share of the Oracle's value under each policy and information model: mean over the pools of "
            "2015 and standard deviation.",
            lambda rows: draw_shares(paper_way(rows), "What users get, by what they are told", BOTH),
        ),
        Picture(
            "volatile-policies-split",
            "The same when users are told of the first half of the trace and judged on the second.",
            lambda rows: draw_shares(where(rows, split=SPLIT), "Told of the past, judged on what came", BOTH),
        ),
        Picture(
            "volatile-policies-ordinal",
            "How often a policy with an information model does so well: here and in the paper (§5.6).",
            lambda rows: draw_ordinal(ordinal(paper_way(rows)), "Who does best, pool by pool"),
        ),
        Picture(
            "volatile-policies-pools",
            "The pools of 2015 by volatility and by how daily they are (the paper's Figure 8).",
            lambda rows: draw_pools(paper_way(rows), "Pools of 2015"),
        ),
    ),
    sentences=_policy_sentences,
    claims=CLAIMS,
    own_keys=lambda rows: _tables_as_keys(paper_way(rows)),
)


def measure_markets(data: Path, *, file: str, most: int | None) -> list[Row]:
    """Study all pools of a file, or its first ``most``: the value rows of ``volatile.runs.pool_rows``.

    A row "excluded" has the number of markets whose price never changed.
    """
    pools, excluded = pools_2021(data / file)
    rows = [row for pool in pools[:most] for row in where(pool_rows(pool), row=VALUE)]
    return [*rows, {"row": EXCLUDED, "source": "2021", "markets": len(excluded)}]


def _market_cases(quick: bool) -> list[Case]:
    most = 5 if quick else None
    return [Case(file, measure_markets, {"file": file, "most": most}, (file,)) for file in MARKETS_2021]


def _values(rows: Sequence[Row]) -> list[Row]:
    return where(rows, row=VALUE)


def _market_sentences(rows: Sequence[Row]) -> list[str]:
    own = _values(rows)
    silent = round(total(where(rows, row=EXCLUDED), "markets"))
    texts = [f"{len(names(own))} markets; {silent} more whose price never changed in 90 days are left out."]
    for policy, shares in over_pools(own).items():
        texts.append(
            f"{POLICY_NAMES[policy]}: {_cells(shares, 3)} of the Oracle's linear value, mean of all, under "
            "MTTR / 10pctile / 90pctile / full."
        )
    texts += sentences(ordinal(own))
    texts += [f"Of the 80 % least volatile: {line}" for line in sentences(ordinal(least_volatile(own)))]
    texts.append(
        "These prices were smoothed by the provider (after November 2017): most pools hardly move, most "
        "intervals reach 48 hours, and policies and models differ little. They serve for scale, not to judge "
        "the paper's statements."
    )
    return texts


ALL_MARKETS = Experiment(
    name="volatile-markets",
    title="Volatile resources: all markets of 2021",
    source="P3 Figures 8, 14 and 18 to 21, §5.6; docs/design/volatile-resources.md",
    cases=_market_cases,
    pictures=(
        Picture(
            "volatile-markets",
            "Share of the Oracle's value under each policy and information model: mean over the markets of "
            "2021 and standard deviation.",
            lambda rows: draw_shares(_values(rows), "Markets of 2021", BOTH),
        ),
        Picture(
            "volatile-markets-pools",
            "The markets of 2021 by volatility and by how daily they are, zone by zone (Figures 18 to 21).",
            lambda rows: draw_pools(_values(rows), "Markets of 2021"),
        ),
        Picture(
            "volatile-markets-ordinal",
            "How often a policy with an information model does so well: here and in the paper (§5.6).",
            lambda rows: draw_ordinal(ordinal(_values(rows)), "Who does best, market by market"),
        ),
    ),
    sentences=_market_sentences,
    own_keys=lambda rows: _tables_as_keys(_values(rows)),
)


def measure_values(data: Path, *, most: int | None) -> list[Row]:
    """Study all pools, or the first ``most``: the value rows of ``volatile.runs.pool_rows``."""
    pools, _ = pools_2015(data)
    return [row for pool in pools[:most] for row in where(pool_rows(pool, values=FURTHER), row=VALUE)]


def _value_sentences(rows: Sequence[Row]) -> list[str]:
    texts = []
    for value in FURTHER:
        for policy, shares in over_pools(rows, value.name).items():
            texts.append(
                f"{VALUE_NAMES[value.name]}, {POLICY_NAMES[policy]}: {_cells(shares)} of the Oracle's under "
                "MTTR / 10pctile / 90pctile / full."
            )
    gain = {value.name: over_pools(rows, value.name)["fifo"] for value in FURTHER}
    texts.append(
        "What full information adds to MTTR under FIFO: "
        + ", ".join(
            f"{VALUE_NAMES[name]} {shares['full'] - shares['mttr']:+.2f}" for name, shares in gain.items()
        )
        + ". Who saves his work or asks for short slices needs to know less."
    )
    return texts


FURTHER_VALUES = Experiment(
    name="volatile-values",
    title="Volatile resources: defined durations and saved work",
    source="P3 §8; docs/design/volatile-resources.md",
    cases=lambda quick: [
        Case("pools of 2015", measure_values, {"most": 2 if quick else None}, (MARKETS_2015,))
    ],
    pictures=(
        Picture(
            "volatile-values",
            "Share of the Oracle's value under each policy and information model, for jobs that need one "
            "whole interval, for slices of a defined duration, and for jobs that save their work.",
            lambda rows: draw_shares(rows, "Jobs, slices, saved work", [value.name for value in FURTHER]),
        ),
    ),
    sentences=_value_sentences,
)
