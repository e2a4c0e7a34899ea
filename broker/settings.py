"""Settings of the broker and its workers: the only module that reads the environment.

Every field is read from the variable `SPOTFED_<NAME>` (upper case); an empty variable counts as unset.
"""

import os
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import platformdirs
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from broker import failpoints

PREFIX = "SPOTFED_"
_PROJECT_ROOT = Path(__file__).resolve().parent.parent


class SettingsError(ValueError):
    """An environment variable is malformed; the message names each one and says what is wrong with it."""


def _state_dir() -> Path:
    return Path(platformdirs.user_state_dir("spotfed", appauthor=False))


def _data_dir() -> Path | None:
    """Recorded traces laid beside the project or beside the directory the command is run in."""
    for base in (_PROJECT_ROOT, Path.cwd()):
        candidate = base.parent / "shared" / "data"
        if candidate.is_dir():
            return candidate
    return None


def _redis_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError("must start with redis://, rediss:// or unix://")
    if any(name.startswith("ssl_") for name in parse_qs(parts.query)):
        raise ValueError("TLS is told by SPOTFED_REDIS_CA and its like, not in the address")
    if parts.scheme == "unix" and not parts.path.startswith("/"):
        raise ValueError("a unix:// address needs an absolute path, as in unix:///run/redis.sock?db=0")
    return value


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address like http://127.0.0.1:8000")
    return value.rstrip("/")


def _networks(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
    except ValueError as error:
        raise ValueError("must be networks like 10.1.0.0/16,fd00:1::/32, or addresses") from error


def _user_ids(value: str) -> str:
    first, dash, last = value.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 2**32 - 1):
        raise ValueError("must be the first and the last user id, like 60706-61183")
    return value


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _expanded(value: Path) -> Path:
    return value.expanduser().absolute()


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Directory = Annotated[Path, AfterValidator(_expanded)]
File = Annotated[Path, AfterValidator(_expanded)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_networks)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper)]
LogFormat = Literal["console", "json"]


class Settings(BaseSettings):
    """What one process of spotfed was told. Frozen; names ending in `_s` are seconds of wall time."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, use_attribute_docstrings=True
    )

    redis_url: Annotated[str, AfterValidator(_redis_url)] | None = Field(default=None, repr=False)
    """Where the queue is; None means a server of our own, embedded in `state_dir`."""
    state_dir: Directory = Field(default_factory=_state_dir)
    """Where the embedded server and the first API key live."""
    data: Directory | None = Field(default_factory=_data_dir)
    """Recorded traces, or None where there are none."""

    url: Annotated[str, AfterValidator(_http_url)] = "http://127.0.0.1:8000"
    """Where clients find the broker's HTTP API."""
    api_key: SecretStr | None = None
    """The key clients send."""
    host: str = "127.0.0.1"
    """The address the HTTP API listens on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port the HTTP API listens on; 0 takes a free one."""
    tls_cert: File | None = None
    """The HTTP API's certificate and those that lead to its authority, in PEM; it speaks TLS then."""
    tls_key: File | None = None
    """The private key of ``tls_cert``, in PEM."""
    tls_client_ca: File | None = None
    """Authorities, in PEM, one of which must have signed the certificate of every client of the HTTP API."""
    ca: File | None = None
    """Authorities, in PEM, that clients trust for the HTTP API, beside those that this machine trusts."""
    client_cert: File | None = None
    """The certificate that clients show to the HTTP API where it asks for one, in PEM."""
    client_key: File | None = None
    """The private key of ``client_cert``, in PEM."""
    redis_ca: File | None = None
    """Authorities, in PEM, that are trusted for a Redis at ``rediss://``, beside those of this machine."""
    redis_cert: File | None = None
    """The certificate that is shown to Redis where it asks for one, in PEM."""
    redis_key: File | None = None
    """The private key of ``redis_cert``, in PEM."""
    key_prefix: str = Field(default="spotfed:", pattern=r"^[\w{}.:-]+$")
    """Put before every Redis key and channel, so that several federations can share a server."""
    trust: File | None = None
    """The public keys (a JWK set) of those whose messages are believed; None believes everybody."""
    signing_key: File | None = None
    """The private key that this process signs its messages with; None signs nothing."""
    log_level: LogLevel = "INFO"
    """What is logged: this and worse."""
    log_format: LogFormat | None = None
    """How logs are written; None: for people on a terminal, as JSON elsewhere."""
    otlp_url: Annotated[str, AfterValidator(_http_url)] | None = None
    """The HTTP address of an OpenTelemetry collector that is sent spans, like http://127.0.0.1:4318."""

    calls_per_s: int = Field(default=500, ge=0)
    """How many calls a second the HTTP API takes from one key; 0: any number."""

    reply_deadline_s: Seconds = 5.0
    """How long the broker waits for an owner's answer in wall time."""
    trace_reply_deadline_s: Seconds = 120.0
    """The same in trace time, where an owner may first have to compute new tables."""
    max_clouds_asked: int = Field(default=4, ge=1)
    """How many clouds, best first, one request is offered to."""
    owner_lease_ttl_s: Seconds = 2.0
    """How long an owner's lease lasts without renewal: the delay before another takes over."""
    reservation_ttl_s: Seconds = 30.0
    """How long an owner holds cores for a request that was quoted and not yet confirmed."""
    renewal_s: Seconds = 3600.0
    """For how long, in the cloud's time, a lease without a lifetime is promised at once."""
    journal_kept: int = Field(default=100_000, ge=1_000)
    """How many entries of a cloud's journal stay in Redis; older ones are in its owner's archive."""
    events_kept: int = Field(default=200_000, ge=1_000)
    """How many public events of a cloud, and of all clouds together, stay in Redis."""
    snapshot_every: int = Field(default=10_000, ge=100)
    """After so many journal entries an owner takes a snapshot, with which its successor begins."""
    inbox_poll_s: Seconds = 1.0
    """How often an owner looks into its inbox when no doorbell rings."""
    advert_max_age_s: Seconds = 10.0
    """A cloud whose last advert is older is unreachable."""

    open_jobs: int = Field(default=1_000, ge=1)
    """How many batch jobs of one member may be open, that is not have ended."""

    webhook_allow: Annotated[Networks, NoDecode] = ()
    """Networks, with commas between them, to which webhooks may go though not public, by http too."""
    webhook_connect_timeout_s: Seconds = 3.0
    """How long a webhook's receiver may take to accept a connection."""
    webhook_timeout_s: Seconds = 10.0
    """How long one delivery of a webhook may take in all."""
    webhook_retry_first_s: Seconds = 5.0
    """How long after a failed delivery it is tried again; four times as long after each further one."""
    webhook_retry_longest_s: Seconds = 21_600.0
    """The longest wait between two tries, whatever the receiver asks for."""
    webhook_attempts: int = Field(default=10, ge=1)
    """After so many failed tries of one event its webhook is paused."""
    webhook_key_file: File | None = None
    """File of Fernet keys, one a line, the first for new secrets: webhooks' secrets are kept encrypted."""

    jobs_dir: Directory | None = None
    """Where states of batch jobs are kept, which the node agents of all clouds share; None means ``jobs`` in
    ``state_dir``."""
    jobs_kept_s: Seconds = 604_800.0
    """How long what was kept of a batch job stays after it has ended, and was last changed."""
    isolation: Literal["auto", "users", "landlock", "none"] = "auto"
    """What keeps batch jobs apart from each other and from the federation, see
    `workers.node_agent.process.isolation`;
    auto: ``users`` where the node agent is root, else ``landlock``."""
    job_users: Annotated[str, AfterValidator(_user_ids)] = "60706-61183"
    """The user ids that batch jobs run as where the node agent is root, first and last; nobody else's."""

    cloud_user: str | None = None
    """Who an instance agent is to its real cloud: an access key's id, a user, an application credential."""
    cloud_secret: SecretStr | None = None
    """The secret key or password of ``cloud_user``."""
    cloud_secret_file: File | None = None
    """A file that holds ``cloud_secret``, instead of a variable."""

    failpoint: Annotated[str, AfterValidator(failpoints.checked)] | None = None
    """Where this process kills itself, see `broker.failpoints`: for tests and for nothing else."""

    seed: int = Field(default=0, ge=0)
    """Seed of every random stream; each stream is keyed by it and its sample's number."""
    samples: int = Field(default=10_000, ge=1)
    """Monte-Carlo samples behind one quantile table."""


def load() -> Settings:
    """Read the environment now.

    Raises:
        SettingsError: a variable is malformed; the message names it.
    """
    try:
        return Settings()
    except ValidationError as error:
        # Not pydantic's own text: it repeats the value, which may hold a password.
        problems = [
            f"{variable(str(detail['loc'][0]))}: {detail['msg'].removeprefix('Value error, ')}"
            for detail in error.errors(include_input=False, include_url=False)
        ]
        raise SettingsError("; ".join(problems)) from None


def unknown_variables() -> list[str]:
    """Variables that look like settings of ours but are none, for example misspelt ones; sorted."""
    known = {variable(name) for name in Settings.model_fields}
    given = list(os.environ)  # noqa: TID251  (this is the module that may)
    return sorted(name for name in given if name.upper().startswith(PREFIX) and name.upper() not in known)


def variable(name: str) -> str:
    """Return the environment variable of a field of Settings."""
    return f"{PREFIX}{name.upper()}"


def display_value(name: str, value: object) -> str:
    """Return the value of a field of Settings as people may see it: without secrets."""
    if value is None:
        return "unset"
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return public_address(str(value)) if name.endswith("url") else str(value)


def public_address(url: str) -> str:
    """Return an address without its password, which may stand before the host or among the options."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    options = [(name, "***" if name == "password" else value) for name, value in parse_qsl(parts.query)]
    query = f"?{urlencode(options, safe='*')}" if options else ""
    # Not urlunsplit: it would leave out the slashes of unix://.
    return f"{parts.scheme}://{user}{colon and ':***'}{at}{host}{parts.path}{query}"


def no_color() -> bool:
    """Whether the user wants no colours, in any program (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))  # noqa: TID251  (this is the module that may)


@cache
def settings() -> Settings:
    """The settings of this process, read once; `settings.cache_clear()` where a test changes the environment.

    Raises:
        SettingsError: a variable is malformed; the message names it.
    """
    return load()
