"""Own on-demand requests that a cloud had to turn away and offers to the federation. Pure.

An offer ends when it was placed and ran to its end, was refused, or was stopped by its user. An instance that
was evicted elsewhere is offered again for the rest of its lifetime.
"""

from __future__ import annotations

from typing import Any

from broker.contract import CloudId, Overflow, OverflowState

_CLOSED = frozenset({"refused", "completed", "stopped"})


class OverflowOffers:
    """Keeps the open offers, by instance.

    ``after_news`` and ``after_stop`` propose the next state of an offer; ``apply`` makes it true, also in
    recovery.
    """

    def __init__(self) -> None:
        self._open: dict[str, OverflowState] = {}

    def __len__(self) -> int:
        return len(self._open)

    def get(self, instance: str) -> OverflowState | None:
        """Return the open offer of an instance, or None."""
        return self._open.get(instance)

    def open(self) -> tuple[OverflowState, ...]:
        """Return all open offers."""
        return tuple(self._open.values())

    def apply(self, state: OverflowState) -> None:
        """Replace an offer by its next state; a closed one is forgotten."""
        if state.state in _CLOSED:
            self._open.pop(state.instance, None)
        else:
            self._open[state.instance] = state

    def after_news(self, news: Overflow, now_s: float) -> OverflowState | None:
        """Return the next state of an offer after news of the federation; None when they say nothing new."""
        offer = self._open.get(news.instance)
        if offer is None or (news.attempt is not None and news.attempt != offer.attempt):
            return None  # closed, or about an earlier offer
        match news.outcome:
            case "placed":
                if offer.state == "placed":
                    return None
                return _changed(
                    offer,
                    state="placed",
                    ends_at_s=now_s + offer.remaining_s,
                    lease=news.lease,
                    cloud=news.cloud,
                )
            case "evicted":
                return _offered_again(offer, news.cloud, now_s)
            case "refused" | "completed":
                return _changed(offer, state=news.outcome)

    def after_stop(self, instance: str) -> OverflowState | None:
        """Return the next state of an offer that its user stops; None when there is no open offer."""
        offer = self._open.get(instance)
        return None if offer is None else _changed(offer, state="stopped")


def first_offer(instance: str, cores: int, lifetime_s: float, **needs: Any) -> OverflowState:
    """Return a first offer, for the whole lifetime.

    ``needs``: what it needs beside cores, see ``broker.contract.convert.to_needs_fields``, and its launch.
    """
    return OverflowState(
        instance=instance, attempt=1, state="offered", cores=cores, remaining_s=lifetime_s, **needs
    )


def stream_entry(cloud: CloudId, state: OverflowState, sla: float | None) -> dict[str, Any] | None:
    """Return the entry of the overflow stream that a new state of an offer calls for, or None."""
    entry: dict[str, Any] = {"cloud": cloud, "instance": state.instance, "attempt": state.attempt}
    if state.state == "offered":
        request = {"cores": state.cores, "lifetime_s": state.remaining_s, "sla": sla, "avoid": state.avoid}
        return entry | request | state.model_dump(mode="json", include={*state.dump_needs(), "launch"})
    if state.state == "stopped":
        return entry | {"stop": True, "lease": state.lease}
    return None


def _offered_again(offer: OverflowState, evicted_by: str | None, now_s: float) -> OverflowState:
    remaining_s = offer.remaining_s if offer.ends_at_s is None else offer.ends_at_s - now_s
    if remaining_s <= 0:
        return _changed(offer, state="completed")
    return OverflowState(
        instance=offer.instance,
        attempt=offer.attempt + 1,
        state="offered",
        cores=offer.cores,
        remaining_s=remaining_s,
        avoid=evicted_by or offer.cloud,
        launch=offer.launch,
        **offer.dump_needs(),
    )


def _changed(offer: OverflowState, **changes: Any) -> OverflowState:
    return offer.model_copy(update=changes)
