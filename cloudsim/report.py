"""What a replay or a federation did, counted. The same tally serves the in-process and the live federation.

JSON schema ``spotfed.federation-report/1`` (``Tally.as_dict``):

    until_s                 requests after this time of the federation were left out
    clouds.<id>             nodes, on_demand {requests, admitted}, spot {admitted, completed, evicted},
                            refusals {reason: count}, once per cloud asked
    origins.<id>            requests (each once), admitted, completed, evicted, refusals {reason: count} as
    above,
                            spot_core_hours {requested, completed, lost}: lost is the work of evicted
                            instances
    total                   the sums over origins, without refusals
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from cloudsim.requests import End, Reason, Request

SCHEMA = "spotfed.federation-report/1"


@dataclass
class _CloudCount:
    nodes: str
    on_demand_requests: int = 0
    on_demand_admitted: int = 0
    spot: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)


@dataclass
class _OriginCount:
    spot: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    core_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class Tally:
    """Counts requests, answers and ends. ``clouds`` maps ids to node shapes, ``origins`` lists who sends
    requests."""

    def __init__(self, clouds: dict[str, str], origins: list[str], until_s: float):
        self._clouds = {cloud: _CloudCount(nodes) for cloud, nodes in clouds.items()}
        self._origins = {origin: _OriginCount() for origin in origins}
        self._until_s = until_s

    def on_demand(self, cloud: str, *, requests: int, admitted: int) -> None:
        """A cloud's own requests, in all or since the last call."""
        self._clouds[cloud].on_demand_requests += requests
        self._clouds[cloud].on_demand_admitted += admitted

    def asked(self, request: Request) -> None:
        """A spot request was sent to the federation."""
        assert request.lifetime_s is not None
        self._origins[request.origin].spot["requests"] += 1
        self._origins[request.origin].core_s["requested"] += request.cores * request.lifetime_s

    def admitted(self, origin: str, cloud: str) -> None:
        """One cloud took it."""
        self._origins[origin].spot["admitted"] += 1
        self._clouds[cloud].spot["admitted"] += 1

    def refused(self, origin: str, cloud: str, reason: Reason) -> None:
        """One of the clouds asked refused; several may, for one request."""
        self._origins[origin].refusals[reason.value] += 1
        self._clouds[cloud].refusals[reason.value] += 1

    def ended(self, origin: str, cloud: str, how: End, cores: int, ran_s: float) -> None:
        """A spot instance left after ``ran_s`` seconds."""
        self._origins[origin].spot[how.value] += 1
        self._clouds[cloud].spot[how.value] += 1
        self._origins[origin].core_s["completed" if how is End.COMPLETED else "lost"] += cores * ran_s

    def as_dict(self) -> dict[str, Any]:
        """The report in its documented schema."""
        origins = {
            name: {
                **{key: count.spot[key] for key in ("requests", "admitted", "completed", "evicted")},
                "refusals": dict(sorted(count.refusals.items())),
                "spot_core_hours": {
                    key: round(count.core_s[key] / 3600, 6) for key in ("requested", "completed", "lost")
                },
            }
            for name, count in self._origins.items()
        }
        return {
            "schema": SCHEMA,
            "until_s": self._until_s,
            "clouds": {
                name: {
                    "nodes": count.nodes,
                    "on_demand": {
                        "requests": count.on_demand_requests,
                        "admitted": count.on_demand_admitted,
                    },
                    "spot": {key: count.spot[key] for key in ("admitted", "completed", "evicted")},
                    "refusals": dict(sorted(count.refusals.items())),
                }
                for name, count in self._clouds.items()
            },
            "origins": origins,
            "total": {
                key: sum(count.spot[key] for count in self._origins.values())
                for key in ("requests", "admitted", "completed", "evicted")
            },
        }
