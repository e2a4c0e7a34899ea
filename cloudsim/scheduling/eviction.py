"""Eviction orders: whom to take first. Orders only; ``victims.py`` is the one algorithm over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cloudsim.requests import Instance

Order = Callable[[Iterable[Instance]], list[Instance]]


def youngest_first(spot: Iterable[Instance]) -> list[Instance]:
    """Those without a guarantee before all others (P2 §3.6); then latest start first, then latest arrival
    (P1 §II-C "Youngest-Job-First", the least work is lost)."""
    return sorted(
        spot,
        key=lambda instance: (instance.yields, instance.start_s, instance.number),
        reverse=True,
    )
