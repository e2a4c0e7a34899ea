"""Selects and sums accounts of the ledger for the HTTP API. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from broker.ledger.ledger import CONFIDENCE, CloudLedger, LedgerAccount
from broker.ledger.models import LedgerEntry
from cloudsim.model.requests import Door

#: What a report can be broken down by.
DIMENSIONS = ("cloud", "origin", "sla", "table", "door")


class LedgerGroup(NamedTuple):
    """The fields that all accounts of one entry share; None for those that they were summed over."""

    cloud: str | None
    origin: str | None
    sla: float | None
    table_version: str | None
    door: Door | None = None


@dataclass
class LedgerTotal:
    """The sum of several accounts. allowed: how many evictions their SLAs allow."""

    account: LedgerAccount = field(default_factory=LedgerAccount)
    allowed: float = 0.0


def sum_accounts(
    ledgers: Iterable[CloudLedger],
    by: Collection[str],
    *,
    origins: Collection[str] | None = None,
    sla: float | None = None,
) -> dict[LedgerGroup, LedgerTotal]:
    """Return sums of accounts, by cloud, door, origin and SLA; tables in the order of their first promise.

    The sums are copies: events that are folded in later do not change them. Accounts without a promise that
    is still counted are left out.

    Parameters
    ----------
    ledgers
        The ledgers whose accounts are summed.
    by
        The dimensions that are not summed over, some of ``DIMENSIONS``.
    origins
        Only accounts of these origins; None: of all.
    sla
        Only accounts of this SLA; None: of all.
    """
    groups: dict[LedgerGroup, LedgerTotal] = {}
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
                key.door if "door" in by else None,
            )
            total = groups.setdefault(group, LedgerTotal())
            total.account.add(account)
            total.allowed += key.sla * account.admitted
    return dict(sorted(groups.items(), key=lambda item: _order(item[0])))


def make_entries(totals: Mapping[LedgerGroup, LedgerTotal]) -> list[LedgerEntry]:
    """Return an entry for each sum, in the same order; its exact bounds may take some milliseconds."""
    return [_entry(group, total) for group, total in totals.items()]


def _order(group: LedgerGroup) -> tuple[str, str, str, float]:
    return group.cloud or "", group.door or "", group.origin or "", group.sla or 0.0


def _entry(group: LedgerGroup, total: LedgerTotal) -> LedgerEntry:
    from cloudsim.model.binomial import clopper_pearson

    account = total.account
    admitted, evicted, mean_risk = account.admitted, account.evicted, account.mean_risk
    assert mean_risk is not None, "an account without promises"
    # For several SLAs their mean, which is cautious: evictions vary less than if that were the SLA of all.
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
        peaks=len(account.peaks),
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
