"""The HTTP API as Python calls: `Client(url, api_key)`, its results and its errors."""

from broker.client.client import DEADLINE_S, MOST_LEASES, Client
from broker.client.errors import (
    ClientError,
    EventsGoneError,
    InputRefusedError,
    NotFoundError,
    ProblemAnswer,
    ProtocolError,
    UnauthorizedError,
    UnavailableError,
    UntrustedError,
)
from broker.client.instances import InstanceCalls
from broker.client.jobs import JobCalls
from broker.client.members import IdentityCalls
from broker.client.on_demand import OnDemandCalls
from broker.client.results import (
    IN_FLIGHT,
    NOT_NOTICED,
    REFUSED,
    ClientCalls,
    GrantedRequest,
    RefusedRequest,
    error_of,
    named,
    parse,
    problem_of,
    quoted,
    refused_of,
    why_silent,
)
from broker.client.targets import LifetimeTarget, VolatileCalls, told_products
from broker.client.webhooks import WebhookCalls

__all__ = [
    "DEADLINE_S",
    "IN_FLIGHT",
    "MOST_LEASES",
    "NOT_NOTICED",
    "REFUSED",
    "Client",
    "ClientCalls",
    "ClientError",
    "EventsGoneError",
    "GrantedRequest",
    "IdentityCalls",
    "InputRefusedError",
    "InstanceCalls",
    "JobCalls",
    "LifetimeTarget",
    "NotFoundError",
    "OnDemandCalls",
    "ProblemAnswer",
    "ProtocolError",
    "RefusedRequest",
    "UnauthorizedError",
    "UnavailableError",
    "UntrustedError",
    "VolatileCalls",
    "WebhookCalls",
    "error_of",
    "named",
    "parse",
    "problem_of",
    "quoted",
    "refused_of",
    "told_products",
    "why_silent",
]
