"""What the calls share: who calls, what this process is made of, and how an answer is sent."""

from __future__ import annotations

from typing import Annotated, NamedTuple
from uuid import uuid4

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from starlette.responses import Response

from broker.api import parsing, problems
from broker.api.container import ApiServices
from broker.api.middleware import note
from broker.contract import Lease
from broker.identity.permissions import LEAST, AccessDecision, Action, Principal, ProtectedObject, authorize
from broker.requests.models import AcceptOutcome

JSON = "application/json"


def broker_of(request: Request) -> ApiServices:
    """What this process is made of."""
    broker = request.app.state.broker
    assert isinstance(broker, ApiServices)
    return broker


async def caller(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))],
) -> Principal:
    """Who holds the API key that the call carries. Raises ProblemError (401, 429)."""
    broker = broker_of(request)
    who = await broker.authenticator.principal(request.headers.get("authorization"))
    note(principal=who.name)
    await broker.rates.count(who)
    return who


Caller = Annotated[Principal, Depends(caller)]


def require(
    who: Principal, action: Action, thing: ProtectedObject | None = None, what: str = "thing"
) -> None:
    """Raises ProblemError: 404 (there is no such ``what``) for another's, 403 where the role is too small."""
    match authorize(who, action, thing):
        case AccessDecision.HIDDEN:
            raise problems.not_found(what)
        case AccessDecision.TOO_SMALL:
            raise problems.forbidden(LEAST[action])


class PermittedLease(NamedTuple):
    """A lease, and who may do with it what the route is about."""

    who: Principal
    lease: Lease


class PermissionDependency:
    """What every route passes, once; it declares what the route does."""

    def __init__(self, action: Action):
        self.action = action


class RequirePermission(PermissionDependency):
    """Whether the caller may do this at all."""

    async def __call__(self, who: Caller) -> Principal:
        """Who calls. Raises ProblemError (401, 403, 429)."""
        require(who, self.action)
        return who


class OnDemandCaller(NamedTuple):
    """Who wants something with on-demand instances of a cloud. ``origin``: of which theirs are; None: of any.
    ``guest``: they are no users of the cloud."""

    who: Principal
    origin: str | None
    guest: bool = False


class RequireOnDemandPermission(PermissionDependency):
    """Whether the caller may do this with on-demand instances of the cloud in the path: with those of its own
    users for these, with those that it started there itself for everybody else. ``buys``: to start some,
    where the cloud sells them.
    """

    def __init__(self, action: Action, *, buys: bool = False):
        super().__init__(action)
        self.buys = buys

    async def __call__(self, request: Request, who: Caller) -> OnDemandCaller:
        """Who calls. Raises ProblemError (401, 403, 404, 429)."""
        cloud = request.path_params["cloud"]
        if who.origins is None:
            return OnDemandCaller(who, None)
        if cloud not in who.clouds and await self._lets_in(request, who, cloud):
            require(who, self.action)
            return OnDemandCaller(who, who.member, guest=True)
        require(who, self.action, ProtectedObject(cloud=cloud), "cloud")
        return OnDemandCaller(who, cloud)

    async def _lets_in(self, request: Request, who: Principal, cloud: str) -> bool:
        if not self.buys:
            return parsing.is_of_guest(request.path_params["instance"], who)
        member = await broker_of(request).adverts.member(cloud)
        return member is not None and member.info.sells_on_demand


class RequireLeasePermission(PermissionDependency):
    """Whether the caller may do this with the lease in the path."""

    async def __call__(self, request: Request, who: Caller) -> PermittedLease:
        """Who calls, and the lease. Raises ProblemError (401, 403, 404, 429)."""
        found = await broker_of(request).desk.lease(request.path_params["lease_id"])
        if found is None:
            raise problems.not_found("lease")
        require(who, self.action, ProtectedObject(origin=found.origin), "lease")
        return PermittedLease(who, found)


def origins_of(who: Principal, origin: str | None) -> frozenset[str] | None:
    """Whose objects a list shows, with or without a filter; None: everybody's."""
    if origin is None:
        return who.origins
    asked = frozenset({origin})
    return asked if who.origins is None else asked & who.origins


Looker = Annotated[Principal, Depends(RequirePermission(Action.LOOK))]
Reader = Annotated[Principal, Depends(RequirePermission(Action.READ))]
Asker = Annotated[Principal, Depends(RequirePermission(Action.QUOTE))]
Submitter = Annotated[Principal, Depends(RequirePermission(Action.SUBMIT))]
Changer = Annotated[Principal, Depends(RequirePermission(Action.CHANGE))]
Runner = Annotated[Principal, Depends(RequirePermission(Action.RUN))]
Operator = Annotated[Principal, Depends(RequirePermission(Action.OPERATE))]
Administrator = Annotated[Principal, Depends(RequirePermission(Action.ADMINISTER))]
OnDemandReader = Annotated[OnDemandCaller, Depends(RequireOnDemandPermission(Action.READ))]
OnDemandUser = Annotated[OnDemandCaller, Depends(RequireOnDemandPermission(Action.SERVE))]
OnDemandBuyer = Annotated[OnDemandCaller, Depends(RequireOnDemandPermission(Action.SERVE, buys=True))]
ReadLease = Annotated[PermittedLease, Depends(RequireLeasePermission(Action.READ))]
OwnLease = Annotated[PermittedLease, Depends(RequireLeasePermission(Action.CHANGE))]


def answer(model: BaseModel, status: int = 200) -> Response:
    """A message as JSON."""
    return Response(model.model_dump_json(), status, media_type=JSON)


async def begin_call(broker: ApiServices, principal: str, key: str, body: bytes) -> None:
    """Notes what the key stands for. What came of the call is in the records of its items."""
    accepted = await broker.records.accept_call(
        principal, key, parsing.fingerprint(body), broker.call_takeover_ms, uuid4().hex
    )
    if accepted.outcome is AcceptOutcome.MISMATCH:
        raise problems.key_reused()
    if accepted.outcome is AcceptOutcome.IN_FLIGHT:
        raise problems.in_flight()
