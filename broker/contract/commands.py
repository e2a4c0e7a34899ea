"""Everything that crosses a process boundary, defined once: frozen, versioned, JSON only.

Three groups: what a user sends (``SpotRequest`` and the others of ``broker.asked``), what the broker tells an
owner (``Command``) and hears back (``Reply`` and the others of ``broker.answers``), and what an owner makes
known (``Event`` in its journal, ``Advert``, ``CloudInfo``).

A field that a later version adds is declared with ``since``, see ``broker.versions``.
Times named ``*_s`` are seconds of the cloud's own time; timestamps (``at``) are RFC 3339 in UTC.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from broker.contract.fields import CloudId, Cores, Id, LivingSeconds, Message, Probability, Seconds
from broker.contract.replies import QuoteView
from broker.contract.requests import Needs, OnDemandRequest, SpotNeeds
from broker.contract.version import VERSION, since
from broker.observability.request_id import RequestId

#: Numbers of nodes, from 0 in the order of the cloud's nodes.
NodeNumber = Annotated[int, Field(ge=0, lt=100_000)]

Nodes = Annotated[tuple[NodeNumber, ...], Field(min_length=1, max_length=100_000)]

# -- what the broker tells an owner --------------------------------------------------------------------------


class _Command(Message):
    """``id``: handling the same id twice gives the same answer. ``reply_to``: name of the asker's reply
    stream."""

    version: int = VERSION
    id: Annotated[str, StringConstraints(min_length=1, max_length=400)]
    reply_to: Annotated[str, StringConstraints(max_length=200)] | None = None
    at_s: Seconds | None = None  # trace time; None in wall time
    trace: RequestId | None = since(3)  # of the API call behind it and those that come with it, for logs


class Ask(_Command, SpotNeeds):
    """Quote only; no side effects. ``other_sizes``: tell what would be promised of the other sizes too."""

    kind: Literal["quote"] = "quote"
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None
    other_sizes: bool = False


class Reserve(_Command, SpotNeeds):
    """Admit and hold until confirmed, released, or the reservation expires. ``attempt`` becomes the
    lease's id."""

    kind: Literal["reserve"] = "reserve"
    attempt: Id
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None


class Confirm(_Command):
    """The broker decided for this attempt: the lease runs."""

    kind: Literal["confirm"] = "confirm"
    attempt: Id


class Release(_Command):
    """The broker decided against this attempt. Leaves a tombstone if it overtakes the reservation."""

    kind: Literal["release"] = "release"
    attempt: Id


class Cancel(_Command):
    """The lease's holder ends it."""

    kind: Literal["cancel"] = "cancel"
    lease: Id
    by: str


class Extend(_Command):
    """The lease's holder wants a later end. ``extension`` names the wish: the same one, the same answer.
    ``sla`` None: the lease's own."""

    kind: Literal["extend"] = "extend"
    lease: Id
    extension: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    until_s: Seconds
    sla: Probability | None = None


class Acknowledge(_Command):
    """The holder of a lease that was given notice is done with it: it need not last until then."""

    kind: Literal["acknowledge"] = "acknowledge"
    lease: Id
    by: str


class Gone(_Command):
    """The instance of a lease is not there any more: the cloud took it back (``evicted``), or could not run
    it (``failed``). ``why``: in the cloud's words."""

    kind: Literal["gone"] = "gone"
    lease: Id
    how: Literal["evicted", "failed"]
    by: str
    why: Annotated[str, StringConstraints(max_length=500)]


class Migrate(_Command):
    """What other clouds would promise instead of a lease that is not renewed, best first."""

    kind: Literal["migrate"] = "migrate"
    lease: Id
    offers: tuple[QuoteView, ...]


class StartOnDemand(_Command, Needs):
    """A request of the cloud's own users. ``origin``: of another member, to whom the cloud sells."""

    kind: Literal["start_on_demand"] = "start_on_demand"
    instance: Id
    cores: Cores
    lifetime_s: LivingSeconds | None
    origin: CloudId | None = since(3)


class StartAll(_Command):
    """Requests of the cloud's own users, each with an id: all of them are placed, or none is."""

    kind: Literal["start_all"] = "start_all"
    requests: tuple[OnDemandRequest, ...]
    origin: CloudId | None = since(3)


class StopOnDemand(_Command):
    """A user of the cloud stops an on-demand instance. ``origin``: it must be of this one; None: whosever."""

    kind: Literal["stop_on_demand"] = "stop_on_demand"
    instance: Id
    origin: CloudId | None = since(3)


class Show(_Command):
    """How does an on-demand instance stand? No side effects. ``origin``: as when it is stopped."""

    kind: Literal["show"] = "show"
    instance: Id
    origin: CloudId | None = since(3)


class Drain(_Command):
    """Close nodes (None: all) for new instances and make their spot instances leave. ``dry_run``: only tell
    what would happen."""

    kind: Literal["drain"] = "drain"
    nodes: Nodes | None
    by: str
    dry_run: bool = False


class Reopen(_Command):
    """Nodes (None: all) take new instances again. Notices that were given stand."""

    kind: Literal["reopen"] = "reopen"
    nodes: Nodes | None
    by: str


class Overflow(_Command):
    """What became of an on-demand request that this cloud had to offer to the federation."""

    kind: Literal["overflow"] = "overflow"
    instance: Id
    outcome: Literal["placed", "refused", "evicted", "completed"]
    attempt: int | None = None  # which offer is meant; None: the latest
    lease: Id | None = None
    cloud: CloudId | None = None


class Tick(_Command):
    """The owner's own heartbeat, sent through its inbox: only who reads its inbox is alive."""

    kind: Literal["tick"] = "tick"


class Finish(_Command):
    """Trace time: let everything happen until the last instance has ended; then answer Done."""

    kind: Literal["finish"] = "finish"


_OfLease = Ask | Reserve | Confirm | Release | Cancel | Extend | Acknowledge | Gone | Migrate

_OfCloud = StartOnDemand | StartAll | StopOnDemand | Show | Drain | Reopen | Overflow | Tick | Finish

Command = Annotated[_OfLease | _OfCloud, Field(discriminator="kind")]

commands: TypeAdapter[list[Command]] = TypeAdapter(list[Command])  # an inbox entry carries a list
