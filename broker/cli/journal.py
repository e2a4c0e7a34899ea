"""``journal``: what the clouds' journals hold, and whether they are complete."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, cast

import redis
import typer
from rich.markup import escape

from broker.cli.console import JsonOption, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.options import CloudFilter
from broker.cli.redis_connection import connected_redis
from broker.journal import verify as audit
from broker.journal.archive import Archive, ArchiveError, archive_directory, archives_directory
from broker.journal.entries import JournalEntries
from broker.journal.hash_chain import ChainedEntry, parse_entry_id
from broker.journal.verify import JournalFinding
from broker.settings import settings
from broker.storage.keys import RedisKeys

journal = typer.Typer(
    no_args_is_help=True,
    help="Show what happened to the clouds, and check that all of it is there. Needs the queue itself "
    "(SPOTFED_REDIS_URL, or `spotfed up` on this machine), and reads the archives in SPOTFED_STATE_DIR.",
)


@journal.command()
def verify(cloud: CloudFilter = None, as_json: JsonOption = False) -> None:
    """Check that journals and archives are whole: ids, epochs, hashes, numbers of public events.

    Exit code 0: they are; 1: one is not, and the first bad id is named; others: they could not be read.

    Example: spotfed journal verify --cloud A
    """
    with connected_redis() as (client, keys):
        findings = verify_journals(client, keys, cloud)
    show_one(
        {"clouds": findings_list(findings)},
        *(finding_line(finding) for finding in findings),
        *([] if findings else ["no clouds"]),
        as_json=as_json,
    )
    if any(finding.bad is not None for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


@journal.command()
def merge(
    cloud: Annotated[str, typer.Argument(metavar="CLOUD", help="Id of the cloud.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="A copy of the cloud's archive on another host.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Fill the gaps in this host's archive of a cloud from that of another host; its owner may run.

    Example: spotfed journal merge A copied/archive/spotfed_/A
    """
    if not Archive(directory).segments():
        raise CommandError(f"DIRECTORY: {directory} holds no archive", ExitCode.BAD_INPUT)
    with connected_redis() as (client, keys):
        (name,) = _cloud_names(client, keys, cloud)
        entries, archive = _open_journal(client, keys, name)
        with _readable(archive):
            count = archive.merge(Archive(directory))
            finding = audit.verify_journal(name, entries, archive)
    shown = {"added": count, **findings_list([finding])[0]}
    show_one(shown, f"{count} entries added", finding_line(finding), as_json=as_json)
    if finding.bad is not None:
        raise typer.Exit(ExitCode.FAILED)


@journal.command()
def show(
    cloud: Annotated[str, typer.Argument(metavar="CLOUD", help="Id of the cloud.")],
    after: Annotated[
        str | None, typer.Option(help="Only entries after this id; default: the latest.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of entries.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Print entries of a journal, the archived ones too: id, time of the cloud, kind, lease and cause.

    Example: spotfed journal show A --after 3-120 --limit 5
    """
    try:
        place = (0, 0) if after is None else parse_entry_id(after)
    except ValueError:
        raise CommandError("--after: must be the id of an entry, like 3-120", ExitCode.BAD_INPUT) from None
    with connected_redis() as (client, keys):
        entries = read_entries(client, keys, cloud, place)
        shown = [*(deque(entries, limit) if after is None else islice(entries, limit))]
    show_one(
        {"entries": [_entry_dict(entry) for entry in shown]},
        *(_entry_line(entry) for entry in shown),
        as_json=as_json,
    )


def verify_journals(client: redis.Redis, keys: RedisKeys, cloud: str | None) -> list[JournalFinding]:
    """Verify the journals of all clouds, or of one, against their archives on this machine.

    Raises
    ------
    CommandError
        When there is no such cloud, or an archive cannot be read.
    """
    findings = []
    for name in _cloud_names(client, keys, cloud):
        entries, archive = _open_journal(client, keys, name)
        with _readable(archive):
            findings.append(audit.verify_journal(name, entries, archive))
    return findings


def findings_list(findings: Iterable[JournalFinding]) -> list[dict[str, Any]]:
    """Return findings for JSON."""
    return [asdict(finding) | {"sound": finding.bad is None} for finding in findings]


def read_entries(
    client: redis.Redis, keys: RedisKeys, cloud: str, after: tuple[int, int]
) -> Iterator[ChainedEntry]:
    """Yield the entries of a cloud's journal after a place, from the archive where the journal was cut.

    Raises
    ------
    CommandError
        When there is no such cloud, or the archive cannot be read.
    """
    (name,) = _cloud_names(client, keys, cloud)
    entries, archive = _open_journal(client, keys, name)
    with _readable(archive):
        first = entries.first()
        begins = None if first is None else first.place
        archived = (entry for entry in archive.entries(after) if begins is None or entry.place < begins)
        yield from chain(archived, entries.after("{}-{}".format(*after)))


def _open_journal(client: redis.Redis, keys: RedisKeys, cloud: str) -> tuple[JournalEntries, Archive]:
    config = settings()
    archive = Archive(archive_directory(config.state_dir, config.key_prefix, cloud))
    return JournalEntries(client, keys, cloud), archive


def _cloud_names(client: redis.Redis, keys: RedisKeys, cloud: str | None) -> list[str]:
    """Return the members and the clouds with an archive here, or the one that is named.

    Raises
    ------
    CommandError
        When there is no cloud of this name.
    """
    config = settings()
    archives = archives_directory(config.state_dir, config.key_prefix)
    archived = {path.name for path in archives.iterdir()} if archives.is_dir() else set()
    known = sorted(archived | {name.decode() for name in cast("list[bytes]", client.hkeys(keys.clouds))})
    if cloud is not None and cloud not in known:
        raise CommandError(
            f"no cloud is called {cloud!r}; there are: {', '.join(known) or 'none'}", ExitCode.BAD_INPUT
        )
    return [name for name in known if cloud in (None, name)]


@contextmanager
def _readable(archive: Archive) -> Iterator[None]:
    try:
        yield
    except (OSError, ArchiveError) as error:
        raise CommandError(f"{archive.directory} cannot be read: {error}", ExitCode.UNREACHABLE) from error


def finding_line(finding: JournalFinding) -> str:
    """Return a finding as a line with markup."""
    if finding.bad is not None:
        return f"[red]broken[/red] {finding.cloud}: {finding.bad} {escape(finding.why or '')}"
    if not finding.entries:
        return f"[green]sound[/green] {finding.cloud}: no entries"
    notes = [f"{finding.archived} of them archived", f"{finding.public} public"]
    if finding.unchained:
        notes.append(f"{finding.unchained} of an older spotfed, without a hash")
    if finding.since:
        notes.append(f"what was before {finding.first} is not here")
    what = f"{finding.entries} entries up to {finding.last} ({', '.join(notes)})"
    return f"[green]sound[/green] {finding.cloud}: {what}"


def _entry_dict(entry: ChainedEntry) -> dict[str, Any]:
    return {"id": entry.id, "hash": entry.hash or None, "event": json.loads(entry.body)}


def _entry_line(entry: ChainedEntry) -> str:
    event = json.loads(entry.body)
    about = (event.get("lease") or {}).get("id") or event.get("attempt") or ""
    words = (entry.id, f"{event['at_s']:g} s", event["kind"], about, event.get("cause") or "")
    return escape("  ".join(word for word in words if word))
