"""Count the on-demand servers whose shares back up several jobs (P4 §3.3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cloudsim.jobs.attempts import Charge
from cloudsim.markets.revocation import HOUR_S

#: Shares are sums of floats.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class PackedServers:
    """Result of packing backup replicas.

    Attributes
    ----------
    servers
        Most servers at once.
    up_hours
        Hours that servers were up.
    paid_hours
        Server hours that jobs paid for.
    """

    servers: int
    up_hours: float
    paid_hours: float


def pack_backups(charges: Iterable[Charge]) -> PackedServers:
    """Pack backup replicas on servers by first fit, in order of start; other charges are ignored.

    A server is up from its first replica until its last has gone. Jobs pay for their shares only
    (``paid_hours``): the rest of ``up_hours`` is what sharing does not fill.
    """
    claims = sorted(
        (charge for charge in charges if charge.market is None and charge.share < 1.0),
        key=lambda charge: charge.start_s,
    )
    servers: list[list[tuple[float, float]]] = []  # the replicas of each: end and share
    begun_s: list[float] = []
    up_s = paid_s = 0.0
    for claim in claims:
        for _ in range(claim.instances):
            paid_s += claim.share * (claim.end_s - claim.start_s)
            room = None
            for number, replicas in enumerate(servers):
                if replicas and max(replicas)[0] <= claim.start_s:
                    up_s += max(replicas)[0] - begun_s[number]
                    replicas.clear()
                used = sum(share for end_s, share in replicas if end_s > claim.start_s)
                if room is None and used + claim.share <= 1.0 + _TOLERANCE:
                    room = number
            if room is None:
                room = len(servers)
                servers.append([])
                begun_s.append(claim.start_s)
            if not servers[room]:
                begun_s[room] = claim.start_s
            servers[room].append((claim.end_s, claim.share))
    up_s += sum(max(replicas)[0] - begun_s[number] for number, replicas in enumerate(servers) if replicas)
    return PackedServers(len(servers), up_s / HOUR_S, paid_s / HOUR_S)
