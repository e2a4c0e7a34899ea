"""The driver of clouds that speak OpenStack's API: Keystone v3 and Nova v2.1.

It is tested against a server that answers as the published API reference says, and against a real Nova.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from libcloud.common.exceptions import BaseHTTPError
from libcloud.common.openstack_identity import OpenStackIdentityEndpointType
from libcloud.compute.drivers.openstack import OpenStack_1_1_Connection
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic import field_validator as checked

from broker.contract import OverflowTerms
from broker.contract.launch import Launch, Word
from broker.doctor.check import CheckResult, failure, ok
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import InputError
from cloudsim.model.flavours import CloudFlavour
from workers.cloud_agent.drivers.base import (
    DISK,
    GPUS,
    MEMORY,
    CloudHost,
    CloudInstance,
    DesiredInstance,
    Duration,
    HttpOptions,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
    guard_check,
    judge_clock,
    make_flavour,
    own_words,
)
from workers.cloud_agent.http_calls import HttpCalls, connection_class, one_line
from workers.cloud_agent.tags import MOST_VALUE, InstanceTags

#: Servers that one answer lists at most; Nova's own limit is often a thousand.
PAGE = 500

MOST_PAGES = 1000

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _BAD, _CONFLICT = 401, 403, 404, 400, 409

_INTERFACES = {
    "public": OpenStackIdentityEndpointType.EXTERNAL,
    "internal": OpenStackIdentityEndpointType.INTERNAL,
    "admin": OpenStackIdentityEndpointType.ADMIN,
}

#: From Pike on, a server tells its flavor's cores and name, even where the flavor is deleted.
_VERSION = {"X-OpenStack-Nova-API-Version": "2.47"}

#: From Rocky on, a flavor tells its extra specs.
_FLAVOR_VERSION = {"X-OpenStack-Nova-API-Version": "2.61"}

#: An extra spec that is an amount of a resource class, as ``resources:VGPU``, also of a numbered group.
_AMOUNT = re.compile(r"resources\w*:(?P<name>\w+)")

#: Servers that are asked for at once, after a listing.
_AT_ONCE = 8

#: Quotas: the name of the limit, that of its use, and the word for it.
_QUOTAS = (
    ("Instances", "totalInstancesUsed", "servers"),
    ("Cores", "totalCoresUsed", "cores"),
    ("RAMSize", "totalRAMUsed", "MB of memory"),
)

#: From 2.53 on, a hypervisor goes by the id that Placement has for it.
_HYPERVISOR_VERSION = {"X-OpenStack-Nova-API-Version": "2.53"}
_USER_DATA = "OS-EXT-SRV-ATTR:user_data"

#: Begins what is appended to the description of a failed server.
_TOLD = "[spotfed] "

_PCI_ALIAS = "pci_passthrough:alias"

#: Placement's standard classes of resources.
_CORES, _CLASSES = "VCPU", {"MEMORY_MB": MEMORY, "DISK_GB": DISK, "VGPU": GPUS, "PGPU": GPUS}
#: What an instance must be on, if it names an availability zone, and the label of the zone's nodes.
ZONE = "availability_zone"

_NO_ROOM = ("No valid host", "Exhausted all hosts", "Insufficient compute resources")

_ENDED = ("DELETED", "SHELVED_OFFLOADED")

_ENDING = ("SOFT_DELETED",)

#: Servers that keep their cores until they are deleted, although nothing of the lease runs on them.
_STOPPED = ("ERROR", "SHUTOFF", "SUSPENDED", "PAUSED", "SHELVED")


class OverflowOptions(BaseModel):
    """The table ``[cloud.instances.overflow]``: what failed requests of own users are at other clouds.

    images: the names or ids of own images, and the words for them in launches; requests of other images are
    not offered. lifetime_s: how long they run there; None offers only requests that say so. resources: the
    amounts of flavors that other clouds must have; None for all.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, populate_by_name=True
    )

    images: dict[Word, Word] = Field(min_length=1)
    lifetime_s: Annotated[Duration, Field(gt=0)] | None = Field(None, alias="lifetime")
    resources: tuple[Word, ...] | None = Field(None, strict=False)


class OpenStackOptions(HttpOptions):
    """Options of the driver "openstack", for Nova of release Rocky (microversion 2.61) or newer.

    endpoint: Keystone's, like https://cloud.example.org:5000/v3. sizes: names of flavors. networks: their
    ids. region, interface: select Nova's endpoint in Keystone's catalog. project: the name of the project
    that instances of leases belong to. project_domain: the id of its domain. user_domain: the name of the
    user's domain. application_credential: True if user and secret are those of an application credential;
    then no project is named. all_users: list servers of all projects, which takes an administrator's role.
    overflow: how failed requests of own users are offered to other clouds; None: not at all.
    on_demand_project: the project of what is sold on-demand; None for the same one. Nova's filter
    (``deploy/openstack``) knows instances of leases by their project, so with it there must be two.
    """

    export: ClassVar[str] = "`openstack server list --all-projects --long -f json`"
    driver: Literal["openstack"]
    project: Word | None = None
    on_demand_project: Word | None = None
    project_domain: Word = "default"
    user_domain: Word = "Default"
    application_credential: bool = Field(False, validate_default=True)
    region: Word = "RegionOne"
    interface: Literal["public", "internal", "admin"] = "public"
    networks: tuple[Word, ...] = Field((), strict=False)
    all_users: bool = False
    overflow: OverflowOptions | None = None

    @property
    def images(self) -> tuple[str, ...]:
        """The images that the file names, also those of own users that other clouds have."""
        own = () if self.overflow is None else self.overflow.images
        return tuple(dict.fromkeys([*super().images, *own]))

    @property
    def lists_all_users(self) -> bool:
        """True if servers of all projects are listed."""
        return self.all_users

    @checked("overflow")
    @classmethod
    def _sees_requests(cls, overflow: OverflowOptions | None, info: ValidationInfo) -> OverflowOptions | None:
        if overflow is not None and not info.data.get("all_users"):
            raise ValueError("needs all_users = true: only an administrator sees what a request asked for")
        return overflow

    @checked("application_credential")
    @classmethod
    def _in_a_project(cls, application_credential: bool, info: ValidationInfo) -> bool:
        if application_credential and info.data.get("on_demand_project") is not None:
            raise ValueError("an application credential is of one project: leave on_demand_project out")
        if (info.data.get("project") is None) is not application_credential:
            raise ValueError(
                "name a project, or take an application credential, which is of one project already"
            )
        return application_credential


class OpenStackDriver:
    """Starts, lists and ends servers through Nova.

    The lease's id and notice are metadata of a server, which it reads by itself. So is the server's own id,
    written once Nova has given it: a server whose metadata name another one is a copy, and foreign.

    Nova has no idempotent requests. So a start looks first, and when several starts have made servers at
    once, each deletes all but the eldest. A server that a lost request makes later than that stays beside the
    other one; both end with their lease.

    A server without room is made and then fails; the next start deletes it and raises NoRoomError. Free cores
    are what the project's quota leaves.
    """

    def __init__(self, options: OpenStackOptions, cloud: str, user: str, secret: str):
        self._options, self.rules = options, options.rules
        self._tags = InstanceTags(options.prefix, cloud)
        self._calls, self._placement = (
            HttpCalls(partial(_connection, options, user, secret, service), _explain_error, options.timeout_s)
            for service in ("compute", "placement")
        )
        # Of what was listed last: the faults of servers that failed, and the servers of leases.
        self._faults: dict[str, Mapping[str, Any]] = {}
        self._servers: dict[str, str] = {}
        self._sold: OpenStackDriver | None = None  # of what is sold on-demand, in a project of its own
        if options.on_demand_project is not None:
            changes = {"project": options.on_demand_project, "on_demand_project": None, "all_users": False}
            self._sold = OpenStackDriver(options.model_copy(update=changes), cloud, user, secret)

    def list_instances(self) -> list[CloudInstance]:
        """Return all servers of the project, or of all projects. Nova does not list deleted ones."""
        all_accounts = {"all_tenants": "1"} if self._options.all_users else {}
        servers = list(self._list_pages("/servers/detail", "servers", all_accounts))
        eldest: dict[str, dict[str, Any]] = {}
        for server in sorted(servers, key=_age):
            lease = self._lease(server)
            if lease is not None:
                eldest.setdefault(lease, server)
        failed = [server for server in servers if _has_failed(server)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:  # own users wait for what comes of this
            faults = dict(
                zip((str(server["id"]) for server in failed), pool.map(self._fault, failed), strict=True)
            )
            list(pool.map(self._mark, eldest.values()))  # some still built when they were started
        self._faults = {name: fault for name, fault in faults.items() if fault}
        self._servers = {lease: str(server["id"]) for lease, server in eldest.items()}
        instances = [self._instance(server, faults.get(server["id"], {})) for server in servers]
        if self._sold is None:
            return instances
        sold = {instance.id: instance for instance in self._sold.list_instances()}
        return [*(instance for instance in instances if instance.id not in sold), *sold.values()]

    def list_flavours(self) -> list[CloudFlavour]:
        """Return Nova's flavors with memory, disk, graphics processors and extra specs.

        Amounts among the extra specs (``resources:...``, aliases of PCI devices) are resources, all others
        are labels by the last part of their name.
        """
        return self._options.offer(flavour for _, flavour in self._flavors())

    def start(self, desired: DesiredInstance) -> None:
        """Ask for a server of the lease.

        If there is one that failed before it ran, delete it and raise its fault.
        """
        if self._sold is not None and not desired.is_preemptible:
            self._sold.start(desired)
            return
        tags = self._tags.make_tags(desired)
        servers = self._instances_of(desired.lease)
        failed = [server for server in servers if _has_failed(server)]
        if failed:
            fault = self._fault(failed[0])
            for server in failed:
                self._delete(server["id"])
            raise _failure(fault)
        if not servers:
            ids = {flavour: str(flavor["id"]) for flavor, flavour in self._flavors()}
            flavour = self._options.pick(self._options.offer(ids), desired)
            flavor_id = next(id_ for known, id_ in ids.items() if known.name == flavour.name)
            server = self._server(desired, flavor_id, tags)
            if desired.launch.key is not None:
                self._put_key(server["key_name"], desired.launch.key)
            self._call("POST", "/servers", {"server": server})
            servers = self._instances_of(desired.lease)
        by_age = sorted(servers, key=_age)
        for server in by_age[:1]:
            self._mark(server)
        for server in by_age[1:]:
            self._delete(server["id"])

    def _mark(self, server: Mapping[str, Any]) -> None:
        """Write a server's own id into its metadata, which Nova takes once it runs."""
        if self._tags.read_id(server["metadata"]) is None and server["status"] == "ACTIVE":
            with suppress(RefusedError):  # it is gone, or in another project
                body = {"metadata": self._tags.make_id(str(server["id"]))}
                self._call("POST", f"/servers/{server['id']}/metadata", body)

    def give_notice(self, lease: str, leaves_at: float) -> bool:
        """Write the time to leave into the server's metadata; False if there is no server."""
        is_noticed = False
        for server in self._instances_of(lease):
            with suppress(_NotThereError):
                body = {"metadata": self._tags.make_notice(leaves_at)}
                self._call("POST", f"/servers/{server['id']}/metadata", body)
                is_noticed = True
        return is_noticed

    def end(self, lease: str) -> None:
        """Delete the lease's server, at once if it was listed, and look whether there is another one."""
        known = self._servers.pop(lease, None)
        if known is not None:
            self._delete(known)
        if self._sold is not None:
            self._sold.end(lease)
        for server in self._instances_of(lease):
            if server["id"] != known and server.get("OS-EXT-STS:task_state") != "deleting":
                self._delete(server["id"])
        if self._options.allow.keys:
            # There may be none, or it may not be deleted: the lease has ended anyway.
            with suppress(RefusedError):
                self._call("DELETE", f"/os-keypairs/{self._tags.make_token(lease)}")

    def read_overflow(self, own_id: str) -> OverflowTerms | None:
        """Return what a failed server asks of other clouds; None if its user does not want it there.

        Its metadata may say for how long it runs elsewhere (``<prefix>:overflow = 6h``), or ``no``.
        """
        options = self._options.overflow
        assert options is not None
        server = self._call("GET", f"/servers/{own_id}")["server"]
        lifetime_s = self._overflow_lifetime_s(server["metadata"], options)
        if lifetime_s is None:
            return None
        words = {self._image_id(image): word for image, word in options.images.items()}
        image = server["image"]["id"] if server["image"] else "a volume"
        if image not in words:
            raise RefusedError(f"instances.overflow.images has no word for {image}")
        if _USER_DATA not in server:
            raise RefusedError("Nova does not show its user data: the user needs an administrator's role")
        flavor = server["flavor"]
        described = {**flavor, "name": flavor["original_name"]}
        described["OS-FLV-EXT-DATA:ephemeral"] = flavor.get("ephemeral", 0)
        amounts = dict(_flavour(described).amounts)
        try:
            return OverflowTerms(
                lifetime_s=lifetime_s,
                resources={
                    name: amount
                    for name, amount in amounts.items()
                    if options.resources is None or name in options.resources
                },
                launch=Launch(
                    image=words[image], key=self._public_key(server), user_data=_read_user_data(server)
                ),
            )
        except ValidationError as error:
            why = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise RefusedError(f"other clouds do not take what it asks for: {why}") from None

    def _overflow_lifetime_s(self, tags: Mapping[str, str], options: OverflowOptions) -> float | None:
        own = self._tags.read_overflow(tags)
        if own is None:
            return options.lifetime_s
        if own == "no":
            return None
        try:
            return parse_duration_s(own, field=self._tags.overflow_key)
        except InputError as error:
            raise RefusedError(f"its metadata: {error}") from error

    def _public_key(self, server: Mapping[str, Any]) -> str | None:
        """Return the public key of a server's user, None if it has none."""
        name = server.get("key_name")
        if name is None:
            return None
        answer = self._call("GET", f"/os-keypairs/{name}", parameters={"user_id": str(server["user_id"])})
        return str(answer["keypair"]["public_key"])

    def tell_user(self, own_id: str, text: str) -> None:
        """Append a text to a server's description. Nova takes no metadata or tags of a failed server."""
        with suppress(_NotThereError):
            server = self._call("GET", f"/servers/{own_id}")["server"]
            own = str(server.get("description") or "").partition(_TOLD)[0].rstrip()
            told = f"{own[: MOST_VALUE - len(_TOLD) - len(text) - 1]} {_TOLD}{text}".strip()
            self._call("PUT", f"/servers/{own_id}", {"server": {"description": told}})

    def check(self) -> Iterator[CheckResult]:
        """Yield the results for clock, images, networks, security groups, key pair and quota.

        Nova asks Glance and Neutron itself, in versions of its API before 2.36.
        """
        options = self._options
        yield judge_clock(self._calls.call(lambda connection: connection.request("/limits").headers))
        for image in options.images:
            yield from guard_check("image", self._check_image(image))
        yield from guard_check("network", self._check_networks())
        if self._sold is not None:
            yield from guard_check("network", self._sold._check_networks())
        if options.key_name is not None:
            yield from guard_check("key", self._check_key(options.key_name))
        yield from guard_check("quota", self._check_quota())

    def _check_image(self, image: str) -> Iterator[CheckResult]:
        status = str(self._old(f"/images/{self._image_id(image)}", "image")["status"])
        if status == "ACTIVE":
            yield ok(f"{image} is active", name="image")
        else:
            yield failure(
                f"{image} is {status.lower()}", "upload it again, or name another one", name="image"
            )

    def _check_networks(self) -> Iterator[CheckResult]:
        options = self._options
        networks = {str(network["id"]) for network in self._old("/os-networks", "networks")}
        missing = {*options.networks, *filter(None, options.allow.networks.values())} - networks
        if missing:
            found = f"the project sees no network {', '.join(sorted(missing))}"
            yield failure(found, "name networks by their ids", name="network")
        elif len(networks) > 1 and not options.networks:
            advice = "name one in networks: Nova does not choose among several"
            yield failure(f"the project sees {len(networks)} networks", advice, name="network")
        else:
            yield ok(f"the project sees {len(networks)} networks", name="network")
        groups = {str(group["name"]) for group in self._old("/os-security-groups", "security_groups")}
        for group in sorted(set(options.security_groups) - groups):
            yield failure(f"there is no security group {group}", "make it, or leave it out", name="network")

    def _check_key(self, name: str) -> Iterator[CheckResult]:
        self._old(f"/os-keypairs/{name}", "keypair")
        yield ok(f"the key pair {name} is there", name="key")

    def _check_quota(self) -> Iterator[CheckResult]:
        limits = self._call("GET", "/limits")["limits"]["absolute"]
        left = [
            f"{int(limits[f'maxTotal{name}']) - int(limits[used])} of {limits[f'maxTotal{name}']} {word}"
            for name, used, word in _QUOTAS
            if int(limits[f"maxTotal{name}"]) >= 0
        ]
        yield ok(f"it leaves {', '.join(left) or 'all'}", name="quota")

    def _old(self, path: str, name: str) -> Any:
        """Return a part of the answer to a call of an earlier version."""
        return self._call("GET", path, headers={})[name]

    def free_cores(self) -> int | None:
        """Return the cores that the project's quota leaves, None if it has no limit."""
        limits = self._call("GET", "/limits")["limits"]["absolute"]
        most = int(limits["maxTotalCores"])
        return None if most < 0 else max(0, most - int(limits["totalCoresUsed"]))

    def list_hosts(self) -> list[CloudHost]:
        """Return what Placement gives away on hosts that take servers; none without administrator's rights.

        A host goes by the name of its compute service, as servers tell it.
        """
        if not self._options.all_users:
            return []
        listed = self._call("GET", "/os-hypervisors/detail", headers=_HYPERVISOR_VERSION)["hypervisors"]
        return [
            self._host(hypervisor)
            for hypervisor in listed
            if (hypervisor["state"], hypervisor["status"]) == ("up", "enabled")
        ]

    def count_free(self) -> dict[str, int]:
        """Return nothing: Nova tells of each request that found no room."""
        return {}

    def _host(self, hypervisor: Mapping[str, Any]) -> CloudHost:
        path = f"/resource_providers/{hypervisor['id']}/inventories"
        inventories = self._placement.call(lambda connection: connection.request(path).object)["inventories"]
        amounts: Counter[str] = Counter()
        for name, inventory in inventories.items():
            real = int(inventory["total"]) - int(inventory["reserved"])
            amounts[_CLASSES.get(name, name)] += int(real * float(inventory["allocation_ratio"]))
        cores = amounts.pop(_CORES, 0)
        return CloudHost(str(hypervisor["service"]["host"]), cores, tuple(sorted(amounts.items())))

    def _server(self, desired: DesiredInstance, flavor: str, tags: Mapping[str, str]) -> dict[str, Any]:
        options, launch = self._options, desired.launch
        token = self._tags.make_token(desired.lease)
        server: dict[str, Any] = {
            "name": token,
            "imageRef": self._image_id(options.image_of(launch)),
            "flavorRef": flavor,
            "metadata": {**launch.tags, **tags},
        }
        user_data = options.encode_user_data(launch)
        if user_data is not None:
            server["user_data"] = user_data
        if launch.key or options.key_name:
            server["key_name"] = token if launch.key else options.key_name
        if desired.host:
            server["availability_zone"] = f"{options.zone or ''}:{desired.host}"  # no zone: Nova's default
        elif options.zone:
            server["availability_zone"] = options.zone
        if networks := own_words(options.allow.networks, launch.networks) or options.networks:
            server["networks"] = [{"uuid": network} for network in networks]
        if groups := options.security_groups_of(launch):
            server["security_groups"] = [{"name": group} for group in groups]
        return server

    def _image_id(self, image: str) -> str:
        """Return the id of an image, which may be given by its name."""
        with suppress(ValueError):
            return str(UUID(image))
        # Nova knows no images from 2.36 on, and asks Glance before that.
        found = list(self._list_pages("/images", "images", {"name": image}, headers={}))
        if len(found) != 1:
            raise RefusedError(f"the cloud has {len(found)} images called {image!r}")
        return str(found[0]["id"])

    def _put_key(self, name: str, key: str) -> None:
        """Give Nova a holder's public key, unless it has it from an earlier try."""
        with suppress(_KeyExistsError):
            self._call("POST", "/os-keypairs", {"keypair": {"name": name, "public_key": key}})

    def _flavors(self) -> Iterator[tuple[dict[str, Any], CloudFlavour]]:
        """Yield all flavors. An administrator also sees those that are not public."""
        for flavor in self._list_pages(
            "/flavors/detail", "flavors", {"is_public": "None"}, headers=_FLAVOR_VERSION
        ):
            yield flavor, _flavour(flavor)

    def _instances_of(self, lease: str) -> list[dict[str, Any]]:
        """Return the lease's servers. Nova takes the name as a regular expression."""
        named = {"name": f"^{self._tags.make_token(lease)}$"}
        servers = self._list_pages("/servers/detail", "servers", named)
        return [server for server in servers if self._lease(server) == lease]

    def _lease(self, server: Mapping[str, Any]) -> str | None:
        """Return the lease of a server, None if it is foreign."""
        is_copy = self._tags.read_id(server["metadata"]) not in (None, server["id"])
        return None if is_copy else self._tags.read_lease(server["metadata"])

    def _fault(self, server: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return why a server failed, empty if Nova does not tell (yet): a list of servers does not say."""
        known = self._faults.get(server["id"])
        if known is None:
            with suppress(_NotThereError):
                known = self._call("GET", f"/servers/{server['id']}")["server"].get("fault")
        return known or {}

    def _instance(self, server: Mapping[str, Any], fault: Mapping[str, Any]) -> CloudInstance:
        lease = self._lease(server)
        state = _state(server, lease is not None)
        flavor = _flavour(server["flavor"])
        cores = self._options.cores(flavor.name)
        zone = server.get("OS-EXT-AZ:availability_zone")
        why = fault.get("message") or server["status"]
        return CloudInstance(
            id=str(server["id"]),
            lease=lease,
            state=state,
            size=flavor.name,
            cores=flavor.cores if cores is None else cores,
            addresses=tuple(port["addr"] for network in server["addresses"].values() for port in network),
            why=one_line(why) if state in (InstanceState.ENDING, InstanceState.ENDED) else None,
            host=server.get("OS-EXT-SRV-ATTR:host"),
            account=server.get("tenant_id"),
            no_room_at=_no_room_at(fault),
            amounts=flavor.amounts,
            labels=flavor.labels | ({(ZONE, zone)} if zone else set()),
            created_at=datetime.fromisoformat(server["created"]).timestamp(),
        )

    def _delete(self, server_id: str) -> None:
        with suppress(_NotThereError):
            self._call("DELETE", f"/servers/{server_id}")

    def _list_pages(
        self, path: str, name: str, parameters: Mapping[str, str], headers: Mapping[str, str] = _VERSION
    ) -> Iterator[dict[str, Any]]:
        page = {**parameters, "limit": str(PAGE)}
        for _ in range(MOST_PAGES):
            answer = self._call("GET", path, parameters=page, headers=headers)
            entries = answer.get(name)
            if not isinstance(entries, list):
                raise InstanceError(f"the answer to {path} is none of Nova: it has no {name}")
            yield from entries
            if not entries or not any(link["rel"] == "next" for link in answer.get(f"{name}_links", [])):
                return
            page["marker"] = str(entries[-1]["id"])
        raise InstanceError(f"the cloud lists its {name} on more than {MOST_PAGES} pages")

    def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        parameters: Mapping[str, str] | None = None,
        headers: Mapping[str, str] = _VERSION,
    ) -> dict[str, Any]:
        """Call Nova and return its answer, empty if there is none. An expired token is renewed."""

        def use(connection: OpenStack_1_1_Connection) -> dict[str, Any]:
            more = dict(headers) if method in ("GET", "PUT") else {}
            try:
                answer = connection.request(path, dict(parameters or {}), body or "", more, method)
            except BaseHTTPError as error:
                if error.code != _UNAUTHORIZED:
                    raise
                answer = connection.request(path, dict(parameters or {}), body or "", more, method)
            if answer.object is None:
                return {}
            if not isinstance(answer.object, dict):
                raise InstanceError(f"the answer to {method} {path} is none of Nova")
            return answer.object

        return self._calls.call(use)


class _NotThereError(RefusedError):
    """There is no such server (any more)."""


class _KeyExistsError(InstanceError):
    """There is a key pair of that name."""


class _Connection(OpenStack_1_1_Connection):
    """A connection to the endpoint that Keystone's catalog has for a service, whatever its name there."""

    interface, service = "public", "compute"

    def get_endpoint(self) -> str:
        for endpoint in self.service_catalog.get_endpoints(service_type=self.service):
            desired = (self._ex_force_service_region, _INTERFACES[self.interface])
            if (endpoint.region, endpoint.endpoint_type) == desired:
                return str(endpoint.url)
        raise RefusedError(
            f"Keystone's catalog has no {self.interface} endpoint of the service {self.service} "
            f"in {self._ex_force_service_region}"
        )


def _connection(options: OpenStackOptions, user: str, secret: str, service: str) -> OpenStack_1_1_Connection:
    attributes = {
        "conn_class": connection_class(options.ca_file, options.timeout_s),
        "interface": options.interface,
        "service": service,
    }
    method = "3.x_appcred" if options.application_credential else "3.x_password"
    return type("Connection", (_Connection,), attributes)(
        user,
        secret,
        timeout=options.timeout_s,
        ex_force_auth_url=options.endpoint.rstrip("/").removesuffix("/v3"),
        ex_force_auth_version=method,
        ex_tenant_name=options.project,
        ex_tenant_domain_id=options.project_domain,
        ex_domain_name=options.user_domain,
        ex_force_service_region=options.region,
    )


def _flavour(flavor: Mapping[str, Any]) -> CloudFlavour:
    """Return a flavor as Nova lists it, or as it describes that of a server."""
    amounts = Counter({MEMORY: int(flavor["ram"]), DISK: int(flavor["disk"])})
    amounts[DISK] += int(flavor.get("OS-FLV-EXT-DATA:ephemeral") or flavor.get("ephemeral") or 0)
    labels: set[tuple[str, str]] = set()
    for key, value in (flavor.get("extra_specs") or {}).items():
        if resource := _AMOUNT.fullmatch(key):
            amounts[_CLASSES.get(resource["name"], resource["name"])] += int(value)
        elif key == _PCI_ALIAS:
            for alias in value.split(","):
                name, _, count = alias.strip().partition(":")
                amounts[GPUS if "gpu" in name.lower() else name] += int(count or 1)
        else:
            labels.add((key.rpartition(":")[2], str(value)))
    name = str(flavor.get("original_name") or flavor["name"])
    return make_flavour(name, int(flavor["vcpus"]), amounts, labels)


def _state(server: Mapping[str, Any], of_a_lease: bool) -> InstanceState:
    """Return a server's state. A foreign server counts as running as long as it takes cores."""
    status = server["status"]
    if status in _ENDED or _has_failed(server):
        return InstanceState.ENDED
    if status in _ENDING or server.get("OS-EXT-STS:task_state") == "deleting":
        return InstanceState.ENDING
    if of_a_lease and status in _STOPPED:
        return InstanceState.ENDED
    return InstanceState.STARTING if status == "BUILD" else InstanceState.RUNNING


def _read_user_data(server: Mapping[str, Any]) -> str | None:
    """Return a server's user data, None if it has none."""
    try:
        return base64.b64decode(server[_USER_DATA] or "").decode() or None
    except ValueError as error:
        raise RefusedError("its user data are no text") from error


def _ran(server: Mapping[str, Any]) -> bool:
    return bool(server.get("OS-SRV-USG:launched_at"))


def _age(server: Mapping[str, Any]) -> tuple[str, str]:
    """Return a key that sorts servers, the eldest first."""
    return str(server["created"]), str(server["id"])


def _has_failed(server: Mapping[str, Any]) -> bool:
    """Return True if the server failed before it ran, so that it takes no room."""
    return server["status"] == "ERROR" and not _ran(server)


def _no_room_at(fault: Mapping[str, Any]) -> float | None:
    """Return when Nova found no host, None if the fault is another one."""
    is_room = any(words in fault.get("message", "") for words in _NO_ROOM)
    return datetime.fromisoformat(fault["created"]).timestamp() if is_room else None


def _failure(fault: Mapping[str, Any]) -> InstanceError:
    text = one_line(fault.get("message") or "it failed before it ran, and Nova does not say why")
    return NoRoomError(text) if any(words in text for words in _NO_ROOM) else RefusedError(text)


def _explain_error(error: BaseHTTPError) -> InstanceError:
    text = one_line(error.message)
    if any(words in text for words in _NO_ROOM):
        return NoRoomError(text)
    if error.code == _NOT_FOUND:
        return _NotThereError(text)
    if error.code == _CONFLICT and "Key pair" in text:
        return _KeyExistsError(text)
    if error.code in (_BAD, _UNAUTHORIZED, _FORBIDDEN):
        return RefusedError(text)
    return InstanceError(text)
