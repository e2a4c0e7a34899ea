"""Offers the HTTP API as Python calls: `Client(url, api_key)`, its results and its errors.

``client`` holds `Client`, ``resources`` one class for each group of calls, ``transport`` sends and repeats,
``results`` and ``errors`` say what a call comes to.
"""

from broker.client.client import DEADLINE_S, Client
from broker.client.errors import (
    NOT_NOTICED,
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
from broker.client.resources.leases import MOST_LEASES
from broker.client.resources.targets import LifetimeTarget, find_lifetimes
from broker.client.results import GrantedRequest, RefusedRequest

__all__ = [
    "DEADLINE_S",
    "MOST_LEASES",
    "NOT_NOTICED",
    "Client",
    "ClientError",
    "EventsGoneError",
    "GrantedRequest",
    "InputRefusedError",
    "LifetimeTarget",
    "NotFoundError",
    "ProblemAnswer",
    "ProtocolError",
    "RefusedRequest",
    "UnauthorizedError",
    "UnavailableError",
    "UntrustedError",
    "find_lifetimes",
]
