"""Tables by which a cloud decides when it does not disclose everything.

See docs/design/volatile-resources.md "In the product".

Every answer to "would you promise p for this long?" reveals one bit about the lifetimes, and a sweep of such
questions reveals the whole curve. Hiding figures in single answers does not help, so the cloud itself decides
by a table that holds no more than what it discloses:

* *p10*, *p90*: a curve of two steps, at the two disclosed lifetimes. Up to the shorter one the risk is the
  share that dies by it (.1 and .5), up to the longer one the next (.5 and .9), and beyond it there is no
  evidence. Whether a shorter life has a smaller risk is not disclosed, so it cannot be promised: *p10*
  promises at .1 and above, *p90* at .5 and above.
* *mttr*, *nothing*: no curve. A mean does not bound the risk of an early end (half of all may die at once),
  so nothing is promised; spot without a guarantee is lent as everywhere.

One curve stands for a size, whatever is free: the worst of the usual conditions, which are those with most
free slots that together hold half of all births. With fewer free slots nothing is promised. Thus the steps
are at or above every risk that the full table would give: promises are kept as well as ever, without a second
look into the full table, which would give the hidden curve away.

Refused: the Gaussian through the two figures (it promises what the cloud may not keep), and asking both
tables (the refusals of the full one are the leak).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from cloudsim.disclosure.levels import SHARES, Disclosed, Disclosure, disclose
from cloudsim.model.requests import Amounts
from cloudsim.prediction.lifetimes import LifetimeDistribution
from cloudsim.prediction.samples import Flavour
from cloudsim.prediction.tables import SHOWN_SLAS, Condition, QuantileTable

#: Share of all births with a free slot that the one curve of a size must cover.
USUAL = 0.5

_MEDIAN = 0.5
_SHOWN_DIGITS = 6


class CoarseTable(QuantileTable):
    """Table of a level below ``full``, made from the full one, which it keeps to itself.

    Parameters
    ----------
    full
        The full table.
    level
        A level below ``full``.
    """

    conditional = False

    def __init__(self, full: QuantileTable, level: Disclosure):
        assert level is not Disclosure.FULL, "a full table is shown as it is"
        super().__init__(
            list(full.samples.values()), full.node_cores, full.made_at_s, full.rule, full.details,
            full.take_backs,
        )  # fmt: skip
        self.level = level
        usual = {flavour: select_usual_conditions(full.conditions(flavour)) for flavour in full.samples}
        self._least = {flavour: seen[0].free_slots_from if seen else 1 for flavour, seen in usual.items()}
        self.disclosed = {flavour: _disclosed(seen, level) for flavour, seen in usual.items()}
        self._curves = {flavour: make_promise_curve(figures) for flavour, figures in self.disclosed.items()}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in cores of which anything is promised, ascending."""
        return super().sizes if self.level in SHARES else ()

    def has(self, cores: int, amounts: Amounts = ()) -> bool:
        """Return True if something may be promised of the flavour."""
        return self.level in SHARES and super().has(cores, amounts)

    @cached_property
    def version(self) -> str:
        """Digest of what is disclosed; clouds that disclose equal figures have equal versions."""
        shown = json.dumps([self.level, self.made_at_s, self.lifetimes()])
        return hashlib.sha256(shown.encode()).hexdigest()[:16]

    def least_free_slots(self, cores: int, amounts: Amounts = ()) -> int:
        """Return the free slots below which nothing of that flavour is promised; 1 if nothing ever is."""
        return self._least.get((cores, amounts), 1) if self.level in SHARES else 1

    def distribution(self, cores: int, free_slots: int, amounts: Amounts = ()) -> LifetimeDistribution | None:
        """Return the steps if there are enough free slots, else None.

        Raises
        ------
        NoTableError
            When the table does not hold the flavour.
        """
        self._samples_of((cores, amounts))
        enough = free_slots >= self.least_free_slots(cores, amounts)
        return self._curves[cores, amounts] if enough else None

    def release_horizons_s(self, cores: int, amounts: Amounts = ()) -> tuple[float, ...]:
        """Return no horizon: the steps hold whichever instances leave."""
        del cores, amounts
        return ()

    def conditions(self, flavour: Flavour) -> NoReturn:
        """Refuse: conditions are what a coarse table hides."""
        raise AssertionError(f"{flavour}: a coarse table is made from a full one")

    def lifetimes(self) -> list[dict[str, Any]]:
        """Return the disclosed figures, one dictionary a flavour, fit for JSON."""
        if self.level is Disclosure.NOTHING:
            return []
        return [_shown(flavour, self.disclosed[flavour]) for flavour in self.samples]

    def rows(self, slas: Sequence[float] = SHOWN_SLAS) -> list[dict[str, Any]]:
        """Return the steps by which the cloud promises: one dictionary a flavour, at the steps' own SLAs."""
        del slas
        rows = []
        for flavour, curve in self._curves.items():
            if curve is not None:
                steps = zip(curve.risks.tolist(), curve.ends_s.tolist(), strict=True)
                rows.append(
                    {
                        "cores": flavour[0],
                        "free_slots_from": 1,
                        "free_slots_to": self._most(flavour),
                        "followed_up_s": curve.followed_up_s,
                        "quantiles_s": dict(steps),
                        **({"amounts": dict(flavour[1])} if flavour[1] else {}),
                    }
                )
        return rows


def select_usual_conditions(seen: Sequence[Condition]) -> tuple[Condition, ...]:
    """Return the conditions with most free slots that together hold ``USUAL`` of all births.

    Parameters
    ----------
    seen
        Conditions, fewest free slots first.
    """
    whole, covered = sum(condition.weight for condition in seen), 0.0
    for index in reversed(range(len(seen))):
        covered += seen[index].weight
        if covered >= USUAL * whole:
            return tuple(seen[index:])
    return ()


def combine_worst(parts: Sequence[LifetimeDistribution]) -> LifetimeDistribution:
    """Return the greatest of the risks at every lifetime; it is followed up as far as all parts are.

    Conditions between two of the parts are mixtures of both, so the result is at or above them too.
    """
    limit_s = min(part.followed_up_s for part in parts)
    ends_s = np.unique(np.concatenate([part.ends_s for part in parts]))
    ends_s = ends_s[ends_s <= limit_s]
    risks = np.max([part.risk(ends_s) for part in parts], axis=0)
    fewest = min(parts, key=lambda part: part.samples)
    return LifetimeDistribution(ends_s, risks, fewest.samples, fewest.evictions)


def make_promise_curve(disclosed: Disclosed) -> LifetimeDistribution | None:
    """Return the smallest risks that all lifetimes with these figures keep to, as steps, rounded up.

    None if there are none below 1.
    """
    if disclosed.level not in SHARES:
        return None
    assert disclosed.median_s is not None
    assert disclosed.quantile_s is not None
    steps: dict[float, float] = {}  # of two figures that are equal the smaller risk holds
    for end_s, risk in sorted(
        [(disclosed.median_s, _MEDIAN), (disclosed.quantile_s, SHARES[disclosed.level])]
    ):
        if end_s > 0:
            steps.setdefault(end_s, risk)
    if not steps:
        return None
    return LifetimeDistribution(np.array(list(steps)), np.array(list(steps.values())), 0, 0)


def coarsen_table(table: QuantileTable, level: Disclosure) -> QuantileTable:
    """Return the table that a cloud of that level decides by, and shows."""
    return table if level is Disclosure.FULL or isinstance(table, CoarseTable) else CoarseTable(table, level)


def describe_table(table: QuantileTable) -> dict[str, Any]:
    """Return what a cloud publishes of its table: version, age, level, rows, and the figures of its level."""
    coarse = table if isinstance(table, CoarseTable) else None
    return {
        "version": table.version,
        "made_at_s": table.made_at_s,
        "disclosure": coarse.level.value if coarse else Disclosure.FULL.value,
        "rows": table.rows(),
        "lifetimes": coarse.lifetimes() if coarse else describe_lifetimes(table),
    }


def describe_lifetimes(table: QuantileTable) -> list[dict[str, Any]]:
    """Return the whole curve of each flavour in its usual conditions, fit for JSON."""
    usual = ((flavour, select_usual_conditions(table.conditions(flavour))) for flavour in table.samples)
    return [_shown(flavour, _disclosed(seen, Disclosure.FULL)) for flavour, seen in usual]


def _disclosed(seen: Sequence[Condition], level: Disclosure) -> Disclosed:
    nothing_seen = LifetimeDistribution(np.zeros(1), np.zeros(1), 0, 0)
    return disclose(
        combine_worst([condition.distribution for condition in seen]) if seen else nothing_seen, level
    )


def _shown(flavour: Flavour, disclosed: Disclosed) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: getattr(disclosed, name)
        for name in ("mean_s", "median_s", "quantile_s")
        if getattr(disclosed, name) is not None
    }
    if disclosed.survival is not None:
        figures["survival"] = [round(share, _SHOWN_DIGITS) for share in disclosed.survival]
    amounts = {"amounts": dict(flavour[1])} if flavour[1] else {}
    return {"cores": flavour[0], **amounts, **figures}
