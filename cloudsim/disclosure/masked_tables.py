"""The table that a cloud decides by when it does not disclose everything (VOLATILE.md "In the product").

Every answer to "would you promise p for so long?" tells one bit about the lifetimes, and a sweep of such
questions, dry or in earnest, tells the whole curve. Hiding figures of single answers does not help, so the
cloud itself decides by a table that holds no more than what is disclosed:

* *p10*, *p90*: a curve of two steps, at the two lifetimes that are told. Up to the shorter one the risk is
  the share that dies by it (.1 and .5), up to the longer one the next (.5 and .9), beyond it there is no
  evidence. Whether a shorter life has a smaller risk is what is not told, so it cannot be promised: *p10*
  promises at .1 and above, *p90* at .5 and above.
* *mttr*, *nothing*: no curve. A mean bounds no risk of an early end (half of all may die at once), so
  nothing is promised there; spot without a guarantee is lent as everywhere.

One curve stands for a size, whatever is free: that of the least favourable of the usual conditions, the ones
with most free slots that hold half of all births. With fewer slots free nothing is promised. Thus the steps
are at or above every risk that the full table would give: what is promised by them is kept as well as ever,
and no second look into the full table, which would answer for the hidden curve, is needed.

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

#: Share of all births that found room for which the one curve of a size must do.
USUAL = 0.5

_MEDIAN = 0.5
_SHOWN_DIGITS = 6


class CoarseTable(QuantileTable):
    """A table of a level below ``full``, made from the full one, which it keeps to itself."""

    conditional = False

    def __init__(self, full: QuantileTable, level: Disclosure):
        assert level is not Disclosure.FULL, "a full table is shown as it is"
        super().__init__(
            list(full.samples.values()), full.node_cores, full.made_at_s, full.rule, full.details
        )
        self.level = level
        usual = {flavour: select_usual_conditions(full.conditions(flavour)) for flavour in full.samples}
        self._least = {flavour: seen[0].free_slots_from if seen else 1 for flavour, seen in usual.items()}
        self.disclosed = {flavour: _disclosed(seen, level) for flavour, seen in usual.items()}
        self._curves = {flavour: make_promise_curve(told) for flavour, told in self.disclosed.items()}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes in cores that anything is promised of, ascending."""
        return super().sizes if self.level in SHARES else ()

    def has(self, cores: int, amounts: Amounts = ()) -> bool:
        """True when something may be promised of the flavour."""
        return self.level in SHARES and super().has(cores, amounts)

    @cached_property
    def version(self) -> str:
        """Digest of what is disclosed: of clouds that disclose the same it is the same."""
        shown = json.dumps([self.level, self.made_at_s, self.lifetimes()])
        return hashlib.sha256(shown.encode()).hexdigest()[:16]

    def least_free_slots(self, cores: int, amounts: Amounts = ()) -> int:
        """With fewer slots free nothing of that flavour is promised; where nothing ever is, 1."""
        return self._least.get((cores, amounts), 1) if self.level in SHARES else 1

    def distribution(self, cores: int, free_slots: int, amounts: Amounts = ()) -> LifetimeDistribution | None:
        """The steps, wherever there are enough free slots.

        Raises NoTableError when the table does not hold the flavour.
        """
        self._samples_of((cores, amounts))
        enough = free_slots >= self.least_free_slots(cores, amounts)
        return self._curves[cores, amounts] if enough else None

    def release_horizons_s(self, cores: int, amounts: Amounts = ()) -> tuple[float, ...]:
        """None: the steps hold whoever leaves."""
        del cores, amounts
        return ()

    def conditions(self, flavour: Flavour) -> NoReturn:
        """They are what is not disclosed."""
        raise AssertionError(f"{flavour}: a coarse table is made from a full one")

    def lifetimes(self) -> list[dict[str, Any]]:
        """The figures that are told, by flavour, fit for JSON."""
        if self.level is Disclosure.NOTHING:
            return []
        return [_shown(flavour, self.disclosed[flavour]) for flavour in self.samples]

    def rows(self, slas: Sequence[float] = SHOWN_SLAS) -> list[dict[str, Any]]:
        """As those of a full table, one a flavour: the steps by which is promised, at their own SLAs."""
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
    """Those with most free slots that together hold ``USUAL`` of all births."""
    whole, held = sum(one.weight for one in seen), 0.0
    for index in reversed(range(len(seen))):
        held += seen[index].weight
        if held >= USUAL * whole:
            return tuple(seen[index:])
    return ()


def combine_worst(parts: Sequence[LifetimeDistribution]) -> LifetimeDistribution:
    """At every lifetime the greatest of the risks; followed up as far as all of them are.

    Conditions between two of the parts are mixtures of both, so that it is at or above them too.
    """
    limit_s = min(part.followed_up_s for part in parts)
    ends_s = np.unique(np.concatenate([part.ends_s for part in parts]))
    ends_s = ends_s[ends_s <= limit_s]
    risks = np.max([part.risk(ends_s) for part in parts], axis=0)
    fewest = min(parts, key=lambda one: one.samples)
    return LifetimeDistribution(ends_s, risks, fewest.samples, fewest.evictions)


def make_promise_curve(told: Disclosed) -> LifetimeDistribution | None:
    """The smallest risks that all lifetimes with these figures keep to: steps, rounded up. None: there are
    none below 1."""
    if told.level not in SHARES:
        return None
    assert told.median_s is not None
    assert told.quantile_s is not None
    steps: dict[float, float] = {}  # of two figures that are equal the smaller risk holds
    for end_s, risk in sorted([(told.median_s, _MEDIAN), (told.quantile_s, SHARES[told.level])]):
        if end_s > 0:
            steps.setdefault(end_s, risk)
    if not steps:
        return None
    return LifetimeDistribution(np.array(list(steps)), np.array(list(steps.values())), 0, 0)


def coarsen_table(table: QuantileTable, level: Disclosure) -> QuantileTable:
    """The table that a cloud of that level decides by, and shows."""
    return table if level is Disclosure.FULL or isinstance(table, CoarseTable) else CoarseTable(table, level)


def describe_table(table: QuantileTable) -> dict[str, Any]:
    """What is published of it: version, age, level, rows, and by flavour the figures of its level."""
    coarse = table if isinstance(table, CoarseTable) else None
    return {
        "version": table.version,
        "made_at_s": table.made_at_s,
        "disclosure": coarse.level.value if coarse else Disclosure.FULL.value,
        "rows": table.rows(),
        "lifetimes": coarse.lifetimes() if coarse else describe_lifetimes(table),
    }


def describe_lifetimes(table: QuantileTable) -> list[dict[str, Any]]:
    """The whole curve of each flavour in its usual conditions, fit for JSON."""
    found = ((one, select_usual_conditions(table.conditions(one))) for one in table.samples)
    return [_shown(flavour, _disclosed(seen, Disclosure.FULL)) for flavour, seen in found]


def _disclosed(seen: Sequence[Condition], level: Disclosure) -> Disclosed:
    nobody = LifetimeDistribution(np.zeros(1), np.zeros(1), 0, 0)
    return disclose(combine_worst([one.distribution for one in seen]) if seen else nobody, level)


def _shown(flavour: Flavour, told: Disclosed) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: getattr(told, name)
        for name in ("mean_s", "median_s", "quantile_s")
        if getattr(told, name) is not None
    }
    if told.survival is not None:
        figures["survival"] = [round(one, _SHOWN_DIGITS) for one in told.survival]
    amounts = {"amounts": dict(flavour[1])} if flavour[1] else {}
    return {"cores": flavour[0], **amounts, **figures}
