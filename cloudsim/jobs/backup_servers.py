"""On-demand servers whose shares back up several jobs (the paper's §3.3.2): how many there must be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cloudsim.jobs.attempts import Charge
from cloudsim.markets.revocation import HOUR_S

#: Shares are sums of floats.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class PackedServers:
    """Servers at the most, the hours that they were up, and the server hours that jobs paid for."""

    servers: int
    up_hours: float
    paid_hours: float


def pack_backups(charges: Iterable[Charge]) -> PackedServers:
    """Backup replicas on as few servers as first fit finds, by start; others among the charges are left out.

    A server is up from its first replica until its last has gone. Jobs pay for their shares only
    (``PackedServers.paid_hours``): the rest of ``up_hours`` is what sharing does not fill.
    """
    claims = sorted(
        (one for one in charges if one.market is None and one.share < 1.0), key=lambda one: one.start_s
    )
    servers: list[list[tuple[float, float]]] = []  # the replicas of each: end and share
    begun_s: list[float] = []
    up_s = paid_s = 0.0
    for claim in claims:
        for _ in range(claim.instances):
            paid_s += claim.share * (claim.end_s - claim.start_s)
            room = None
            for number, held in enumerate(servers):
                if held and max(held)[0] <= claim.start_s:
                    up_s += max(held)[0] - begun_s[number]
                    held.clear()
                used = sum(share for end_s, share in held if end_s > claim.start_s)
                if room is None and used + claim.share <= 1.0 + _TOLERANCE:
                    room = number
            if room is None:
                room = len(servers)
                servers.append([])
                begun_s.append(claim.start_s)
            if not servers[room]:
                begun_s[room] = claim.start_s
            servers[room].append((claim.end_s, claim.share))
    up_s += sum(max(held)[0] - begun_s[number] for number, held in enumerate(servers) if held)
    return PackedServers(len(servers), up_s / HOUR_S, paid_s / HOUR_S)
