"""What every instance driver does: it starts, lists and ends instances of one real cloud.

A driver keeps no state of its own: what the cloud lists is all there is, and an instance that spotfed started
carries the id of its lease there. Instances that carry none are foreign: they are counted and never touched.
Calls may be made again, and from several threads.
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
    """The cloud did not do it; the message says why, for its operator. The call may be made again later."""


class NoRoomError(InstanceError):
    """The cloud reports that it has no room for the instance."""


class RefusedError(InstanceError):
    """The cloud will refuse it again: wrong credentials, an unknown image or size, a quota."""


class InstanceState(StrEnum):
    """How an instance stands, as its cloud lists it. An ended one counts as long as the cloud lists it."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True)
class DesiredInstance:
    """An instance that a lease is to have. amounts: needed beside cores, by resource. user_data: what the
    instance runs as it starts, as its image understands it."""

    lease: str
    cores: int
    origin: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    user_data: str | None = None


@dataclass(frozen=True)
class CloudInstance:
    """An instance that the cloud lists.

    id: the cloud's own. lease: whose it is; None: foreign. size: the cloud's word for it. cores: None where
    the cloud does not tell. ends_at: seconds since 1970, when the cloud has given notice to take it back by
    itself. why: it ended or is ending, in the cloud's words.
    """

    id: str
    lease: str | None
    state: InstanceState
    size: str
    cores: int | None
    addresses: tuple[str, ...] = ()
    ends_at: float | None = None
    why: str | None = None


class InstanceDriver(Protocol):
    """One cloud's instances. Raises InstanceErrors and nothing else."""

    def listed(self) -> list[CloudInstance]:
        """All instances, those of others too."""

    def start(self, wanted: DesiredInstance) -> None:
        """Asks for an instance of the lease; if the cloud has one that was asked for already, for no other.

        A cloud may tell later that it has no room, by an instance that ended before it ran: asked again, the
        driver removes that one and raises its fault. Raises NoRoomError, RefusedError.
        """

    def notice(self, lease: str, leaves_at: float) -> bool:
        """Tells the instance that it must leave then, seconds since 1970; False: this cloud cannot."""

    def end(self, lease: str) -> None:
        """Terminates the lease's instance at once; nothing happens when there is none (any more)."""

    def free_cores(self) -> int | None:
        """How many cores the cloud says it could still give; None: it does not tell."""


#: A cloud's word for something: an image, a size, a network.
Word = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=255)]

#: Bytes: the least that a cloud takes as user data.
MOST_USER_DATA = 16_384

LOOPBACK = ("localhost", "127.0.0.1")


def _duration_s(value: Any) -> float:
    try:
        return parse_duration_s(value, field="")
    except SpecError as error:
        raise ValueError(error.message) from error


def _cores(key: Any) -> Any:
    """TOML writes keys as text."""
    return int(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key


def _beside(path: Path, info: ValidationInfo) -> Path:
    found: Path = (info.context or {}).get("beside", Path()) / path
    if not found.is_file():
        raise ValueError(f"there is no file {found}")
    return found.resolve()


#: A file that is there; its path is written from where the federation file is.
BesideFile = Annotated[Path, Field(strict=False), AfterValidator(_beside)]

Duration = Annotated[float, BeforeValidator(_duration_s)]

Cores = Annotated[int, BeforeValidator(_cores), Field(ge=1, le=1_000_000)]


class CommonOptions(BaseModel):
    """Of every driver.

    prefix: instances of leases carry it; two federations that use one account of a cloud need two. poll_s:
    how often the cloud's instances are listed. timeout_s: the longest that one call to the cloud may take.
    sizes: the cloud's word for an instance of so many cores. foreign_sizes: cores of other sizes, where the
    cloud does not tell them. user_data: what instances run as they start where a lease says nothing; in the
    table it is a path beside the federation file, here it is what that file holds.
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
        """The cloud's word for an instance of so many cores; None where the file has none."""
        return self.sizes.get(cores)

    def encoded_user_data(self, told: str | None) -> str | None:
        """As clouds take it, in base64: what is told for the instance, else what the table says for all."""
        text = self.user_data if told is None else told
        return base64.b64encode(text.encode()).decode() if text else None

    def cores(self, size: str) -> int | None:
        """Of an instance of that size; None where the file does not say."""
        for cores, word in self.sizes.items():
            if word == size:
                return cores
        return self.foreign_sizes.get(size)


class HttpOptions(CommonOptions):
    """Of a driver that calls an HTTP API.

    endpoint: its address; https, whose certificate is verified, or http on this machine alone: credentials
    and user data cross it. ca_file: the authority that signed the certificate; None: those that Libcloud's
    HTTP library trusts.
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
