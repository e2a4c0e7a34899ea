"""Commands: what the broker tells the owner of a cloud, in its inbox."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter

from broker.contract.fields import CloudId, Cores, Id, LivingSeconds, Message, Probability, RequestId, Seconds
from broker.contract.launch import Launch
from broker.contract.replies import QuoteView
from broker.contract.requests import Needs, OnDemandRequest, SpotNeeds
from broker.contract.version import since, written_version

#: The number of a node, from 0 in the order of the cloud's nodes.
NodeNumber = Annotated[int, Field(ge=0, lt=100_000)]

Nodes = Annotated[tuple[NodeNumber, ...], Field(min_length=1, max_length=100_000)]


class _Command(Message):
    """The fields of all commands.

    Attributes
    ----------
    id:
        Identifies the command. An owner that reads the same id twice gives the same answer.
    reply_to:
        The name of the reply stream that the answer goes to; None if nobody waits for it.
    at_s:
        The trace time of the command in seconds; None in wall time.
    trace:
        The id of the API call behind this command, and behind those after it in its inbox entry that name
        none; for logs.
    """

    version: int = written_version()
    id: Annotated[str, StringConstraints(min_length=1, max_length=400)]
    reply_to: Annotated[str, StringConstraints(max_length=200)] | None = None
    at_s: Seconds | None = None
    trace: RequestId | None = since(3)


class Ask(_Command, SpotNeeds):
    """Ask for a quote, without side effects; ``other_sizes`` asks for the other sizes too."""

    kind: Literal["quote"] = "quote"
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None
    other_sizes: bool = False


class Reserve(_Command, SpotNeeds):
    """Admit an instance and hold its room until the attempt is confirmed or released, or lapses.

    ``attempt`` becomes the id of the lease.
    """

    kind: Literal["reserve"] = "reserve"
    attempt: Id
    request: Id
    origin: CloudId
    cores: Cores
    lifetime_s: Seconds | None
    sla: Probability | None


class Confirm(_Command):
    """Start the lease of an attempt: the broker decided for it."""

    kind: Literal["confirm"] = "confirm"
    attempt: Id


class Release(_Command):
    """Give up an attempt: the broker decided against it. It may be read before the reservation."""

    kind: Literal["release"] = "release"
    attempt: Id


class Cancel(_Command):
    """End a lease for its holder."""

    kind: Literal["cancel"] = "cancel"
    lease: Id
    by: str


class Extend(_Command):
    """Promise a lease a later end, ``until_s``.

    ``extension`` identifies the request of the holder: repeated, it gets the same answer. ``sla`` None stands
    for the SLA that the lease has.
    """

    kind: Literal["extend"] = "extend"
    lease: Id
    extension: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    until_s: Seconds
    sla: Probability | None = None


class Acknowledge(_Command):
    """End a lease under notice early: its holder has finished with it."""

    kind: Literal["acknowledge"] = "acknowledge"
    lease: Id
    by: str


class Gone(_Command):
    """Report that the instance of a lease is gone.

    ``how`` says whether the cloud took it back (``evicted``) or could not run it (``failed``), ``why`` is the
    provider's message. With ``in_s`` it still runs: its provider gave notice to take it back within as many
    seconds.
    """

    kind: Literal["gone"] = "gone"
    lease: Id
    how: Literal["evicted", "failed"]
    by: str
    why: Annotated[str, StringConstraints(max_length=500)]
    in_s: Seconds | None = since(4)


class Migrate(_Command):
    """Tell the holder of a lease that is not renewed what other clouds would promise, best first."""

    kind: Literal["migrate"] = "migrate"
    lease: Id
    offers: tuple[QuoteView, ...]


class OverflowTerms(Needs):
    """The needs of an own request that a real cloud could not place, beside its cores, for other clouds."""

    lifetime_s: LivingSeconds
    launch: Launch | None = None


class StartOnDemand(_Command, Needs):
    """Start an on-demand instance for the cloud's own users, or for another member, ``origin``.

    ``overflow`` comes with room that a real cloud frees for a request that failed there: what the federation
    is offered where no room can be freed.
    """

    kind: Literal["start_on_demand"] = "start_on_demand"
    instance: Id
    cores: Cores
    lifetime_s: LivingSeconds | None
    origin: CloudId | None = since(3)
    launch: Launch | None = since(4)
    overflow: OverflowTerms | None = since(4)


class StartAll(_Command):
    """Start several on-demand instances together, each with an id: all of them are placed, or none is."""

    kind: Literal["start_all"] = "start_all"
    requests: tuple[OnDemandRequest, ...]
    origin: CloudId | None = since(3)


class StopOnDemand(_Command):
    """Stop an on-demand instance. It must belong to ``origin`` unless that is None."""

    kind: Literal["stop_on_demand"] = "stop_on_demand"
    instance: Id
    origin: CloudId | None = since(3)


class Show(_Command):
    """Ask for the lease of an on-demand instance, which must belong to ``origin`` unless that is None."""

    kind: Literal["show"] = "show"
    instance: Id
    origin: CloudId | None = since(3)


class ListSold(_Command):
    """Ask for the on-demand instances of other members that run or are booked here."""

    kind: Literal["list_sold"] = "list_sold"


class Drain(_Command):
    """Close nodes (None: all) to new instances and make their spot instances leave.

    With ``dry_run`` the owner only reports what would happen.
    """

    kind: Literal["drain"] = "drain"
    nodes: Nodes | None
    by: str
    dry_run: bool = False


class Reopen(_Command):
    """Open nodes (None: all) to new instances again. Notices that were given stand."""

    kind: Literal["reopen"] = "reopen"
    nodes: Nodes | None
    by: str


class Overflow(_Command):
    """Report what became of an on-demand request that this cloud offered to the federation."""

    kind: Literal["overflow"] = "overflow"
    instance: Id
    outcome: Literal["placed", "refused", "evicted", "completed"]
    attempt: int | None = None  # which offer is meant; None: the latest
    lease: Id | None = None
    cloud: CloudId | None = None


class Tick(_Command):
    """The owner's heartbeat, sent through its own inbox: an owner is alive if it reads that."""

    kind: Literal["tick"] = "tick"


class Finish(_Command):
    """Let everything happen until the last instance has ended, then answer; for trace time only."""

    kind: Literal["finish"] = "finish"


_LeaseCommand = Ask | Reserve | Confirm | Release | Cancel | Extend | Acknowledge | Gone | Migrate

_CloudCommand = (
    StartOnDemand | StartAll | StopOnDemand | Show | ListSold | Drain | Reopen | Overflow | Tick | Finish
)

Command = Annotated[_LeaseCommand | _CloudCommand, Field(discriminator="kind")]

#: Reads and writes the list of commands that an inbox entry carries.
commands: TypeAdapter[list[Command]] = TypeAdapter(list[Command], config=ConfigDict(defer_build=True))
