"""Launches: what the holder of a lease lets its instance run, and what the lending operator allows."""

from __future__ import annotations

import base64
import operator
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    FieldSerializationInfo,
    SecretStr,
    StringConstraints,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from broker.contract.fields import Message

#: Bytes of user data. Clouds take 16,384; the rest is for what an operator always runs.
MOST_USER_DATA = 12_288

#: A cloud's name of an image, a size, a network and the like.
Word = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=255)]

_PUBLIC_KEY = re.compile(r"(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [ -~]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

#: The fields of a launch that may hold secrets. They are never written where events or logs are.
SECRETS = ("user_data", "arguments", "environment", "agent_token")
SecretName = Literal["user_data", "arguments", "environment", "agent_token"]

_unused = partial(Field, exclude_if=operator.not_)


def _check_key(key: str) -> str:
    """Check the form of a public key: its type, and a blob that begins with the same type (RFC 4253 §6.6)."""
    if _PUBLIC_KEY.fullmatch(key.strip()):
        kind, text, *_ = key.split()
        with suppress(ValueError):
            blob = base64.b64decode(text, validate=True)
            if blob[4:].startswith(kind.encode()) and int.from_bytes(blob[:4], "big") == len(kind):
                return key.strip()
    raise PydanticCustomError("key", "should be a public key of SSH, as in id_ed25519.pub")


def _check_size(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if len(text.encode()) > MOST_USER_DATA or "\0" in text:
        raise PydanticCustomError(
            "size", f"should be text of at most {MOST_USER_DATA} bytes, without null bytes"
        )
    return secret


#: Without a colon: such tags say whose an instance is.
TagName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
PublicKey = Annotated[str, Field(max_length=4096), AfterValidator(_check_key)]
Secret = Annotated[SecretStr, AfterValidator(_check_size)]


class Launch(Message):
    """The holder's choice of what an instance runs. All of it is honoured, or the request is refused.

    Attributes
    ----------
    image:
        The image that it starts from, by the name or id that the lending operator allows.
    instance_type:
        The flavour, by the cloud's name; None for the first with the cores, resources and labels asked for.
    key:
        A public key of SSH, which may log in.
    networks, security_groups:
        Instead of those of the lending operator.
    tags:
        Shown at the cloud with the instance.
    user_data:
        Text that the image carries out when it starts, for cloud-init for example; a batch system runs a
        script (``#!``) as its job.
    arguments, environment:
        Those of the script, on a batch system.
    agent:
        True for an instance that runs the work of a batch job: it starts the node agent of its cloud. Only
        job managers may ask for it.
    agent_token:
        Set by the broker: the secret by which that agent is known.
    secrets, sealed:
        Set by the broker, which takes the fields out that may hold secrets: their names, and the name under
        which they are kept for the cloud agents, encrypted.
    """

    image: Word | None = _unused(default=None)
    instance_type: Word | None = _unused(default=None)
    key: PublicKey | None = _unused(default=None)
    networks: tuple[Word, ...] = _unused(default=(), max_length=16)
    security_groups: tuple[Word, ...] = _unused(default=(), max_length=16)
    tags: dict[TagName, Annotated[str, StringConstraints(max_length=255)]] = _unused(
        default_factory=dict, max_length=16, json_schema_extra={"default": {}}
    )
    user_data: Secret | None = _unused(default=None)
    arguments: tuple[Secret, ...] = _unused(default=(), max_length=64)
    environment: dict[str, Secret] = _unused(
        default_factory=dict, max_length=64, json_schema_extra={"default": {}}
    )
    agent: bool = _unused(default=False)
    agent_token: Secret | None = _unused(default=None)
    secrets: tuple[SecretName, ...] = _unused(default=())
    sealed: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = _unused(default=None)

    @field_validator("environment")
    @classmethod
    def _check_environment(cls, environment: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name in environment:
            if not _VARIABLE.fullmatch(name) or name.startswith(("SPOTFED_", "SLURM_", "SBATCH_", "LD_")):
                raise PydanticCustomError("environment", "names of variables are letters, digits and _")
        return environment

    @model_validator(mode="after")
    def _check_script(self) -> Self:
        if (self.arguments or self.environment) and self.user_data is None:
            raise PydanticCustomError(
                "script", "arguments and environment go with user_data that is a script"
            )
        return self

    @field_serializer(*SECRETS, when_used="json")
    def _hide(self, value: Any, info: FieldSerializationInfo) -> Any:
        return _reveal(value) if info.context is REVEAL else "**********"

    @property
    def user_data_text(self) -> str | None:
        """The user data in clear, None if there is none."""
        return None if self.user_data is None else self.user_data.get_secret_value()

    @property
    def carried(self) -> Mapping[str, Any]:
        """The fields that hold secrets, in clear, by name."""
        return {name: _reveal(getattr(self, name)) for name in SECRETS if getattr(self, name)}

    def without_secrets(self, sealed: str | None = None) -> Launch:
        """Return the launch as messages carry it. ``sealed``: the name under which the secrets are kept."""
        names = tuple(self.carried)
        empty: dict[str, Any] = {
            "user_data": None, "arguments": (), "environment": {}, "agent_token": None
        }  # fmt: skip
        return self.model_copy(update={**empty, "secrets": names, "sealed": sealed if names else None})


#: The context that lets a launch be written with its secrets, by a client to the broker.
REVEAL: Mapping[str, bool] = {"reveal": True}


def _reveal(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _reveal(part) for name, part in value.items()}
    return [_reveal(part) for part in value] if isinstance(value, tuple) else value


def _as_table(words: Any) -> Any:
    """Return a list of patterns as a table in which each word stands for itself."""
    return dict.fromkeys(words, "") if isinstance(words, list | tuple) else words


#: Words that holders may use, as patterns such as ``ubuntu-*``, and the cloud's own; "" for the same word.
Allowed = Annotated[dict[Word, str], BeforeValidator(_as_table)]


class LaunchRules(Message):
    """The rules of a lending operator: holders choose what they allow, and nothing else.

    Attributes
    ----------
    images, networks, security_groups:
        A list of patterns, or a table of patterns and the cloud's own names.
    sizes:
        Patterns of flavours, beside those that leases get by their cores.
    keys, user_data, tags:
        True if they may be given.
    jobs, scripts, most_networks:
        Set by the driver: whether instances run batch jobs, whether they are scripts with arguments and an
        environment, and on how many networks one may be.
    """

    images: Allowed = Field(default_factory=dict)
    sizes: tuple[Word, ...] = ()
    networks: Allowed = Field(default_factory=dict)
    security_groups: Allowed = Field(default_factory=dict)
    keys: bool = False
    user_data: bool = False
    tags: bool = False
    jobs: bool = False
    scripts: bool = False
    most_networks: int = 16

    def find_faults(self, launch: Launch) -> Iterator[str]:
        """Yield what of a launch is not allowed here, in words."""
        choices = (("images", (launch.image,) if launch.image else ()), ("networks", launch.networks),
                   ("security_groups", launch.security_groups))  # fmt: skip
        for name, words in choices:
            yield from (f"{name}: {word}" for word in words if find_word(getattr(self, name), word) is None)
        if len(launch.networks) > self.most_networks:
            yield f"more than {self.most_networks} networks"
        if launch.key and not self.keys:
            yield "keys"
        if launch.tags and not self.tags:
            yield "tags"
        if launch.agent and not self.jobs:
            yield "batch jobs"
        secrets = {*launch.secrets, *launch.carried} - {"agent_token"}
        if secrets and not self.user_data:
            yield "user data"
        elif not self.scripts:
            yield from sorted(secrets - {"user_data"})


def find_word(allowed: Mapping[str, str], word: str) -> str | None:
    """Return what the cloud calls a holder's word, None if it is not allowed."""
    for pattern, own in allowed.items():
        if fnmatchcase(word, pattern):
            return own or word
    return None
