"""FastAPI dependencies that routes share: the services, the caller, and what the caller may do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response

from broker.api import attribution, problems
from broker.api.call_limits import OpenCall
from broker.api.container import ApiServices
from broker.api.middleware import add_log_fields
from broker.api.openapi import problem_responses
from broker.contract import Lease
from broker.identity.permissions import LEAST, AccessDecision, Action, Principal, ProtectedObject, authorize
from broker.requests.routing import Member

JSON = "application/json"

#: Parameters of queries that may be given several times.
_REPEATABLE = frozenset({"node"})


async def api_services(request: Request) -> ApiServices:
    """Return the services of this process."""
    return _services_of(request)


def _services_of(request: Request) -> ApiServices:
    services = request.app.state.services
    assert isinstance(services, ApiServices)
    return services


Services = Annotated[ApiServices, Depends(api_services)]


async def authenticate(request: Request) -> None:
    """Find the principal that the call's API key stands for, and count the call until its answer was sent.

    Raises ProblemError (401, 429).
    """
    services = _services_of(request)
    who = await services.authenticator.principal(request.headers.get("authorization"))
    add_log_fields(principal=who.name)
    await services.rate_limit.count(who)
    request.state.principal, request.state.open_call = who, services.call_limits.open_call(who.holder)


def open_call(request: Request) -> OpenCall:
    """Return the count of a call that was authenticated."""
    call = request.state.open_call
    assert isinstance(call, OpenCall)
    return call


async def caller(request: Request) -> Principal:
    """Return the principal of a call that was authenticated."""
    who = request.state.principal
    assert isinstance(who, Principal)
    return who


Caller = Annotated[Principal, Depends(caller)]


async def begin_v1_call(request: Request) -> None:
    """Authenticate a call, and refuse a query that names a parameter of one value twice.

    Which of the values counts would be a guess. All this is one dependency: FastAPI takes longer to find out
    what a call depends on than this takes. Raises ProblemError (401, 429), RequestValidationError (422).
    """
    await authenticate(request)
    if not request.scope["query_string"]:
        return
    counts = Counter(name for name, _ in request.query_params.multi_items())
    repeated = [name for name, count in counts.items() if count > 1 and name not in _REPEATABLE]
    if repeated:
        raise RequestValidationError(
            [
                {"type": "repeated", "loc": ("query", name), "msg": "is given more than once"}
                for name in repeated
            ]
        )


def v1_router(
    prefix: str = "", *, tags: list[str | Enum] | None = None, route_class: type[APIRoute] = APIRoute
) -> APIRouter:
    """Return a router for paths under ``/v1`` and ``prefix``, all of which need an API key."""
    return APIRouter(
        route_class=route_class,
        prefix=f"/v1{prefix}",
        tags=tags,
        dependencies=[Depends(begin_v1_call)],
        responses=problem_responses(401, 403, 429, 503, 507),
    )


def require(
    who: Principal, action: Action, thing: ProtectedObject | None = None, kind: str = "thing"
) -> None:
    """Raise ProblemError unless ``who`` may perform ``action``; ``kind`` names the thing, such as "lease".

    The problem is 404 for another member's thing, and 403 for a role that is too small.
    """
    match authorize(who, action, thing):
        case AccessDecision.HIDDEN:
            raise problems.not_found(kind)
        case AccessDecision.TOO_SMALL:
            raise problems.forbidden(LEAST[action])


class PermissionDependency:
    """Base of the dependencies that check permissions; every route passes exactly one of them.

    action: what the route does, as far as permissions distinguish it.
    """

    def __init__(self, action: Action):
        self.action = action


class RequirePermission(PermissionDependency):
    """Checks that the caller may perform the action at all.

    Raises ProblemError (401, 403, 429).
    """

    async def __call__(self, request: Request) -> Principal:
        """Return the caller."""
        who = await caller(request)
        require(who, self.action)
        return who


class DirectRoute(APIRoute):
    """A route whose dependencies are called without FastAPI, which takes longer to find them than they take.

    Its function is called with the request, the services of this process, and the caller that its one
    ``RequirePermission`` returns; it reads everything else from the request.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a call."""
        endpoint, dependencies = self.endpoint, self.dependant.dependencies
        (permission,) = (found.call for found in dependencies if isinstance(found.call, RequirePermission))

        async def answer(request: Request) -> Response:
            await begin_v1_call(request)
            response: Response = await endpoint(request, _services_of(request), await permission(request))
            return response

        return answer


class OnDemandCaller(NamedTuple):
    """A caller and the on-demand instances of a cloud that it may see.

    origin: the origin of these instances; None: any. guest: the caller is no own user of the cloud.
    """

    who: Principal
    origin: str | None
    guest: bool = False


class RequireOnDemandPermission(PermissionDependency):
    """Checks that the caller may perform the action with on-demand instances of the cloud in the path.

    Own users of the cloud may with those of all own users, other members with those that they started there
    themselves. ``buys``: the route starts instances, which other members may where the cloud sells them.

    Raises ProblemError (401, 403, 404, 429).
    """

    def __init__(self, action: Action, *, buys: bool = False):
        super().__init__(action)
        self.buys = buys

    async def __call__(self, request: Request, services: Services, who: Caller) -> OnDemandCaller:
        """Return the caller."""
        cloud = request.path_params["cloud"]
        if who.origins is None:
            return OnDemandCaller(who, None)
        if cloud not in who.clouds and await self._admits_guest(request, services, who, cloud):
            require(who, self.action)
            return OnDemandCaller(who, who.member, guest=True)
        require(who, self.action, ProtectedObject(cloud=cloud), "cloud")
        return OnDemandCaller(who, cloud)

    async def _admits_guest(
        self, request: Request, services: ApiServices, who: Principal, cloud: str
    ) -> bool:
        if not self.buys:
            return attribution.is_guest_instance(request.path_params["instance"], who)
        member = await services.membership.member(cloud)
        return member is not None and member.info.sells_on_demand


class PermittedLease(NamedTuple):
    """A lease, and a caller who may perform the action of the route with it."""

    who: Principal
    lease: Lease


class RequireLeasePermission(PermissionDependency):
    """Checks that the caller may perform the action with the lease in the path.

    Raises ProblemError (401, 403, 404, 429).
    """

    async def __call__(self, request: Request, services: Services, who: Caller) -> PermittedLease:
        """Return the caller and the lease."""
        lease = await services.leases.get(request.path_params["lease_id"])
        if lease is None:
            raise problems.not_found("lease")
        require(who, self.action, ProtectedObject(origin=lease.origin), "lease")
        return PermittedLease(who, lease)


async def member_cloud(request: Request, services: Services) -> Member:
    """Return the member cloud in the path. Raises ProblemError (404)."""
    member = await services.membership.member(request.path_params["cloud"])
    if member is None:
        raise problems.not_found("cloud")
    return member


def visible_origins(who: Principal, origin: str | None) -> frozenset[str] | None:
    """Return the origins that a list shows to ``who``, None for all; ``origin``: the caller's filter."""
    if origin is None:
        return who.origins
    filtered = frozenset({origin})
    return filtered if who.origins is None else filtered & who.origins


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
MemberCloud = Annotated[Member, Depends(member_cloud)]


def json_response(message: BaseModel, status: int = 200, *, location: str | None = None) -> Response:
    """Return a response that holds a message as JSON; ``location``: the path of what was created."""
    headers = None if location is None else {"Location": location}
    return Response(message.model_dump_json(), status, headers, JSON)


async def bind_key(services: ApiServices, principal: str, key: str, body: bytes) -> None:
    """Record the body that an idempotency key stands for, where the item itself makes the call repeatable.

    Raises ProblemError if the key was used with another body (422).
    """
    await services.idempotency.bind(principal, key, attribution.fingerprint(body))
