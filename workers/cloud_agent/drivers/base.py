"""The interface of all drivers, and the options that they share.

A driver starts, lists and ends instances of one real cloud. It keeps no state of its own: the cloud's listing
is all there is, and an instance that spotfed started carries the id of its lease there. Instances without one
are foreign; they are counted and never touched. Calls may be repeated, and made from several threads.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
)
from pydantic import field_validator as checked

from broker.contract.launch import Launch, LaunchRules, Word, find_word
from broker.doctor.check import CheckResult, failure, ok, warning
from cloudsim.federation.model import BOOT_S
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError
from cloudsim.model.flavours import CloudFlavour, find_flavour
from cloudsim.model.requests import Amounts, Labels


class InstanceError(Exception):
    """The cloud did not do it; the message tells its operator why. The call may be made again later."""


class NoRoomError(InstanceError):
    """The cloud reports that it has no room for the instance."""


class RefusedError(InstanceError):
    """The cloud will refuse the call every time: wrong credentials, an unknown image or size, a quota."""


class InstanceState(StrEnum):
    """The state of an instance as its cloud lists it."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True)
class DesiredInstance:
    """An instance that a lease is to have.

    amounts: resources that it needs beside cores. labels: what its flavour must be. launch: what its
    holder has chosen, with the secrets. host: the cloud's host that it must run on; None leaves that to the
    cloud. is_preemptible: False for on-demand that was sold, which is never taken back.
    """

    lease: str
    cores: int
    origin: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    launch: Launch = field(default_factory=Launch)
    host: str | None = None
    is_preemptible: bool = True


@dataclass(frozen=True)
class CloudInstance:
    """An instance that the cloud lists.

    id: the cloud's own. lease: None if it is foreign. size: the cloud's name of its size. cores: None if the
    cloud does not tell. ends_at: seconds since 1970, once the cloud has given notice to take it back by
    itself. why: the cloud's reason, once it is ending or has ended. host: where it runs, if the cloud tells.
    account: its user or project there. no_room_at: when the cloud found no room for it, in seconds since
    1970; None unless it failed for that. amounts: what it has beside cores, as far as the cloud tells.
    labels: what its host must be, as far as the cloud tells. created_at: when its user asked for it, in
    seconds since 1970, if the cloud tells.
    """

    id: str
    lease: str | None
    state: InstanceState
    size: str
    cores: int | None
    addresses: tuple[str, ...] = ()
    ends_at: float | None = None
    why: str | None = None
    host: str | None = None
    account: str | None = None
    no_room_at: float | None = None
    amounts: Amounts = ()
    labels: Labels = frozenset()
    created_at: float | None = None


@dataclass(frozen=True)
class CloudHost:
    """A host of the cloud: the cores and the amounts of other resources that its scheduler gives away."""

    name: str
    cores: int
    amounts: Amounts = ()


class InstanceDriver(Protocol):
    """Starts, lists and ends the instances of one cloud. Raises InstanceError and nothing else."""

    def list_instances(self) -> list[CloudInstance]:
        """Return all instances, foreign ones included; ended ones as long as the cloud lists them."""

    @property
    def rules(self) -> LaunchRules:
        """The rules for what the holders of leases may choose."""

    def list_flavours(self) -> list[CloudFlavour]:
        """Return the flavours that leases get, as the cloud describes them, in the order of preference."""

    def start(self, desired: DesiredInstance) -> None:
        """Ask for an instance of the lease, unless the cloud has one that was asked for before.

        A cloud may report only later that it has no room, by an instance that ended before it ran. The next
        call then removes that instance and raises its fault.

        Raises
        ------
        NoRoomError
            When the cloud has no room.
        RefusedError
            When the cloud will refuse it every time.
        """

    def give_notice(self, lease: str, leaves_at: float) -> bool:
        """Tell the instance that it must leave then, in seconds since 1970; False if this cloud cannot."""

    def end(self, lease: str) -> None:
        """Terminate the lease's instance at once; do nothing if there is none."""

    def check(self) -> Iterator[CheckResult]:
        """Yield whether leases can become instances: clock, images, networks, keys, rights and the like."""

    def free_cores(self) -> int | None:
        """Return the cores that the cloud says it could still give, None if it does not tell."""

    def list_hosts(self) -> list[CloudHost]:
        """Return the cloud's hosts; none where the cloud does not tell."""

    def count_free(self) -> dict[str, int]:
        """Return how many more instances of each size could start at once; empty if the cloud does not tell.

        The numbers of different sizes are about the same room.
        """


#: Bytes of user data that all clouds take.
MOST_USER_DATA = 16_384
#: Bytes of what an operator lets run before the user data of holders.
MOST_PREFIX = 3_072

#: Resources that all clouds describe: MB of memory, GB of disk, and graphics processors.
MEMORY, DISK, GPUS = "memory_mb", "disk_gb", "gpus"

#: The label of a node that names its host at the cloud.
HOST = "host"

#: Types of the parts of user data by their first words, as cloud-init knows them.
_USER_DATA_KINDS = {
    "#!": "text/x-shellscript",
    "#cloud-config": "text/cloud-config",
    "#include": "text/x-include-url",
    "#cloud-boothook": "text/cloud-boothook",
    "## template: jinja": "text/jinja2",
}

#: Seconds that two clocks may be apart.
MOST_APART_S = 30.0

LOOPBACK = ("localhost", "127.0.0.1")


def _duration_s(value: Any) -> float:
    try:
        return parse_duration_s(value, field="")
    except SpecError as error:
        raise ValueError(error.message) from error


def read_beside(path: Any, info: ValidationInfo, most_bytes: int) -> str | None:
    """Return the content of a file beside the federation file, None for None. Raises ValueError."""
    if path is None:
        return None
    if not isinstance(path, str):
        raise ValueError("write the path of a file")  # noqa: TRY004 - pydantic takes ValueErrors
    try:
        text = str(((info.context or {}).get("beside", Path()) / path).read_text())
    except (OSError, UnicodeError, ValueError) as error:
        raise ValueError(f"cannot be read: {error}") from error
    if len(text.encode()) > most_bytes or "\0" in text:
        raise ValueError(f"clouds take at most {most_bytes} bytes of text without null bytes")
    return text


def combine_user_data(parts: Sequence[str]) -> str:
    """Return parts of user data as one text in MIME, which cloud-init carries out in their order.

    The same parts give the same text: clouds compare a repeated request with the first one.
    """
    boundary = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    lines = [f'Content-Type: multipart/mixed; boundary="{boundary}"', "MIME-Version: 1.0", ""]
    for part in parts:
        is_mime = part.lower().startswith(("content-type:", "mime-version:"))
        begin = next(
            (kind for begin, kind in _USER_DATA_KINDS.items() if part.startswith(begin)), "text/plain"
        )
        head = [] if is_mime else [f'Content-Type: {begin}; charset="utf-8"', ""]
        lines += [f"--{boundary}", *head, part]
    return "\n".join([*lines, f"--{boundary}--", ""])


def check_address(address: str) -> str:
    """Return the address of an API, to which credentials may be sent. Raises ValueError."""
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or ":" in parts.hostname:
        raise ValueError("write an address such as https://cloud.example.org:8773/services/compute")
    if parts.username or parts.password:
        raise ValueError("credentials do not belong here: set SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET")
    if parts.query or parts.fragment:
        raise ValueError("an address without ? and #")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("credentials would cross the network in clear: use https")
    return address


def _cores(key: Any) -> Any:
    """Convert a key of a TOML table, which is always text, to a number."""
    return int(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key


def _beside(path: Path, info: ValidationInfo) -> Path:
    file: Path = (info.context or {}).get("beside", Path()) / path
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    return file.resolve()


#: An existing file; its path is relative to the directory of the federation file.
BesideFile = Annotated[Path, Field(strict=False), AfterValidator(_beside)]

Duration = Annotated[float, BeforeValidator(_duration_s)]

Cores = Annotated[int, BeforeValidator(_cores), Field(ge=1, le=1_000_000)]


class AllowOptions(LaunchRules):
    """The table ``[cloud.instances.allow]``: the rules for holders, and what always runs before their data.

    prefix: the table has a path beside the federation file, this field the file's content.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    prefix: str | None = None

    @checked("prefix", mode="before")
    @classmethod
    def _contents(cls, path: Any, info: ValidationInfo) -> str | None:
        return read_beside(path, info, MOST_PREFIX)


class JobOptions(BaseModel):
    """The table ``[cloud.instances.jobs]``: how an instance starts the node agent that runs a batch job.

    url: the address of the HTTP API as instances reach it, https, or http on this machine only. install: what
    a shell does first; the table has a path beside the federation file, this field the file's content.
    python: the interpreter that has spotfed then. boot_s: seconds that all this takes.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(check_address)]
    install: str = ""
    python: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./-]+$", max_length=1000)] = "python3"
    boot_s: Duration = Field(BOOT_S, alias="boot", ge=0, le=86_400)

    @checked("install", mode="before")
    @classmethod
    def _contents(cls, path: Any, info: ValidationInfo) -> str | None:
        return read_beside(path, info, MOST_PREFIX)

    def make_script(self, token: str) -> str:
        """Return the script that starts the node agent with its token, which no other user may read.

        An agent that fails is started again; it takes up what runs. Batch systems warn the script, too.
        """
        agent = f"{self.python} -m workers.node_agent --api {shlex.quote(self.url)}"
        lines = (
            "#!/bin/sh",
            "umask 022",
            "spotfed=$(mktemp -d) && chmod 711 $spotfed || exit 1",
            f'(umask 077 && printf %s {shlex.quote(token)} >"$spotfed/token")',
            'export SPOTFED_STATE_DIR="$spotfed"',
            self.install,
            "trap : TERM",
            f'until {agent} --token-file "$spotfed/token"; do sleep 5; done',
        )
        return "\n".join([*lines, ""])


class CommonOptions(BaseModel):
    """Options that all drivers have.

    driver: the name of the driver. prefix: begins the names and tags of instances; two federations that use
    one account of a cloud need two. poll_s: seconds between two listings. timeout_s: seconds that one call to
    the cloud may take. jobs: how instances run batch jobs; None: they run none. sizes: the cloud's name of an
    instance by its cores. foreign_sizes: the cores of other sizes, where the cloud does not tell them. allow:
    what holders may choose. user_data: what instances run when they start unless their lease says otherwise;
    the table has a path beside the federation file, this field the file's content.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, populate_by_name=True
    )
    #: True for drivers whose instances are scripts, with arguments and an environment.
    runs_scripts: ClassVar[bool] = False
    #: The largest number of networks that an instance is on.
    most_networks: ClassVar[int] = 16
    #: The export of the cloud's past load with which a first table can be made.
    export: ClassVar[str] = "a record of it"

    driver: str
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")] = "spotfed"
    poll_s: Duration = Field(5.0, alias="poll", ge=0.1, le=3600)
    timeout_s: Duration = Field(20.0, alias="timeout", ge=0.1, le=600)
    sizes: dict[Cores, Word] = Field(min_length=1)
    foreign_sizes: dict[Word, Annotated[int, Field(ge=1, le=1_000_000)]] = Field(default_factory=dict)
    allow: AllowOptions = AllowOptions()
    jobs: JobOptions | None = None
    user_data: str | None = None

    @checked("sizes")
    @classmethod
    def _one_word_one_size(cls, sizes: dict[int, str]) -> dict[int, str]:
        if len(set(sizes.values())) < len(sizes):
            raise ValueError("two sizes have the same word")
        return sizes

    @checked("user_data", mode="before")
    @classmethod
    def _contents(cls, path: Any, info: ValidationInfo) -> str | None:
        return read_beside(path, info, MOST_USER_DATA)

    @property
    def rules(self) -> LaunchRules:
        """The rules for what holders may choose."""
        allowed = self.allow.model_dump(exclude={"prefix", "jobs", "scripts", "most_networks"})
        return LaunchRules(
            **allowed,
            jobs=self.jobs is not None,
            scripts=self.runs_scripts,
            most_networks=self.most_networks,
        )

    @property
    def lists_all_users(self) -> bool:
        """True if the cloud lists instances of all its users."""
        return True

    @property
    def selling_fault(self) -> tuple[str, str] | None:
        """The field without which nothing can be sold on-demand, and why; None if it can."""
        return None

    def offer(self, flavours: Iterable[CloudFlavour]) -> list[CloudFlavour]:
        """Return those of a cloud's flavours that leases get: those of the file first, then the smallest.

        The cores of a flavour are those that the file says, if it says any.
        """
        order = {size: place for place, size in enumerate(self.sizes.values())}
        offered = [
            replace(flavour, cores=self.cores(flavour.name) or flavour.cores)
            for flavour in flavours
            if flavour.name in order or any(fnmatchcase(flavour.name, size) for size in self.allow.sizes)
        ]
        return sorted(
            offered,
            key=lambda flavour: (
                order.get(flavour.name, len(order)),
                flavour.cores,
                dict(flavour.amounts).get(GPUS, 0),
                flavour.amounts,
                flavour.name,
            ),
        )

    def pick(self, flavours: Iterable[CloudFlavour], desired: DesiredInstance) -> CloudFlavour:
        """Return the flavour of an instance that is to start.

        Raises
        ------
        RefusedError
            When none of them meets the needs, or the operator does not allow what the holder has chosen.
        """
        if faults := list(self.rules.find_faults(desired.launch)):
            raise RefusedError(f"the cloud does not allow: {', '.join(faults)}")
        amounts, labels = tuple(sorted(desired.amounts.items())), frozenset(desired.labels.items())
        flavour = find_flavour(flavours, desired.cores, amounts, labels, desired.launch.instance_type)
        if isinstance(flavour, str):
            raise RefusedError(flavour)
        return flavour

    def own_data_of(self, launch: Launch) -> str | None:
        """Return what the holder of a lease lets its instance run: the node agent for a batch job."""
        if launch.agent_token is not None and self.jobs is not None:
            return self.jobs.make_script(launch.agent_token.get_secret_value())
        return launch.user_data_text

    def user_data_of(self, launch: Launch) -> str | None:
        """Return what an instance runs: its holder's user data, else that of the table; the prefix first."""
        own = self.own_data_of(launch)
        parts = [part for part in (self.allow.prefix, self.user_data if own is None else own) if part]
        return combine_user_data(parts) if len(parts) > 1 else parts[0] if parts else None

    def encode_user_data(self, launch: Launch) -> str | None:
        """Return user data in base64, as clouds take it."""
        text = self.user_data_of(launch)
        return base64.b64encode(text.encode()).decode() if text else None

    def cores(self, size: str) -> int | None:
        """Return the cores of an instance of that size, None if the file does not say."""
        for cores, word in self.sizes.items():
            if word == size:
                return cores
        return self.foreign_sizes.get(size)


def make_flavour(
    name: str,
    cores: int,
    amounts: Mapping[str, int],
    labels: Iterable[tuple[str, str]] = (),
    *,
    is_divisible: bool = False,
) -> CloudFlavour:
    """Return a flavour with these amounts, without those that are zero."""
    has = tuple(sorted((resource, amount) for resource, amount in amounts.items() if amount))
    return CloudFlavour(name, cores, has, frozenset(labels), is_divisible)


def guard_check(name: str, results: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """Yield results, and a failure with the cloud's message where it does not answer one of their calls."""
    try:
        yield from results
    except InstanceError as error:
        yield failure(str(error), "correct it at the cloud or in the federation file", name=name)


def judge_clock(headers: Mapping[str, str]) -> CheckResult:
    """Return how far this machine's clock is from that of the server that sent these headers."""
    text = next((value for name, value in headers.items() if name.lower() == "date"), None)
    if text is None:
        return ok("the cloud does not tell its time", name="clock")
    apart_s = time.time() - parsedate_to_datetime(text).timestamp()
    found = f"this machine's clock is {apart_s:.0f} s ahead of the cloud's"
    if abs(apart_s) > MOST_APART_S:
        return warning(
            found, "set both by NTP: clouds refuse signatures and tokens of other times", name="clock"
        )
    return ok(found, name="clock")


def own_words(allowed: Mapping[str, str], words: Iterable[str]) -> tuple[str, ...]:
    """Return what the cloud calls the words that holders use, leaving out those that are not allowed."""
    return tuple(own for word in words if (own := find_word(allowed, word)) is not None)


class HttpOptions(CommonOptions):
    """Options that all drivers of an HTTP API have.

    endpoint: the address, https with a verified certificate, or http on this machine only: credentials and
    user data cross it. ca_file: the authority that signed the certificate; None for those that Libcloud's
    HTTP library trusts. image: the id of the image that instances start from. key_name: the name of a key
    pair. zone: an availability zone.
    """

    endpoint: str
    ca_file: BesideFile | None = None
    image: Word
    key_name: Word | None = None
    security_groups: tuple[Word, ...] = Field((), strict=False)
    zone: Word | None = None

    @property
    def images(self) -> tuple[str, ...]:
        """The images of the file: that of instances, then those that holders may choose by other words."""
        return tuple(dict.fromkeys([self.image, *filter(None, self.allow.images.values())]))

    def image_of(self, launch: Launch) -> str:
        """Return the id of the image of an instance."""
        own = None if launch.image is None else find_word(self.allow.images, launch.image)
        return self.image if own is None else own

    def security_groups_of(self, launch: Launch) -> tuple[str, ...]:
        """Return the names of an instance's security groups."""
        return own_words(self.allow.security_groups, launch.security_groups) or self.security_groups

    @checked("endpoint")
    @classmethod
    def _address(cls, endpoint: str) -> str:
        return check_address(endpoint)
