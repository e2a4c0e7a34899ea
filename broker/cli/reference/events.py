"""Events: what is told of leases, and the messages in which it is told."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel

from broker.answers import CounterOffers, Lease, LeaseState, QuoteView, RefusalView
from broker.cli.reference.markdown import code, laid_out, prose, remarks, table
from broker.cli.reference.schemas import in_json, told_apart, type_of, unlinked
from broker.contract import PUBLIC_KINDS, Event, EventKind
from broker.versions import VERSION
from cloudsim.requests import Reason

_MESSAGES: tuple[type[BaseModel], ...] = (Event, Lease, RefusalView, QuoteView, CounterOffers)


def page() -> str:
    """The page."""
    public, own = (
        [(one, text) for one, text in _remarked(EventKind) if (one in PUBLIC_KINDS) is shown]
        for shown in (True, False)
    )
    told = (
        f"Version {VERSION} of the contract. Public events are published whole on the channel "
        "`spotfed:events:CLOUD` and kept in [streams](../concepts/reservation.md#how-events-reach-you), sent "
        "by `GET /v1/events` and to webhooks, and shown by `spotfed events`."
    )
    parts = [
        told,
        "",
        "## Public events",
        "",
        _listed(public),
        "",
        "## The owner's own book-keeping",
        "",
        "These stand in a cloud's journal alone.",
        "",
        _listed(own),
        "",
        "## States of a lease",
        "",
        prose(LeaseState.__doc__),
        "",
        _listed(_remarked(LeaseState)),
        "",
        "## Reasons of refusals",
        "",
        prose(Reason.__doc__),
        "",
        _listed(_remarked(Reason)),
    ]
    for message in _MESSAGES:
        parts += ["", f"## {message.__name__}", "", *_message(message)]
    about = "What happens to leases, and how it is told: kinds of events, states, reasons and messages."
    return laid_out("Events", about, *parts, source="`broker.contract`")


def _remarked(of: type[StrEnum]) -> list[tuple[str, str]]:
    said = remarks(of)
    return [(one.value, said.get(one.name, "")) for one in of]


def _listed(pairs: list[tuple[str, str]]) -> str:
    return table(("name", "what"), ((code(name), prose(text)) for name, text in pairs))


def _message(message: type[BaseModel]) -> list[str]:
    schema = message.model_json_schema()
    text, said = told_apart(message.__doc__ or "", schema["properties"])
    said |= {name: in_json(one) for name, one in remarks(message).items()}
    known = {one.__name__ for one in _MESSAGES}
    rows = [
        (code(name), unlinked(type_of(one), known), prose(said.get(name)))
        for name, one in schema["properties"].items()
    ]
    columns = 3 if said else 2
    head = ("field", "type", "what")[:columns]
    return [prose(text), "", table(head, (row[:columns] for row in rows))]
