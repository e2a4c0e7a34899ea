"""The interface of all drivers, and the options that they share.

A driver starts, lists and ends instances of one real cloud. It keeps no state of its own: the cloud's listing
is all there is, and an instance that spotfed started carries the id of its lease there. Instances without one
are foreign; they are counted and never touched. Calls may be repeated, and made from several threads.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol
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

from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError


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

    amounts: resources that it needs beside cores. user_data: what it runs when it starts, in a form that its
    image understands. host: the cloud's host that it must run on; None leaves that to the cloud.
    """

    lease: str
    cores: int
    origin: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    user_data: str | None = None
    host: str | None = None


@dataclass(frozen=True)
class CloudInstance:
    """An instance that the cloud lists.

    id: the cloud's own. lease: None if it is foreign. size: the cloud's name of its size. cores: None if the
    cloud does not tell. ends_at: seconds since 1970, once the cloud has given notice to take it back by
    itself. why: the cloud's reason, once it is ending or has ended. host: where it runs, if the cloud tells.
    account: its user or project there. no_room_at: when the cloud found no room for it, in seconds since
    1970; None unless it failed for that.
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


class InstanceDriver(Protocol):
    """Starts, lists and ends the instances of one cloud. Raises InstanceError and nothing else."""

    def list_instances(self) -> list[CloudInstance]:
        """Return all instances, foreign ones included; ended ones as long as the cloud lists them."""

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

    def free_cores(self) -> int | None:
        """Return the cores that the cloud says it could still give, None if it does not tell."""


#: A cloud's name of an image, a size, a network.
Word = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=255)]

#: Bytes of user data that all clouds take.
MOST_USER_DATA = 16_384

LOOPBACK = ("localhost", "127.0.0.1")


def _duration_s(value: Any) -> float:
    try:
        return parse_duration_s(value, field="")
    except SpecError as error:
        raise ValueError(error.message) from error


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


class CommonOptions(BaseModel):
    """Options that all drivers have.

    driver: the name of the driver. prefix: begins the names and tags of instances; two federations that use
    one account of a cloud need two. poll_s: seconds between two listings. timeout_s: seconds that one call to
    the cloud may take. sizes: the cloud's name of an instance by its cores. foreign_sizes: the cores of other
    sizes, where the cloud does not tell them. user_data: what instances run when they start unless their
    lease says otherwise; the table has a path beside the federation file, this field the file's content.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, populate_by_name=True
    )

    driver: str
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")] = "spotfed"
    poll_s: Duration = Field(5.0, alias="poll", ge=0.1, le=3600)
    timeout_s: Duration = Field(20.0, alias="timeout", ge=0.1, le=600)
    sizes: dict[Cores, Word] = Field(min_length=1)
    foreign_sizes: dict[Word, Annotated[int, Field(ge=1, le=1_000_000)]] = Field(default_factory=dict)
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
        if path is None:
            return None
        if not isinstance(path, str):
            raise ValueError("write the path of a file")  # noqa: TRY004 - pydantic takes ValueErrors
        beside = (info.context or {}).get("beside", Path())
        try:
            text = str((beside / path).read_text())
        except (OSError, UnicodeError, ValueError) as error:
            raise ValueError(f"cannot be read: {error}") from error
        if len(text.encode()) > MOST_USER_DATA:
            raise ValueError(f"clouds take at most {MOST_USER_DATA} bytes of user data")
        return text

    def size(self, cores: int) -> str | None:
        """Return the cloud's name of an instance with that many cores, None if the file has none."""
        return self.sizes.get(cores)

    def encode_user_data(self, user_data: str | None) -> str | None:
        """Return user data in base64, as clouds take it: that of the instance, else that of the table."""
        text = self.user_data if user_data is None else user_data
        return base64.b64encode(text.encode()).decode() if text else None

    def cores(self, size: str) -> int | None:
        """Return the cores of an instance of that size, None if the file does not say."""
        for cores, word in self.sizes.items():
            if word == size:
                return cores
        return self.foreign_sizes.get(size)


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

    @checked("endpoint")
    @classmethod
    def _address(cls, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or ":" in parts.hostname:
            raise ValueError("write an address such as https://cloud.example.org:8773/services/compute")
        if parts.username or parts.password:
            raise ValueError(
                "credentials do not belong here: set SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET"
            )
        if parts.query or parts.fragment:
            raise ValueError("an address without ? and #")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError("credentials would cross the network in clear: use https")
        return endpoint
