"""Accounts of the ledger, picked and summed, put into words of the API. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from broker.ledger.ledger import CONFIDENCE, CloudLedger, LedgerAccount
from broker.ledger.models import LedgerEntry

#: What a statement can be broken down by.
DIMENSIONS = ("cloud", "origin", "sla", "table")


class LedgerGroup(NamedTuple):
    """What the accounts of one entry have in common; None for what they were summed over."""

    cloud: str | None
    origin: str | None
    sla: float | None
    table_version: str | None


@dataclass
class LedgerTotal:
    """Accounts together. ``allowed``: how many evictions their SLAs allow."""

    account: LedgerAccount = field(default_factory=LedgerAccount)
    allowed: float = 0.0


def totals(
    ledgers: Iterable[CloudLedger],
    by: Collection[str],
    *,
    origins: Collection[str] | None = None,
    sla: float | None = None,
) -> dict[LedgerGroup, LedgerTotal]:
    """The accounts that suit, summed, by cloud, origin and SLA; tables in the order of their first promise.

    origins: of these only; None: of all. Copies: what is folded in later does not change them. Accounts that
    everybody left are left out.
    """
    found: dict[LedgerGroup, LedgerTotal] = {}
    for ledger in ledgers:
        for key, account in ledger.accounts.items():
            if not account.admitted or sla not in (None, key.sla):
                continue
            if origins is not None and key.origin not in origins:
                continue
            group = LedgerGroup(
                ledger.cloud if "cloud" in by else None,
                key.origin if "origin" in by else None,
                key.sla if "sla" in by else None,
                key.table_version if "table" in by else None,
            )
            total = found.setdefault(group, LedgerTotal())
            total.account.add(account)
            total.allowed += key.sla * account.admitted
    return dict(
        sorted(found.items(), key=lambda one: (one[0].cloud or "", one[0].origin or "", one[0].sla or 0))
    )


def entries(found: Mapping[LedgerGroup, LedgerTotal]) -> list[LedgerEntry]:
    """With exact intervals, in the same order. This may take some milliseconds an entry."""
    return [_entry(group, total) for group, total in found.items()]


def _entry(group: LedgerGroup, total: LedgerTotal) -> LedgerEntry:
    from cloudsim.model.binomial import clopper_pearson

    account = total.account
    admitted, evicted, mean_risk = account.admitted, account.evicted, account.mean_risk
    assert mean_risk is not None, "an account that everybody left"
    # Of several SLAs their mean: evictions vary less than if all were promised that.
    promised = total.allowed / admitted if group.sla is None else group.sla
    at_least, _ = clopper_pearson(evicted, admitted, CONFIDENCE)
    _, at_most = clopper_pearson(evicted + account.running, admitted, CONFIDENCE)
    settled = admitted - account.running
    return LedgerEntry(
        **group._asdict(),
        promised=promised,
        admitted=admitted,
        running=account.running,
        completed=account.completed,
        evicted=evicted,
        realised=evicted / settled if settled else None,
        at_least=at_least,
        at_most=at_most,
        mean_risk=mean_risk,
        kept=_kept(promised, at_least, at_most),
    )


def _kept(promised: float, at_least: float, at_most: float) -> Literal["yes", "broken", "open"]:
    if at_least > promised:
        return "broken"
    return "yes" if at_most <= promised else "open"
