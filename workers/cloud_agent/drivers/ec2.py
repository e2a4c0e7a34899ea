"""The driver of clouds that speak the EC2 API: AWS, Eucalyptus and others.

It is tested against moto's server, which checks AWS's signatures (version 4) with code of its own. What only
Eucalyptus answers is tested against documents of the form that its own client reads.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from libcloud.common.aws import AWSRequestSignerAlgorithmV4
from libcloud.common.exceptions import BaseHTTPError
from libcloud.compute.drivers.ec2 import BaseEC2NodeDriver, EC2Connection, EC2Response
from pydantic import Field, StringConstraints

from broker.contract.launch import Word
from broker.doctor.check import CheckResult, failure, ok, warning
from cloudsim.model.flavours import CloudFlavour
from workers.cloud_agent.drivers.base import (
    DISK,
    GPUS,
    MEMORY,
    CloudHost,
    CloudInstance,
    DesiredInstance,
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
from workers.cloud_agent.price_history import Price, SpotMarket
from workers.cloud_agent.tags import InstanceTags

#: Instances that one answer lists at most; AWS gives no more than a thousand.
PAGE = 1000

MOST_PAGES = 1000

#: Seconds for which the cloud's answers about its sizes are kept.
SIZES_S = 3600.0

#: The fields of a price, as AWS's command line names them.
_PRICE_FIELDS = ("AvailabilityZone", "InstanceType", "ProductDescription", "SpotPrice", "Timestamp")
#: Seconds from AWS's mark on a spot instance to its end ("Spot Instance interruption notices").
INTERRUPTED_AFTER_S = 120.0


class Dialect(StrEnum):
    """The clouds whose variants of the EC2 API the driver knows."""

    AWS = "aws"
    EUCALYPTUS = "eucalyptus"


_VERSIONS = {Dialect.AWS: "2016-11-15", Dialect.EUCALYPTUS: "2015-10-01"}

_STATES = {
    "pending": InstanceState.STARTING,
    "running": InstanceState.RUNNING,
    "shutting-down": InstanceState.ENDING,
    "stopping": InstanceState.ENDING,
    "stopped": InstanceState.ENDED,
    "terminated": InstanceState.ENDED,
}

#: What Eucalyptus tells of a size: free instances, most instances, cores, and more.
_CAPACITY = re.compile(r"\s*(?P<free>\d+) */ *\d+ +(?P<cores>\d+)\b")

_UNSIGNED = ("User-Agent", "Accept-Encoding")

_GONE = ("terminated", "shutting-down")

_NO_ROOM = ("Insufficient", "NotEnoughResources", "SpotMaxPriceTooLow")

_LATER = ("RequestLimitExceeded", "RequestExpired")

_REFUSED = (
    "AuthFailure", "Blocked", "Invalid", "Malformed", "MaxSpotInstanceCountExceeded", "Missing",
    "OptInRequired", "PendingVerification", "SignatureDoesNotMatch", "Unauthorized", "Unknown", "Unsupported",
    "VPCIdNotSpecified",
)  # fmt: skip


class Ec2Options(HttpOptions):
    """Options of the driver "ec2".

    subnet: its id; security groups are then ids, else names. all_users: list instances of all accounts
    (Eucalyptus, for its administrator). spot: start the cloud's own spot instances (AWS).
    """

    most_networks: ClassVar[int] = 1
    export: ClassVar[str] = "`aws ec2 describe-instances`"
    driver: Literal["ec2"]
    dialect: Dialect = Field(Dialect.AWS, strict=False)
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")] = "us-east-1"
    subnet: Word | None = None
    all_users: bool = False
    spot: bool = False

    @property
    def lists_all_users(self) -> bool:
        """True if instances of all accounts are listed, which AWS does not do: its room is not theirs."""
        return self.all_users or self.dialect is Dialect.AWS


class Ec2Driver:
    """Starts, lists and ends instances through the EC2 API.

    The lease's id is a tag, and the source of a client token that lets no instance start twice. The token
    alone makes an instance a lease's: a user can copy tags, but no two instances have one token. Notice is
    the tag ``<prefix>:leaves-at``, which an instance reads from its own metadata (AWS).
    """

    def __init__(self, options: Ec2Options, cloud: str, user: str, secret: str):
        self._options, self.rules = options, options.rules
        self._tags = InstanceTags(options.prefix, cloud)
        self._path = urlsplit(options.endpoint).path or "/"
        self._calls = HttpCalls(lambda: _libcloud(options, user, secret), _explain_error, options.timeout_s)
        self._sizes: dict[str, int | None] = {}
        self._sizes_until = 0.0
        self._sizes_lock = threading.Lock()
        self._flavours: list[CloudFlavour] | None = None
        self._flavours_until = 0.0
        self._flavours_lock = threading.Lock()

    def list_instances(self) -> list[CloudInstance]:
        """Return all instances, terminated ones as long as the cloud shows them (an hour on AWS)."""
        all_accounts = {"InstanceId.1": "verbose"} if self._options.all_users else {}
        ends_at = self._interruptions() if self._options.spot else {}
        return [self._instance(instance, ends_at) for instance in self._describe(all_accounts)]

    def list_flavours(self) -> list[CloudFlavour]:
        """Return the cloud's instance types with memory, disk, graphics processors and what AWS says of them.

        The cloud is asked once an hour.
        """
        with self._flavours_lock:
            if self._flavours is None or time.monotonic() > self._flavours_until:
                described = self._describe_flavours()
                self._flavours, self._flavours_until = (
                    self._options.offer(described),
                    time.monotonic() + SIZES_S,
                )
            return self._flavours

    def start(self, desired: DesiredInstance) -> None:
        """Ask for an instance of the lease."""
        tags = self._tags.make_tags(desired)
        instances = self._instances_of(desired.lease)
        if not instances:
            size = self._options.pick(self.list_flavours(), desired).name
            if desired.launch.key is not None:
                self._put_key(self._tags.make_token(desired.lease), desired.launch.key)
            try:
                started = self._call("RunInstances", self._start(desired, size, tags))
            except _SameTokenError:
                return
            instances = list(_instances(started)) if self._options.dialect is Dialect.EUCALYPTUS else []
        untagged = [
            _text(instance, "instanceId") for instance in instances if self._lease(instance) != desired.lease
        ]
        if untagged:
            self._tag(untagged, tags)

    def give_notice(self, lease: str, leaves_at: float) -> bool:
        """Tag the lease's instance with the time to leave; False if there is none."""
        ids = [
            _text(instance, "instanceId")
            for instance in self._instances_of(lease)
            if _state(instance) not in _GONE
        ]
        if ids:
            self._tag(ids, self._tags.make_notice(leaves_at))
        return bool(ids)

    def end(self, lease: str) -> None:
        """Terminate the lease's instance."""
        ids = [
            _text(instance, "instanceId")
            for instance in self._instances_of(lease)
            if _state(instance) not in _GONE
        ]
        if ids:
            with suppress(_NoInstanceError):
                self._call("TerminateInstances", _numbered("InstanceId", ids))
        if self._options.allow.keys:
            # There may be none, or it may not be deleted: the lease has ended anyway.
            with suppress(RefusedError):
                self._call("DeleteKeyPair", {"KeyName": self._tags.make_token(lease)})

    def check(self) -> Iterator[CheckResult]:
        """Yield the results for clock and image, and on AWS for starts that only pretend, of each size.

        These need image, size, key pair, subnet, security groups and the right to start.
        """
        yield judge_clock(
            self._calls.call(
                lambda driver: (
                    driver.connection.request(self._path, **self._request("DescribeRegions", {})).headers
                )
            )
        )
        for image in self._options.images:
            yield from guard_check("image", self._check_image(image))
        if self._options.dialect is Dialect.EUCALYPTUS:
            yield from guard_check("capacity", self._check_capacity())
            return
        for cores, size in self._options.sizes.items():
            desired = DesiredInstance(f"check-{cores}.1", cores, "check")
            parameters = self._start(desired, size, self._tags.make_tags(desired)) | {"DryRun": "true"}
            try:
                self._call("RunInstances", parameters)
            except _WouldSucceedError:
                yield ok(f"{size} could be started", name=f"start {size}")
            except InstanceError as error:
                yield failure(
                    f"{size} could not be started: {error}", "see the message", name=f"start {size}"
                )
            else:
                yield failure("the cloud does not know dry runs", "end the instance", name=f"start {size}")
                self.end(desired.lease)

    def _check_image(self, image: str) -> Iterator[CheckResult]:
        found = self._call("DescribeImages", {"ImageId.1": image})
        states = [_text(each, "imageState") for each in found.iterfind("{*}imagesSet/{*}item")]
        if states == ["available"]:
            yield ok(f"{image} is available", name="image")
        else:
            yield failure(f"{image} is {' '.join(states) or 'not there'}", "name another one", name="image")

    def _check_capacity(self) -> Iterator[CheckResult]:
        free = self.count_free()
        if free:
            counts = ", ".join(
                f"{free[size]} {size}" for size in self._options.sizes.values() if size in free
            )
            yield ok(f"the cloud could start {counts or 'none of these sizes'}", name="capacity")
        else:
            advice = "use an administrator's credentials, or count on headroom as the owner books it"
            yield warning("the cloud does not tell its capacity", advice, name="capacity")

    def free_cores(self) -> int | None:
        """Return the free cores for the size that fits best; None if the cloud does not tell, as AWS."""
        return max((count * cores for count, cores in self._capacity().values()), default=None)

    def list_hosts(self) -> list[CloudHost]:
        """Return no host: the EC2 API has none."""
        return []

    def count_free(self) -> dict[str, int]:
        """Return what Eucalyptus tells its administrators of its capacity; nothing for AWS."""
        return {size: count for size, (count, _) in self._capacity().items()}

    def _capacity(self) -> dict[str, tuple[int, int]]:
        """Return by size how many more instances Eucalyptus could start, and their cores.

        Below each zone it lists lines of text, as ``|- m1.small`` with ``0005 / 0006   1    256     5``.
        """
        capacity: dict[str, tuple[int, int]] = {}
        if self._options.dialect is not Dialect.EUCALYPTUS:
            return capacity
        zone = ""
        answer = self._call("DescribeAvailabilityZones", {"ZoneName.1": "verbose"})
        for line in answer.iterfind("{*}availabilityZoneInfo/{*}item"):
            name, state = _text(line, "zoneName"), _text(line, "zoneState")
            if not name.startswith("|-"):
                zone = name
            elif self._options.zone in (None, zone) and (told := _CAPACITY.match(state)):
                size = name.removeprefix("|-").strip()
                count = int(told["free"]) + capacity.get(size, (0, 0))[0]
                capacity[size] = (count, int(told["cores"]))
        return capacity

    def _start(self, desired: DesiredInstance, size: str, tags: Mapping[str, str]) -> dict[str, str]:
        options, launch = self._options, desired.launch
        token = self._tags.make_token(desired.lease)
        subnet = next(iter(own_words(options.allow.networks, launch.networks)), options.subnet)
        parameters = {
            "ImageId": options.image_of(launch),
            "InstanceType": size,
            "MinCount": "1",
            "MaxCount": "1",
            "ClientToken": token,
            "InstanceInitiatedShutdownBehavior": "terminate",
        }
        user_data = options.encode_user_data(launch)
        if user_data is not None:
            parameters["UserData"] = user_data
        if key_name := token if launch.key else options.key_name:
            parameters["KeyName"] = key_name
        if options.zone:
            parameters["Placement.AvailabilityZone"] = options.zone
        if subnet:
            parameters["SubnetId"] = subnet
        groups = options.security_groups_of(launch)
        parameters |= _numbered("SecurityGroupId" if subnet else "SecurityGroup", groups)
        if options.dialect is Dialect.EUCALYPTUS:
            return parameters
        if options.spot and desired.is_preemptible:
            parameters["InstanceMarketOptions.MarketType"] = "spot"
        parameters["MetadataOptions.InstanceMetadataTags"] = "enabled"
        parameters["TagSpecification.1.ResourceType"] = "instance"
        return parameters | _tags("TagSpecification.1.Tag", {"Name": token, **launch.tags, **tags})

    def _put_key(self, name: str, key: str) -> None:
        """Give the cloud a holder's public key, unless it has it from an earlier try."""
        material = base64.b64encode(key.encode()).decode()
        with suppress(_KeyExistsError):
            self._call("ImportKeyPair", {"KeyName": name, "PublicKeyMaterial": material})

    def _instances_of(self, lease: str) -> list[Element]:
        """Return the lease's instances, ended ones included."""
        if self._tags.is_token(lease):
            name, value = "client-token", lease
        elif self._options.dialect is Dialect.EUCALYPTUS:
            name, value = "client-token", self._tags.make_token(lease)
        else:
            name, value = f"tag:{self._tags.lease_key}", lease
        instances = self._describe({"Filter.1.Name": name, "Filter.1.Value.1": value})
        return [instance for instance in instances if self._lease(instance) in (lease, value)]

    def _describe(self, parameters: Mapping[str, str]) -> Iterator[Element]:
        """Yield all instances that match, page by page. Eucalyptus knows no pages."""
        page = {"MaxResults": str(PAGE)} if self._options.dialect is Dialect.AWS else {}
        for reservation in self._pages(
            "DescribeInstances", "{*}reservationSet/{*}item", {**parameters, **page}
        ):
            yield from _instances(reservation)

    def _pages(self, action: str, path: str, parameters: Mapping[str, str]) -> Iterator[Element]:
        """Yield the elements under a path of all pages of an answer."""
        page: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            answer = self._call(action, {**parameters, **page})
            yield from answer.iterfind(path)
            following = answer.findtext("{*}nextToken")
            if not following:
                return
            page["NextToken"] = following
        raise InstanceError(f"the cloud answers {action} on more than {MOST_PAGES} pages")

    def _instance(self, element: Element, ends_at: Mapping[str, float]) -> CloudInstance:
        size = _text(element, "instanceType")
        state = _STATES.get(_state(element), InstanceState.RUNNING)
        addresses = (element.findtext("{*}ipAddress"), element.findtext("{*}privateIpAddress"))
        stopped = state in (InstanceState.ENDING, InstanceState.ENDED)
        return CloudInstance(
            id=_text(element, "instanceId"),
            lease=self._lease(element),
            state=state,
            size=size,
            cores=self._cores(size, element),
            addresses=tuple(dict.fromkeys(address for address in addresses if address)),
            ends_at=ends_at.get(element.findtext("{*}spotInstanceRequestId") or ""),
            why=(element.findtext("{*}stateReason/{*}message") or element.findtext("{*}reason") or None)
            if stopped
            else None,
        )

    def _lease(self, element: Element) -> str | None:
        """Return the lease of an instance, or its token if its tags are missing; None if it is foreign."""
        token = element.findtext("{*}clientToken") or ""
        if not self._tags.is_token(token):
            return None
        tags = {
            _text(tag, "key"): tag.findtext("{*}value") or "" for tag in element.iterfind("{*}tagSet/{*}item")
        }
        lease = self._tags.read_lease(tags)
        return lease if lease is not None and self._tags.make_token(lease) == token else token

    def _cores(self, size: str, element: Element) -> int | None:
        cores = self._options.cores(size)
        if cores is not None:
            return cores
        count, threads = (
            element.findtext(f"{{*}}cpuOptions/{{*}}{name}") for name in ("coreCount", "threadsPerCore")
        )
        if count and threads:
            return int(count) * int(threads)
        with self._sizes_lock:
            if time.monotonic() > self._sizes_until:
                self._sizes, self._sizes_until = {}, time.monotonic() + SIZES_S
            if size not in self._sizes:
                self._sizes[size] = self._ask_cores(size)
            return self._sizes[size]

    def _ask_cores(self, size: str) -> int | None:
        aws = self._options.dialect is Dialect.AWS
        try:
            answer = self._call("DescribeInstanceTypes", {"InstanceType.1": size} if aws else {})
        except RefusedError:
            return None
        if aws:
            count = answer.findtext("{*}instanceTypeSet/{*}item/{*}vCpuInfo/{*}defaultVCpus")
        else:
            sizes = answer.iterfind("{*}instanceTypeDetails/{*}item")
            count = next((_text(entry, "cpu") for entry in sizes if _text(entry, "name") == size), None)
        return int(count) if count else None

    def _describe_flavours(self) -> Iterator[CloudFlavour]:
        if self._options.dialect is Dialect.EUCALYPTUS:
            for size in self._call("DescribeInstanceTypes", {}).iterfind("{*}instanceTypeDetails/{*}item"):
                amounts = {
                    MEMORY: int(size.findtext("{*}memory") or 0),
                    DISK: int(size.findtext("{*}disk") or 0),
                }
                yield make_flavour(_text(size, "name"), int(_text(size, "cpu")), amounts)
            return
        names = [*self._options.sizes.values(), *self._options.allow.sizes]  # AWS takes * and ? as we do
        chosen = {"Filter.1.Name": "instance-type"} | _numbered("Filter.1.Value", names)
        for size in self._pages("DescribeInstanceTypes", "{*}instanceTypeSet/{*}item", chosen):
            amounts = {
                MEMORY: int(_text(size, "memoryInfo/{*}sizeInMiB")),
                DISK: int(size.findtext("{*}instanceStorageInfo/{*}totalSizeInGB") or 0),
                GPUS: sum(int(_text(gpu, "count")) for gpu in size.iterfind("{*}gpuInfo/{*}gpus/{*}item")),
            }
            labels = {
                ("arch", item.text or "")
                for item in size.iterfind("{*}processorInfo/{*}supportedArchitectures/{*}item")
            } | {("gpu", _text(gpu, "name")) for gpu in size.iterfind("{*}gpuInfo/{*}gpus/{*}item")}
            yield make_flavour(
                _text(size, "instanceType"), int(_text(size, "vCpuInfo/{*}defaultVCpus")), amounts, labels
            )

    def read_prices(self, market: SpotMarket, since: datetime) -> list[Price]:
        """Return the prices of a market of AWS since then, and the one that was in force then."""
        parameters = {
            "InstanceType.1": market.instance_type,
            "AvailabilityZone": market.zone,
            "ProductDescription.1": market.product,
            "StartTime": f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "MaxResults": str(PAGE),
        }
        return [
            {name: _text(item, name[0].lower() + name[1:]) for name in _PRICE_FIELDS}
            for item in self._pages("DescribeSpotPriceHistory", "{*}spotPriceHistorySet/{*}item", parameters)
        ]

    def _interruptions(self) -> dict[str, float]:
        """Return when AWS takes back marked spot instances, by the ids of their requests."""
        parameters = {"Filter.1.Name": "status-code", "Filter.1.Value.1": "marked-for-termination"}
        answer = self._call("DescribeSpotInstanceRequests", parameters)
        return {
            _text(request, "spotInstanceRequestId"): datetime.fromisoformat(
                _text(request, "status/{*}updateTime")
            ).timestamp()
            + INTERRUPTED_AFTER_S
            for request in answer.iterfind("{*}spotInstanceRequestSet/{*}item")
            if request.findtext("{*}status/{*}code") == "marked-for-termination"
        }

    def _tag(self, ids: list[str], tags: Mapping[str, str]) -> None:
        try:
            self._call("CreateTags", _numbered("ResourceId", ids) | _tags("Tag", tags))
        except _NoInstanceError as error:  # an instance that was just started is not known everywhere yet
            raise InstanceError(str(error)) from error

    def _call(self, action: str, parameters: Mapping[str, str]) -> Element:
        """Call an action of the API and return the root element of the answer."""
        request = self._request(action, parameters)

        def use(libcloud: BaseEC2NodeDriver) -> Element:
            answer = libcloud.connection.request(self._path, **request).object
            if not isinstance(answer, Element) or answer.tag.rpartition("}")[2] != f"{action}Response":
                raise InstanceError(f"the answer to {action} is none of the EC2 API")
            return answer

        return self._calls.call(use)

    def _request(self, action: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Return what Libcloud sends."""
        body = {"Action": action, "Version": _VERSIONS[self._options.dialect], **parameters}
        kind = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        return {"method": "POST", "data": urlencode(body), "headers": kind}


class _WouldSucceedError(InstanceError):
    """The call was a dry run, and would have succeeded."""


class _SameTokenError(RefusedError):
    """The lease has an instance that was asked for with other parameters, as before a change of the file."""


class _NoInstanceError(RefusedError):
    """There is no instance of that id (any more, or yet)."""


class _KeyExistsError(RefusedError):
    """There is a key pair of that name."""


class _Signer(AWSRequestSignerAlgorithmV4):
    """Signs requests without the headers that proxies change; AWS's own clients leave those out as well."""

    def get_request_headers(
        self, params: Any, headers: dict[str, str], method: str = "GET", path: str = "/", data: Any = None
    ) -> tuple[Any, dict[str, str]]:
        signed = {name: value for name, value in headers.items() if name not in _UNSIGNED}
        params, signed = super().get_request_headers(params, signed, method, path, data)
        return params, {**headers, **signed}


class _Connection(EC2Connection):
    """A connection that signs with version 4 of AWS's signatures."""

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self.signer = _Signer(self.user_id, self.key, self.version, self)


class _Answer(EC2Response):
    """An answer whose errors are found wherever they stand; Libcloud's own class wants a fixed form."""

    def parse_error(self) -> str:
        """Return the error as ``code: message``, or an empty text if the body is not one of the EC2 API."""
        try:
            root = ET.fromstring(self.body)  # noqa: S314 - as Libcloud reads all answers; expat bounds entities
        except ET.ParseError:
            return ""
        code = root.findtext(".//{*}Error/{*}Code")
        return f"{code}: {root.findtext('.//{*}Error/{*}Message')}" if code else ""


_KINDS = {
    "DryRunOperation": _WouldSucceedError,
    "IdempotentParameterMismatch": _SameTokenError,
    "InvalidInstanceID.NotFound": _NoInstanceError,
    "InvalidKeyPair.Duplicate": _KeyExistsError,
}


def _libcloud(options: Ec2Options, user: str, secret: str) -> BaseEC2NodeDriver:
    """Return a Libcloud driver for any region. Libcloud's own classes accept only those of AWS."""
    attributes = {"conn_class": connection_class(options.ca_file, options.timeout_s), "responseCls": _Answer}
    connection = type("Connection", (_Connection,), attributes)
    driver = type(
        "Driver",
        (BaseEC2NodeDriver,),
        {"connectionCls": connection, "region_name": options.region, "signature_version": "4", "name": "EC2"},
    )
    where = urlsplit(options.endpoint)
    secure = where.scheme == "https"
    port = where.port or (443 if secure else 80)
    return driver(user, secret, secure, where.hostname, port, timeout=options.timeout_s)


def _explain_error(error: BaseHTTPError) -> InstanceError:
    code, _, message = str(error.message).partition(":")
    text = f"{code}: {one_line(message)}" if code else f"the cloud answers with HTTP status {error.code}"
    if code.startswith(_NO_ROOM):
        return NoRoomError(text)
    if code in _KINDS:
        return _KINDS[code](text)
    if code.startswith(_LATER):
        return InstanceError(text)
    if code.startswith(_REFUSED) or code.endswith("LimitExceeded") or (not code and error.code in (401, 403)):
        return RefusedError(text)
    return InstanceError(text)


def _instances(reservation: Element) -> Iterator[Element]:
    return reservation.iterfind("{*}instancesSet/{*}item")


def _state(instance: Element) -> str:
    return _text(instance, "instanceState/{*}name")


def _text(element: Element, name: str) -> str:
    """Return the text of a child element.

    Raises
    ------
    InstanceError
        When there is no such child.
    """
    text = element.findtext(f"{{*}}{name}")
    if text is None:
        raise InstanceError(f"the answer is none of the EC2 API: it has no {name}")
    return text


def _numbered(name: str, values: list[str] | tuple[str, ...]) -> dict[str, str]:
    return {f"{name}.{number}": value for number, value in enumerate(values, 1)}


def _tags(name: str, tags: Mapping[str, str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for number, (key, value) in enumerate(tags.items(), 1):
        parameters |= {f"{name}.{number}.Key": key, f"{name}.{number}.Value": value}
    return parameters
