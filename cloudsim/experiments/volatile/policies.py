"""What users get out of the handed-out pools of 2015 under each policy and by what they are told: the paper's
Figure 14, the ordinal table of its §5.6, both readings of LIFO, and what it matters that the paper judges on
the trace it informs from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cloudsim.disclosure.targeting import LINEAR, POLYNOMIAL
from cloudsim.experiments.claims import Claim, Verdict, judged
from cloudsim.experiments.experiment import Case, Experiment, Picture, Row
from cloudsim.experiments.volatile.drawing import of_oracle, ordinal_shares, places
from cloudsim.experiments.volatile.ordinal import ordinal, sentences
from cloudsim.experiments.volatile.runs import (
    INTERVALS,
    MARKETS_2015,
    MODEL_NAMES,
    MODELS,
    POLICIES,
    POLICY_NAMES,
    VALUE,
    names,
    of,
    over_pools,
    pool_rows,
    pools_2015,
)
from cloudsim.volatile.managers import Renewal, RevocationPolicy

#: VOLATILE.md "Acceptance": linear value over the Oracle's, mean of so many pools; 18 were handed out.
EXPECTED_POOLS = 27
EXPECTED: Mapping[str, tuple[float, float, float, float]] = {
    "random": (0.40, 0.35, 0.53, 0.73),
    "fifo": (0.41, 0.37, 0.53, 0.69),
    "lifo": (0.38, 0.33, 0.58, 0.85),
    "lifo-pools": (0.46, 0.44, 0.63, 0.85),
}
TOLERANCE = 0.05

#: Users are told of the first half and judged on the second.
SPLIT = 0.5

BOTH = (LINEAR.name, POLYNOMIAL.name)


def measure(data: Path | None, *, split: float | None, renewal: str, most: int | None) -> list[Row]:
    """A case: all rows of all pools, or of the first ``most``; see ``volatile_runs.pool_rows``."""
    assert data is not None, "the case needs files"
    pools, _ = pools_2015(data)
    return [row for pool in pools[:most] for row in pool_rows(pool, split=split, renewal=Renewal(renewal))]


def _cases(quick: bool) -> list[Case]:
    def case(name: str, split: float | None, renewal: Renewal) -> Case:
        options = {"split": split, "renewal": renewal.value, "most": 2 if quick else None}
        return Case(name, measure, options, (MARKETS_2015,))

    return [
        case("told of what they are judged on", None, Renewal.SLOT),
        case("told of the first half, judged on the second", SPLIT, Renewal.SLOT),
        case("a renewed unit becomes the newest", None, Renewal.RECENCY),
    ]


def paper_way(rows: Sequence[Row]) -> list[Row]:
    """Judged on the trace that informs; a renewed unit keeps its place."""
    return of(rows, split=None, renewal=Renewal.SLOT.value)


def _mean_value_over_oracle(rows: Sequence[Row]) -> dict[str, Any]:
    own = paper_way(rows)
    return {"mean_value_over_oracle": over_pools(own), "ordinal": ordinal(own)}


# -- what is said --------------------------------------------------------------------------------------------


def _cell(shares: Mapping[str, float]) -> str:
    return " / ".join(f"{shares[model]:.2f}" for model in MODELS)


def _tables(rows: Sequence[Row]) -> list[str]:
    own = paper_way(rows)
    mean, pools = over_pools(own), len(names(own))
    found = []
    for policy in POLICIES:
        printed = " / ".join(f"{share:.2f}" for share in EXPECTED[policy])
        off = [
            f"{MODEL_NAMES[model]} {mean[policy][model] - share:+.2f}"
            for model, share in zip(MODELS, EXPECTED[policy], strict=True)
            if abs(mean[policy][model] - share) > TOLERANCE
        ]
        found.append(
            f"{POLICY_NAMES[policy]}: {_cell(mean[policy])} of the Oracle's linear value, mean of {pools} "
            f"pools under MTTR / 10pctile / 90pctile / full (expected of {EXPECTED_POOLS}, these among them: "
            f"{printed}{'; off by more than .05: ' + ', '.join(off) if off else ''})."
        )
        if off and pools < EXPECTED_POOLS:
            found.append(_of_the_others(policy, own, mean[policy]))
    found.append(_by_zone(own))
    for policy, shares in over_pools(own, POLYNOMIAL.name).items():
        found.append(f"{POLICY_NAMES[policy]}: {_cell(shares)} of the Oracle's polynomial value.")
    told = over_pools(of(rows, split=SPLIT))
    for policy, shares in told.items():
        found.append(
            f"{POLICY_NAMES[policy]}: {_cell(shares)} when users are told of the first half of the trace and "
            f"judged on the second."
        )
    return found


def _of_the_others(policy: str, rows: Sequence[Row], mean: Mapping[str, float]) -> str:
    """What can explain a mean that is off: the pools that are not here, if they can be like that."""
    here = of(rows, row=VALUE, policy=policy, value_function=LINEAR.name)
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
        f"{_cell(needed)}; nearest to that is {like['pool']} ({like['window']}) with {_cell(of_pool(like))}."
    )


def _by_zone(rows: Sequence[Row]) -> str:
    """How much the means hang on which pools there are: it is LIFO-pools where zones differ most."""
    parts = []
    for zone in sorted({row["pool"].split()[1] for row in rows}):
        own = [row for row in rows if row["pool"].split()[1] == zone]
        mean = over_pools(own)
        lifo, pools = (
            _cell(mean[policy.value]) for policy in (RevocationPolicy.LIFO, RevocationPolicy.LIFO_POOLS)
        )
        parts.append(f"{zone} ({len(names(own))} pools) LIFO {lifo}, LIFO-pools {pools}")
    return f"By zone: {'; '.join(parts)}."


def _readings(rows: Sequence[Row]) -> list[str]:
    """How often LIFO-pools with full information is best, by where a renewed unit stands."""
    found = []
    for renewal in Renewal:
        own = of(rows, split=None, renewal=renewal.value)
        best = ordinal(own)[0]
        place = "keeps its place" if renewal is Renewal.SLOT else "becomes the newest"
        found.append(
            f"LIFO when a renewed unit {place}: LIFO-pools with full information is the best of all in "
            f"{best['count']} of {best['pools']} pools."
        )
    return found


def _lifo_pools_never_below(rows: Sequence[Row]) -> Verdict:
    lifo, pools = (
        {
            (row["pool"], row["window"]): row["of_oracle_full"]
            for row in of(rows, row=VALUE, policy=policy.value, value_function=LINEAR.name)
        }
        for policy in (RevocationPolicy.LIFO, RevocationPolicy.LIFO_POOLS)
    )
    below = [name for name in lifo if pools[name] < lifo[name] - 1e-9]
    return Verdict(not below, f"below in {len(below)} of {len(lifo)} pools")


def _p90_beats_mttr(rows: Sequence[Row]) -> Verdict:
    own = of(rows, row=VALUE, value_function=LINEAR.name)
    better = sum(row["of_oracle_p90"] > row["of_oracle_mttr"] for row in own)
    return Verdict(better >= 0.9 * len(own), f"in {better} of {len(own)} pools and policies")


def _p10_and_mttr_poor(rows: Sequence[Row]) -> Verdict:
    mean = over_pools(rows)
    worst = min(mean[policy]["p90"] for policy in POLICIES)
    best = max(mean[policy][model] for policy in POLICIES for model in ("mttr", "p10"))
    return Verdict(best < worst, f"at best {best:.2f}, 90pctile at worst {worst:.2f}")


def _p10_beats_mttr(rows: Sequence[Row]) -> Verdict:
    own = of(rows, row=VALUE, value_function=LINEAR.name)
    better = sum(row["of_oracle_p10"] > row["of_oracle_mttr"] for row in own)
    return Verdict(better > len(own) / 2, f"in {better} of {len(own)} pools and policies")


def _success_of_mttr(rows: Sequence[Row]) -> Verdict:
    """Gaussian lengths with a deviation of a tenth of the mean: 0.9 x mean is one deviation below it."""
    from statistics import NormalDist

    gaussian = 1 - NormalDist().cdf(-1.0)
    own = of(rows, row=VALUE, value_function=LINEAR.name)
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
        policy: sum(row["intervals"] for row in of(rows, row=INTERVALS, policy=policy))
        for policy in ("fifo", "random", "lifo")
    }
    text = ", ".join(f"{POLICY_NAMES[policy]} {count:,}" for policy, count in counts.items())
    return Verdict(counts["fifo"] < counts["random"] < counts["lifo"], text)


CLAIMS = (
    Claim("Table 3", "FIFO makes the fewest intervals and LIFO the most", _interval_counts),
    Claim("§5.3", "LIFO-pools with full information is never below LIFO", _lifo_pools_never_below),
    Claim("§5.4", "90pctile beats MTTR in nearly all pools", _p90_beats_mttr),
    Claim("§1", "MTTR and 10pctile produce poor value beside 90pctile", _p10_and_mttr_poor),
    Claim("§5.4", "10pctile increases value over MTTR", _p10_beats_mttr),
    Claim("§1", "90pctile approaches the value of full information", _lifo_pools_within_reach_of_full),
    Claim("§4.2", "a target of 0.9 x MTTR succeeds in 67 %", _success_of_mttr),
)


def _findings(rows: Sequence[Row]) -> list[str]:
    own = paper_way(rows)
    return [*_tables(rows), *_readings(rows), *sentences(ordinal(own)), *judged(CLAIMS, own)]


EXPERIMENT = Experiment(
    name="volatile-policies",
    title="Volatile resources: what users get, by policy and by what they are told",
    source="paper 002, Figures 8 and 14, §5.6; VOLATILE.md",
    cases=_cases,
    pictures=(
        Picture(
            "volatile-policies",
            "Share of the Oracle's value under each policy and information model: mean over the pools of "
            "2015 and standard deviation.",
            lambda rows: of_oracle(paper_way(rows), "What users get, by what they are told", BOTH),
        ),
        Picture(
            "volatile-policies-split",
            "The same when users are told of the first half of the trace and judged on the second.",
            lambda rows: of_oracle(of(rows, split=SPLIT), "Told of the past, judged on what came", BOTH),
        ),
        Picture(
            "volatile-policies-ordinal",
            "How often a policy with an information model does so well: here and in the paper (§5.6).",
            lambda rows: ordinal_shares(ordinal(paper_way(rows)), "Who does best, pool by pool"),
        ),
        Picture(
            "volatile-policies-pools",
            "The pools of 2015 by volatility and by how daily they are (the paper's Figure 8).",
            lambda rows: places(paper_way(rows), "Pools of 2015"),
        ),
    ),
    findings=_findings,
    own_keys=_mean_value_over_oracle,
)
