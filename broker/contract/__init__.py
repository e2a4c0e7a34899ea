"""The contract: every message that crosses a process boundary, defined once; immutable, versioned, JSON only.

Users send ``requests``, the broker sends ``commands`` to owners and gets ``replies``, owners publish
``leases``, ``events`` and ``adverts`` and hand ``batches`` to Monte-Carlo workers. ``fields`` are the types
that
they share, ``version`` reads and writes them across versions, ``convert`` turns values of ``cloudsim`` into
them and back.

A field that a later version adds is declared with ``version.since``. Times named ``*_s`` are seconds of the
cloud's own time; timestamps (``at``) are RFC 3339 in UTC.
"""

from broker.contract.adverts import Advert, CloudInfo, DisclosureLevel, NodeKind, Room
from broker.contract.batches import Batch
from broker.contract.commands import (
    Acknowledge,
    Ask,
    Cancel,
    Command,
    Confirm,
    Drain,
    Extend,
    Finish,
    Gone,
    ListSold,
    Migrate,
    NodeNumber,
    Nodes,
    Overflow,
    OverflowTerms,
    Release,
    Reopen,
    Reserve,
    Show,
    StartAll,
    StartOnDemand,
    StopOnDemand,
    Tick,
    commands,
)
from broker.contract.events import Event, EventKind
from broker.contract.fields import (
    LONGEST_S,
    CloudId,
    Cores,
    Id,
    Labels,
    LivingSeconds,
    Message,
    Name,
    PoolNumber,
    Probability,
    Resources,
    Seconds,
)
from broker.contract.launch import Launch
from broker.contract.leases import GANGS_SINCE, Lease, LeaseState
from broker.contract.replies import (
    Answer,
    BrokenPromise,
    CounterOffers,
    Done,
    DrainReport,
    LeaseGranted,
    LeasesGranted,
    Leaving,
    OverflowState,
    QuoteView,
    RefusalView,
    Reply,
    SizeOffer,
    Staying,
    replies,
)
from broker.contract.requests import (
    ExtensionRequest,
    Needs,
    OnDemandRequest,
    OnDemandRequests,
    QuoteRequest,
    SpotNeeds,
    SpotRequest,
    SpotRequests,
)
from broker.contract.version import (
    OLDEST_VERSION,
    current_version,
    field_version,
    read_message,
    since,
    write_message,
    write_messages,
)

#: The version that this code speaks.
VERSION = current_version()
