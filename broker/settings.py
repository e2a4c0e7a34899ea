"""Reads the settings of the broker and its workers; the only module that reads the environment.

Every field is read from the variable ``SPOTFED_<NAME>`` (upper case); an empty variable counts as unset.
"""

import errno
import os
import re
from contextlib import suppress
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, parse_qs, parse_qsl, urlencode, urlsplit

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from broker import failpoints

PREFIX = "SPOTFED_"
_PROJECT_ROOT = Path(__file__).resolve().parent.parent


class SettingsError(ValueError):
    """An environment variable is malformed; the message names each one and says what is wrong with it."""


def _state_dir() -> Path:
    return Path(platformdirs.user_state_dir("spotfed", appauthor=False))


def _data_dir() -> Path | None:
    """Return the directory of recorded traces if there is one.

    It is beside the project, beside the working directory, or where ``spotfed data fetch`` puts it.
    """
    bases = [_PROJECT_ROOT]
    with suppress(FileNotFoundError):  # the working directory is gone
        bases.append(Path.cwd())
    for base in bases:
        candidate = base.parent / "shared" / "data"
        if candidate.is_dir():
            return candidate
    fetched = _fetched_data_dir()
    return fetched if fetched.is_dir() else None


def _fetched_data_dir() -> Path:
    return Path(platformdirs.user_data_dir("spotfed", appauthor=False)) / "data"


def default_data_dir() -> Path:
    """Return the directory of recorded traces, or where this user would have it."""
    return settings().data or _fetched_data_dir()


def check_api_key(key: str) -> str:
    """Return an API key without the blanks around it.

    Raises
    ------
    ValueError
        When it cannot be sent in a header; the message does not repeat it.
    """
    key = key.strip()
    if not key or not all("!" <= character <= "~" for character in key):
        raise ValueError("an API key is letters, digits and signs of ASCII; this one has others, or none")
    return key


def _api_key(value: SecretStr) -> SecretStr:
    return SecretStr(check_api_key(value.get_secret_value()))


def _stripped_secret(value: SecretStr) -> SecretStr:
    return SecretStr(value.get_secret_value().strip())


def _split_url(value: str) -> SplitResult:
    """Split an address. Raises ValueError for what a password that is not encoded makes of it."""
    # Not the errors' own texts: they repeat parts of it.
    with suppress(ValueError):
        parts = urlsplit(value)
        is_misread = parts.fragment or (parts.scheme != "unix" and "@" in parts.path)
        if parts.port != 0 and not is_misread and re.fullmatch(r"[!-~]*", value):
            return parts
    raise ValueError("must have a number as its port, and / ? # @ in a password as %2F %3F %23 %40")


def is_sentinel(url: str) -> bool:
    """Return True if an address of Redis names Sentinels, which tell where the server is."""
    return url.partition("://")[0] in {"redis+sentinel", "rediss+sentinel"}


def split_address(url: str) -> SplitResult:
    """Split an address of one host or several.

    ``urlsplit`` refuses a list of hosts in which a later one is an IPv6 address, in some releases of Python.
    """
    scheme, mark, rest = url.partition("://")
    hosts = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}{mark}{rest[len(hosts) :]}")._replace(netloc=hosts)


def list_hosts(url: str) -> list[str]:
    """Return the hosts of an address, each with its port if it has one; only Sentinels are several."""
    return split_address(url).netloc.rpartition("@")[2].split(",")


def check_redis_url(value: str) -> str:
    """Return an address of Redis. Raises ValueError that does not repeat it for one that cannot be."""
    if is_sentinel(value):
        return _sentinel_url(value)
    parts = _split_url(value)
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError(
            "must start with redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://"
        )
    if any(name.startswith("ssl_") for name in parse_qs(parts.query)):
        raise ValueError(
            "set TLS by SPOTFED_REDIS_CA, SPOTFED_REDIS_CERT and SPOTFED_REDIS_KEY, not in the address"
        )
    if parts.scheme == "unix" and not parts.path.startswith("/"):
        raise ValueError("a unix:// address needs an absolute path, as in unix:///run/redis.sock?db=0")
    return value


def _sentinel_url(value: str) -> str:
    hosts = list_hosts(value)
    for host in hosts:
        _split_url(value.replace(",".join(hosts), host, 1))
    parts = split_address(value)
    if not all(hosts) or not re.fullmatch(r"/[^/]+(/\d*)?", parts.path):
        raise ValueError(
            "must be like redis+sentinel://HOST1:26379,HOST2:26379,HOST3:26379/NAME/0, where NAME is that of "
            "the primary in the Sentinels' configuration"
        )
    if unknown := parse_qs(parts.query).keys() - {"sentinel_username", "sentinel_password"}:
        raise ValueError(
            f"has no option {', '.join(sorted(unknown))}; set TLS by SPOTFED_REDIS_CA and its like"
        )
    return value


def _http_url(value: str) -> str:
    parts = _split_url(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address like http://127.0.0.1:8000")
    return value.rstrip("/")


def _bucket(value: str) -> str:
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)*/?", value):
        raise ValueError("must be like s3://BUCKET or s3://BUCKET/PREFIX")
    return value.rstrip("/")


def _bucket_url(value: str) -> str:
    value = _http_url(value)
    if urlsplit(value).scheme == "http" and not is_local(value):
        raise ValueError("must begin with https://: states of jobs would cross the network in clear")
    return value


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
    try:
        return value.expanduser().absolute()
    except FileNotFoundError:
        raise ValueError("is relative to the working directory, which is gone") from None
    except RuntimeError:
        raise ValueError("begins with ~, and this user has no home directory") from None


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Directory = Annotated[Path, AfterValidator(_expanded)]
File = Annotated[Path, AfterValidator(_expanded)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_networks)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper)]
LogFormat = Literal["console", "json"]


class Settings(BaseModel):
    """The settings of one process, frozen. Names that end in ``_s`` are seconds of wall time.

    Fields that are not given are read from the environment.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        str_strip_whitespace=True,
        validate_default=True,
    )

    redis_url: Annotated[str, AfterValidator(check_redis_url)] | None = Field(default=None, repr=False)
    """Address of the Redis server, or of the Sentinels that tell where it is, as in
    ``redis+sentinel://h1:26379,h2:26379,h3:26379/spotfed/0``; unset: an embedded server in `state_dir`."""
    redis_replicas: int | None = Field(default=None, ge=0)
    """Replicas that have a write before its caller is answered; unset: with Sentinels one, as long as one
    follows, else none."""
    state_dir: Directory = Field(default_factory=_state_dir)
    """Directory of the embedded Redis server and the first API key."""
    data: Directory | None = Field(default_factory=_data_dir)
    """Directory of recorded traces; unset if there are none."""

    url: Annotated[str, AfterValidator(_http_url)] = "http://127.0.0.1:8000"
    """Address at which clients find the HTTP API of the broker; unset: the one of this machine."""
    api_key: Annotated[SecretStr, AfterValidator(_api_key)] | None = None
    """API key that clients send."""
    host: str = "127.0.0.1"
    """Address that the HTTP API listens on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port that the HTTP API listens on; 0 takes a free one."""
    tls_cert: File | None = None
    """Certificate chain of the HTTP API, in PEM; with it the API speaks TLS."""
    tls_key: File | None = None
    """Private key of ``tls_cert``, in PEM."""
    tls_client_ca: File | None = None
    """Authorities, in PEM; one of them must have signed the certificate of every client of the HTTP API."""
    ca: File | None = None
    """Authorities, in PEM, that clients trust for the HTTP API, beside those of this machine."""
    client_cert: File | None = None
    """Certificate that clients show to the HTTP API if it asks for one, in PEM."""
    client_key: File | None = None
    """Private key of ``client_cert``, in PEM."""
    redis_ca: File | None = None
    """Authorities, in PEM, to trust for a Redis at ``rediss://``, beside those of this machine."""
    redis_cert: File | None = None
    """Certificate to show to Redis if it asks for one, in PEM."""
    redis_key: File | None = None
    """Private key of ``redis_cert``, in PEM."""
    key_prefix: str = Field(default="spotfed:", pattern=r"^[\w{}.:-]+$")
    """Prefix of every Redis key and channel, so that several federations can share a server."""
    trust: File | None = None
    """File of the public keys (a JWK set) whose messages are trusted; unset trusts every message."""
    signing_key: File | None = None
    """File of the private key that signs the messages of this process; unset signs nothing.

    Owners of several clouds in one process take a directory, where ``cloud.<id>.key`` is the key of each.
    """
    log_level: LogLevel = "INFO"
    """Lowest level of messages to log."""
    log_format: LogFormat | None = None
    """Form of logs; unset: for people on a terminal, as JSON elsewhere."""
    otlp_url: Annotated[str, AfterValidator(_http_url)] | None = None
    """HTTP address of an OpenTelemetry collector that gets spans, like http://127.0.0.1:4318."""

    api_processes: int = Field(default=1, ge=1)
    """Processes of the HTTP API that share its port, and its metrics."""
    calls_per_s: int = Field(default=500, ge=0)
    """Calls a second that each API process takes from one key; 0: no limit."""
    open_calls: int = Field(default=256, ge=1)
    """Calls of one member that each API process answers at a time, event streams aside."""
    open_streams: int = Field(default=64, ge=1)
    """Event streams that each API process keeps open for one member."""
    header_timeout_s: Seconds = 10.0
    """How long the first lines of a call may take to arrive at the API."""
    body_timeout_s: Seconds = 30.0
    """How long the body of a call may take to arrive at the API."""
    body_mib: int = Field(default=64, ge=4)
    """Mebibytes of bodies that each API process holds at a time, from their first byte to the answer."""
    member_body_mib: int = Field(default=16, ge=4)
    """Mebibytes of ``body_mib`` that the calls of one member may take."""
    redis_connections: int = Field(default=100, ge=1)
    """Connections to Redis that each API process opens for calls at most; further calls wait for one."""

    reply_deadline_s: Seconds = 5.0
    """How long the broker waits for the answer of an owner in wall time."""
    trace_reply_deadline_s: Seconds = 120.0
    """How long the broker waits for an owner in trace time, who may first have to compute new tables."""
    max_clouds_asked: int = Field(default=4, ge=1)
    """Number of clouds, best first, to which one request is offered."""
    owner_lease_ttl_s: Seconds = 2.0
    """How long an owner keeps its cloud without a sign of life, before another owner takes over."""
    reservation_ttl_s: Seconds = 30.0
    """How long an owner reserves cores for a request before the broker confirms it."""
    renewal_s: Seconds = 3600.0
    """Length, in the cloud's time, of each period of a lease without a lifetime."""
    journal_kept: int = Field(default=100_000, ge=1_000)
    """Entries of a cloud's journal that stay in Redis; older ones are in its owner's archive."""
    events_kept: int = Field(default=200_000, ge=1_000)
    """Public events that stay in Redis, of each cloud and of all clouds together."""
    snapshot_every: int = Field(default=10_000, ge=100)
    """Journal entries between two snapshots of an owner, from which its successor begins."""
    inbox_poll_s: Seconds = 1.0
    """Time between two looks of an owner into its inbox when no message wakes it."""
    advert_max_age_s: Seconds = 10.0
    """Age of a cloud's last advert from which the cloud counts as unreachable."""

    remote_control: bool = True
    """Whether the workers of this process answer Celery's remote control, see SECURITY.md."""

    open_jobs: int = Field(default=1_000, ge=1)
    """Largest number of batch jobs of one member that have not ended."""

    webhook_allow: Networks = ()
    """Private networks, separated by commas, to which webhooks may go nevertheless, by http too."""
    webhook_connect_timeout_s: Seconds = 3.0
    """How long the receiver of a webhook may take to accept a connection."""
    webhook_timeout_s: Seconds = 10.0
    """How long one delivery of a webhook may take in all."""
    webhook_retry_first_s: Seconds = 5.0
    """Wait after the first failed delivery of an event; four times as long after each further one."""
    webhook_retry_longest_s: Seconds = 21_600.0
    """Longest wait between two attempts to deliver an event, whatever the receiver asks for."""
    webhook_attempts: int = Field(default=10, ge=1)
    """Failed attempts to deliver one event after which its webhook is paused."""
    webhook_key_file: File | None = None
    """File of Fernet keys that encrypt the secrets of webhooks, one a line, the first for new secrets."""

    jobs_dir: Directory | None = None
    """Directory of the saved states of batch jobs, shared by the node agents of all clouds; unset: ``jobs``
    in ``state_dir``."""
    jobs_bucket: Annotated[str, AfterValidator(_bucket)] | None = None
    """Bucket of the saved states of batch jobs, as in ``s3://states/spotfed``, for the API and node agents;
    credentials are found as boto3 does. Jobs on leases of real clouds need it; unset: ``jobs_dir``."""
    jobs_bucket_url: Annotated[str, AfterValidator(_bucket_url)] | None = None
    """Address of the S3-compatible store of ``jobs_bucket``, also for instances; unset: that of AWS."""
    jobs_kept_s: Seconds = 604_800.0
    """How long the saved states of a batch job stay after it has ended and they last changed."""
    isolation: Literal["auto", "users", "landlock", "none"] = "auto"
    """Means by which batch jobs are kept apart from each other and from the federation, see
    `workers.node_agent.process.isolation`; auto: ``users`` if the node agent is root, else ``landlock``."""
    job_users: Annotated[str, AfterValidator(_user_ids)] = "60706-61183"
    """Range of user ids for batch jobs, used by nothing else, if the node agent is root."""
    job_processes: int = Field(default=4_096, ge=1, le=4_194_304)
    """Largest number of processes of a batch job on a node, threads included."""
    job_disk_mb: int = Field(default=100_000, ge=1)
    """Disk space, in MB, of a batch job's directory and temporary files on a node; a job that uses more
    is ended."""
    job_disk_free_mb: int = Field(default=1_000, ge=0)
    """Free space, in MB, on the file system of batch jobs below which the job that uses most of it is ended,
    if it uses more than is free; 0: none is."""
    job_network: Literal["on", "off"] = "on"
    """``off``: batch jobs reach no network, only a loopback device of their own."""

    cloud_user: str | None = None
    """Login of a cloud agent at its real cloud: an access key's id, a user, an application credential."""
    cloud_secret: Annotated[SecretStr, AfterValidator(_stripped_secret)] | None = None
    """Secret key or password of ``cloud_user``."""
    cloud_secret_file: File | None = None
    """File that contains ``cloud_secret``, instead of a variable."""
    cloud_notifications: SecretStr | None = None
    """RabbitMQ server to which an OpenStack cloud's Nova sends versioned notifications, as in
    ``amqps://user:password@rabbit.example.org:5671/``: a cloud agent hears at once of failed requests."""

    failpoint: Annotated[str, AfterValidator(failpoints.checked)] | None = None
    """Place at which this process kills itself, see `broker.failpoints`; only for tests."""

    seed: int = Field(default=0, ge=0)
    """Seed of all random streams; each stream is keyed by it and the number of its sample."""
    samples: int = Field(default=10_000, ge=1)
    """Monte-Carlo samples from which a quantile table is made."""

    @model_validator(mode="before")
    @classmethod
    def _read_environment(cls, given: dict[str, Any]) -> dict[str, Any]:
        variables = {name.upper(): text for name, text in os.environ.items() if text}  # noqa: TID251  (of all)
        named = {name: variables.get(variable(name)) for name in cls.model_fields}
        return {name: text for name, text in named.items() if text is not None} | given


def load() -> Settings:
    """Read the settings from the environment now.

    Raises
    ------
    SettingsError
        When a variable is malformed; the message names it.
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


def require_state_dir(settings: Settings) -> None:
    """Make the state directory if it is missing, before a process that keeps files in it begins.

    Raises
    ------
    SettingsError
        When it cannot be made or written.
    """
    directory = settings.state_dir
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        why = None if os.access(directory, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        why = os.strerror(errno.ENOTDIR) if error.errno == errno.EEXIST else error.strerror
    if why is not None:
        raise SettingsError(f"{variable('state_dir')}: cannot use {directory}: {why}")


def unknown_variables() -> list[str]:
    """Return the variables that look like settings but are none, for example misspelt ones; sorted."""
    known = {variable(name) for name in Settings.model_fields}
    given = list(os.environ)  # noqa: TID251  (this is the module that may)
    return sorted(name for name in given if name.upper().startswith(PREFIX) and name.upper() not in known)


def variable(name: str) -> str:
    """Return the environment variable of a field of Settings."""
    return f"{PREFIX}{name.upper()}"


def find_path_setting(path: Path) -> str | None:
    """Return the variable that names a path, or a directory above it, or one below it that cannot be made."""
    named = {name: getattr(settings(), name) for name in Settings.model_fields}
    paths = {name: value for name, value in named.items() if isinstance(value, Path)}
    above = [name for name, value in paths.items() if path.is_relative_to(value)]
    is_missing = not os.path.exists(path)  # noqa: PTH110  (Path.exists raises where this user may not look)
    below = [name for name, value in paths.items() if is_missing and value.is_relative_to(path)]
    nearest = sorted(above, key=lambda name: len(paths[name].parts))[-1:] or below[:1]
    return variable(nearest[0]) if nearest else None


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
    parts = split_address(url)
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    options = [
        (name, "***" if name.endswith("password") else value) for name, value in parse_qsl(parts.query)
    ]
    query = f"?{urlencode(options, safe='*')}" if options else ""
    # Not urlunsplit: it would leave out the slashes of unix://.
    return f"{parts.scheme}://{user}{colon and ':***'}{at}{host}{parts.path}{query}"


def is_local(url: str) -> bool:
    """Return True if an address is one of this machine, with neither a network nor a proxy on the way."""
    host = urlsplit(url).hostname or ""
    if host in {"", "localhost"} or host.endswith(".localhost"):
        return True
    with suppress(ValueError):  # a name
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    return False


def no_color() -> bool:
    """Return True if the user wants no colours, in any program (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))  # noqa: TID251  (this is the module that may)


@cache
def settings() -> Settings:
    """Return the settings of this process, which are read once.

    A test that changes the environment calls ``settings.cache_clear()``.

    Raises
    ------
    SettingsError
        When a variable is malformed; the message names it.
    """
    return load()
