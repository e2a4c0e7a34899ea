"""All figures by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.docs.figures import data, diagrams, eviction, journeys
from tests.integration.docs.figures.svg import Drawing

FIGURES: dict[str, Callable[[], Drawing]] = {
    "replays": data.replays,
    "quantiles": data.quantiles,
    "survival": data.survival,
    "disclosure": data.disclosure,
    "routing": diagrams.routing,
    "line-ups": eviction.line_ups,
    "reservation": diagrams.reservation,
    "mechanisms": diagrams.mechanisms,
    "cheapest": data.mechanisms_map,
    "ledger": data.ledger,
    "headroom": data.headroom,
    "trust": diagrams.trust,
    "instances": diagrams.instances,
    "packages": journeys.packages,
    "journey-request": journeys.request,
    "journey-eviction": journeys.eviction,
    "journey-refresh": journeys.refresh,
}
