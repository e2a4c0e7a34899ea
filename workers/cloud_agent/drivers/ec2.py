"""Instances of a cloud that speaks the EC2 API: AWS, Eucalyptus and others.

Sits the exam against moto's server, whose checks of AWS's signatures (version 4) are its own; what only
Eucalyptus answers is tested against documents of the form its own client reads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from libcloud.common.aws import AWSRequestSignerAlgorithmV4
from libcloud.common.exceptions import BaseHTTPError
from libcloud.compute.drivers.ec2 import BaseEC2NodeDriver, EC2Connection, EC2Response
from pydantic import Field, StringConstraints

from workers.cloud_agent.drivers.base import (
    CloudInstance,
    DesiredInstance,
    HttpOptions,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
    Word,
)
from workers.cloud_agent.http_calls import HttpCalls, connection_class, one_line
from workers.cloud_agent.tags import InstanceTags

#: Instances that one answer lists at most; AWS gives no more than a thousand.
PAGE = 1000

MOST_PAGES = 1000

#: How long what the cloud said about its sizes is believed.
SIZES_S = 3600.0

#: AWS takes a spot instance back so long after it was marked (its "Spot Instance interruption notices").
INTERRUPTED_AFTER_S = 120.0


class Dialect(StrEnum):
    """Whose EC2 API it is."""

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
    """Of the driver "ec2": AWS, Eucalyptus, and what else speaks their API.

    image: its id. zone: an availability zone. subnet: its id; security groups are ids then, else names.
    all_users: instances of all accounts are listed (Eucalyptus, for its administrator). spot: instances are
    the cloud's own spot instances (AWS).
    """

    driver: Literal["ec2"]
    dialect: Dialect = Field(Dialect.AWS, strict=False)
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")] = "us-east-1"
    subnet: Word | None = None
    all_users: bool = False
    spot: bool = False


class Ec2Driver:
    """An instance driver. The lease's id is a tag, and a token without which no instance starts twice.

    Notice is a tag, ``<prefix>:leaves-at``, which an instance reads of its own metadata (AWS).
    """

    def __init__(self, options: Ec2Options, cloud: str, user: str, secret: str):
        self._options = options
        self._marks = InstanceTags(options.prefix, cloud)
        self._path = urlsplit(options.endpoint).path or "/"
        self._calls = HttpCalls(lambda: _libcloud(options, user, secret), _told, options.timeout_s)
        self._sizes: dict[str, int | None] = {}
        self._sizes_until = 0.0
        self._sizes_lock = threading.Lock()

    def listed(self) -> list[CloudInstance]:
        """All instances, terminated ones as long as the cloud shows them (an hour on AWS)."""
        everyone = {"InstanceId.1": "verbose"} if self._options.all_users else {}
        ends_at = self._taken_back() if self._options.spot else {}
        return [self._instance(one, ends_at) for one in self._described(everyone)]

    def start(self, wanted: DesiredInstance) -> None:
        """Asks for an instance of the lease."""
        size = self._options.size(wanted.cores)
        if size is None:
            raise RefusedError(f"`sizes` has no instance of {wanted.cores} cores")
        marks = self._marks.of(wanted)
        there = self._of(wanted.lease)
        if not there:
            try:
                started = self._call("RunInstances", self._start(wanted, size, marks))
            except _SameTokenError:
                return
            there = list(_instances(started)) if self._options.dialect is Dialect.EUCALYPTUS else []
        untagged = [_text(one, "instanceId") for one in there if self._lease(one) != wanted.lease]
        if untagged:
            self._tag(untagged, marks)

    def notice(self, lease: str, leaves_at: float) -> bool:
        """A tag on the instance; False where there is none."""
        ids = [_text(one, "instanceId") for one in self._of(lease) if _state(one) not in _GONE]
        if ids:
            self._tag(ids, self._marks.leaving(leaves_at))
        return bool(ids)

    def end(self, lease: str) -> None:
        """Terminates the lease's instance."""
        ids = [_text(one, "instanceId") for one in self._of(lease) if _state(one) not in _GONE]
        if ids:
            try:
                self._call("TerminateInstances", _numbered("InstanceId", ids))
            except _NoInstanceError:
                return

    def free_cores(self) -> int | None:
        """Of the size with which most are to be had, as Eucalyptus says; AWS does not tell."""
        if self._options.dialect is not Dialect.EUCALYPTUS:
            return None
        most = 0
        for size in self._call("DescribeInstanceTypes", {"Availability": "true"}).iterfind(
            "{*}instanceTypeDetails/{*}item"
        ):
            zones = [
                int(_text(zone, "available"))
                for zone in size.iterfind("{*}availability/{*}item")
                if self._options.zone in (None, _text(zone, "zoneName"))
            ]
            most = max(most, sum(zones) * int(_text(size, "cpu")))
        return most

    def _start(self, wanted: DesiredInstance, size: str, marks: Mapping[str, str]) -> dict[str, str]:
        options = self._options
        asked = {
            "ImageId": options.image,
            "InstanceType": size,
            "MinCount": "1",
            "MaxCount": "1",
            "ClientToken": self._marks.token(wanted.lease),
            "InstanceInitiatedShutdownBehavior": "terminate",
        }
        user_data = options.encoded_user_data(wanted.user_data)
        if user_data is not None:
            asked["UserData"] = user_data
        if options.key_name:
            asked["KeyName"] = options.key_name
        if options.zone:
            asked["Placement.AvailabilityZone"] = options.zone
        if options.subnet:
            asked["SubnetId"] = options.subnet
        asked |= _numbered("SecurityGroupId" if options.subnet else "SecurityGroup", options.security_groups)
        if options.dialect is Dialect.EUCALYPTUS:
            return asked
        if options.spot:
            asked["InstanceMarketOptions.MarketType"] = "spot"
        asked["MetadataOptions.InstanceMetadataTags"] = "enabled"
        asked["TagSpecification.1.ResourceType"] = "instance"
        return asked | _tags("TagSpecification.1.Tag", {"Name": self._marks.token(wanted.lease), **marks})

    def _of(self, lease: str) -> list[Element]:
        """The lease's instances, ended ones too."""
        if self._marks.is_token(lease):
            name, value = "client-token", lease
        elif self._options.dialect is Dialect.EUCALYPTUS:
            name, value = "client-token", self._marks.token(lease)
        else:
            name, value = f"tag:{self._marks.lease_key}", lease
        found = self._described({"Filter.1.Name": name, "Filter.1.Value.1": value})
        return [one for one in found if self._lease(one) in (lease, value)]

    def _described(self, asked: Mapping[str, str]) -> Iterator[Element]:
        """All pages. Eucalyptus knows no pages."""
        page = {"MaxResults": str(PAGE)} if self._options.dialect is Dialect.AWS else {}
        for _ in range(MOST_PAGES):
            answer = self._call("DescribeInstances", {**asked, **page})
            for reservation in answer.iterfind("{*}reservationSet/{*}item"):
                yield from _instances(reservation)
            following = answer.findtext("{*}nextToken")
            if not following:
                return
            page["NextToken"] = following
        raise InstanceError(f"the cloud lists its instances on more than {MOST_PAGES} pages")

    def _instance(self, found: Element, ends_at: Mapping[str, float]) -> CloudInstance:
        size = _text(found, "instanceType")
        state = _STATES.get(_state(found), InstanceState.RUNNING)
        addresses = (found.findtext("{*}ipAddress"), found.findtext("{*}privateIpAddress"))
        stopped = state in (InstanceState.ENDING, InstanceState.ENDED)
        return CloudInstance(
            id=_text(found, "instanceId"),
            lease=self._lease(found),
            state=state,
            size=size,
            cores=self._cores(size, found),
            addresses=tuple(dict.fromkeys(one for one in addresses if one)),
            ends_at=ends_at.get(found.findtext("{*}spotInstanceRequestId") or ""),
            why=(found.findtext("{*}stateReason/{*}message") or found.findtext("{*}reason") or None)
            if stopped
            else None,
        )

    def _lease(self, found: Element) -> str | None:
        """One that was started and not yet tagged goes by its token: whose it is can no longer be told."""
        tags = {
            _text(tag, "key"): tag.findtext("{*}value") or "" for tag in found.iterfind("{*}tagSet/{*}item")
        }
        lease = self._marks.lease(tags)
        token = found.findtext("{*}clientToken") or ""
        return token if lease is None and self._marks.is_token(token) else lease

    def _cores(self, size: str, found: Element) -> int | None:
        told = self._options.cores(size)
        if told is not None:
            return told
        count, threads = (
            found.findtext(f"{{*}}cpuOptions/{{*}}{one}") for one in ("coreCount", "threadsPerCore")
        )
        if count and threads:
            return int(count) * int(threads)
        with self._sizes_lock:
            if time.monotonic() > self._sizes_until:
                self._sizes, self._sizes_until = {}, time.monotonic() + SIZES_S
            if size not in self._sizes:
                self._sizes[size] = self._asked_cores(size)
            return self._sizes[size]

    def _asked_cores(self, size: str) -> int | None:
        aws = self._options.dialect is Dialect.AWS
        try:
            answer = self._call("DescribeInstanceTypes", {"InstanceType.1": size} if aws else {})
        except RefusedError:
            return None
        if aws:
            count = answer.findtext("{*}instanceTypeSet/{*}item/{*}vCpuInfo/{*}defaultVCpus")
        else:
            sizes = answer.iterfind("{*}instanceTypeDetails/{*}item")
            count = next((_text(one, "cpu") for one in sizes if _text(one, "name") == size), None)
        return int(count) if count else None

    def _taken_back(self) -> dict[str, float]:
        """When AWS takes marked spot instances back, by the id of their request."""
        asked = {"Filter.1.Name": "status-code", "Filter.1.Value.1": "marked-for-termination"}
        answer = self._call("DescribeSpotInstanceRequests", asked)
        return {
            _text(one, "spotInstanceRequestId"): datetime.fromisoformat(
                _text(one, "status/{*}updateTime")
            ).timestamp()
            + INTERRUPTED_AFTER_S
            for one in answer.iterfind("{*}spotInstanceRequestSet/{*}item")
            if one.findtext("{*}status/{*}code") == "marked-for-termination"
        }

    def _tag(self, ids: list[str], tags: Mapping[str, str]) -> None:
        try:
            self._call("CreateTags", _numbered("ResourceId", ids) | _tags("Tag", tags))
        except _NoInstanceError as error:  # what was just started is not seen everywhere yet
            raise InstanceError(str(error)) from error

    def _call(self, action: str, asked: Mapping[str, str]) -> Element:
        """The root of the answer."""
        body = {"Action": action, "Version": _VERSIONS[self._options.dialect], **asked}

        def use(libcloud: BaseEC2NodeDriver) -> Element:
            answer = libcloud.connection.request(
                self._path,
                method="POST",
                data=urlencode(body),
                headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
            ).object
            if not isinstance(answer, Element) or answer.tag.rpartition("}")[2] != f"{action}Response":
                raise InstanceError(f"the answer to {action} is none of the EC2 API")
            return answer

        return self._calls.do(use)


class _SameTokenError(RefusedError):
    """The lease has an instance that was asked for otherwise, as before the file was changed."""


class _NoInstanceError(RefusedError):
    """There is no instance of that id (any more, or yet)."""


class _Signer(AWSRequestSignerAlgorithmV4):
    """Leaves unsigned what proxies on the way change, and what AWS's own clients leave so."""

    def get_request_headers(
        self, params: Any, headers: dict[str, str], method: str = "GET", path: str = "/", data: Any = None
    ) -> tuple[Any, dict[str, str]]:
        signed = {name: value for name, value in headers.items() if name not in _UNSIGNED}
        params, signed = super().get_request_headers(params, signed, method, path, data)
        return params, {**headers, **signed}


class _Connection(EC2Connection):
    """Of version 4 of the signatures."""

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self.signer = _Signer(self.user_id, self.key, self.version, self)


class _Answer(EC2Response):
    """Libcloud's own wants errors of two elements in one order; moto writes three."""

    def parse_error(self) -> str:
        """As `code: message`; empty where the answer is none of EC2, of which the HTTP status says all."""
        try:
            root = ET.fromstring(self.body)  # noqa: S314 - as Libcloud reads all answers; expat bounds entities
        except ET.ParseError:
            return ""
        code = root.findtext(".//{*}Error/{*}Code")
        return f"{code}: {root.findtext('.//{*}Error/{*}Message')}" if code else ""


_KINDS = {"IdempotentParameterMismatch": _SameTokenError, "InvalidInstanceID.NotFound": _NoInstanceError}


def _libcloud(options: Ec2Options, user: str, secret: str) -> BaseEC2NodeDriver:
    """Libcloud's own classes want one of AWS's regions, and a signature whose requests hold little."""
    reached = {"conn_class": connection_class(options.ca_file, options.timeout_s), "responseCls": _Answer}
    connection = type("Connection", (_Connection,), reached)
    driver = type(
        "Driver",
        (BaseEC2NodeDriver,),
        {"connectionCls": connection, "region_name": options.region, "signature_version": "4", "name": "EC2"},
    )
    where = urlsplit(options.endpoint)
    secure = where.scheme == "https"
    port = where.port or (443 if secure else 80)
    return driver(user, secret, secure, where.hostname, port, timeout=options.timeout_s)


def _told(error: BaseHTTPError) -> InstanceError:
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
    """Raises ValueError where it is missing."""
    found = element.findtext(f"{{*}}{name}")
    if found is None:
        raise InstanceError(f"the answer is none of the EC2 API: it has no {name}")
    return found


def _numbered(name: str, values: list[str] | tuple[str, ...]) -> dict[str, str]:
    return {f"{name}.{number}": value for number, value in enumerate(values, 1)}


def _tags(name: str, tags: Mapping[str, str]) -> dict[str, str]:
    asked: dict[str, str] = {}
    for number, (key, value) in enumerate(tags.items(), 1):
        asked |= {f"{name}.{number}.Key": key, f"{name}.{number}.Value": value}
    return asked
