"""``journal``: what the clouds' journals say, and whether they are whole."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from broker.cli.connection import queue
from broker.cli.console import CommandError, ExitCode, JsonOption, console, print_json
from broker.cli.federation import CloudOption

if TYPE_CHECKING:
    import redis

    from broker.journal.archive import Archive
    from broker.journal.entries import JournalEntries
    from broker.journal.hash_chain import Entry
    from broker.journal.verify import JournalFinding
    from broker.storage.keys import RedisKeys

journal = typer.Typer(
    no_args_is_help=True,
    help="Look at what happened to the clouds, and whether all of it is there. Needs the queue itself "
    "(SPOTFED_REDIS_URL, or `spotfed up` on this machine), and reads the archives in SPOTFED_STATE_DIR.",
)


@journal.command()
def verify(cloud: CloudOption = None, as_json: JsonOption = False) -> None:
    """Check that journals and archives are whole: ids, epochs, hashes, numbers of public events.

    Exit code 0: they are; 1: one is not, and the first bad id is named; others: they could not be read.

    Example: spotfed journal verify --cloud A
    """
    from broker.journal import verify as verifying

    with queue() as (client, keys):
        found = []
        for name in _clouds(client, keys, cloud):
            entries, archive = _of(client, keys, name)
            with _readable(archive):
                found.append(verifying.verify_journal(name, entries, archive))
    if as_json:
        print_json({"clouds": [asdict(one) | {"sound": one.bad is None} for one in found]})
    else:
        _show_findings(found)
    if any(one.bad is not None for one in found):
        raise typer.Exit(ExitCode.FAILED)


def _show_findings(found: list[JournalFinding]) -> None:
    from rich.markup import escape

    out = console()
    for one in found:
        if one.bad is not None:
            out.print(f"[red]broken[/red] {one.cloud}: {one.bad} {escape(one.why or '')}")
            continue
        notes = [f"{one.archived} of them archived", f"{one.public} public"]
        if one.unchained:
            notes.append(f"{one.unchained} of an older spotfed, without a hash")
        if one.since:
            notes.append(f"what was before {one.first} is not here")
        what = f"{one.entries} entries up to {one.last} ({', '.join(notes)})" if one.entries else "no entries"
        out.print(f"[green]sound[/green] {one.cloud}: {what}")
    if not found:
        out.print("no clouds")


@journal.command()
def show(
    cloud: Annotated[str, typer.Argument(metavar="CLOUD", help="Id of the cloud.")],
    after: Annotated[
        str | None, typer.Option(help="Only entries after this id; default: the latest.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many entries.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Print entries of a journal, the archived ones too: id, time of the cloud, kind, lease and cause.

    Example: spotfed journal show A --after 3-120 --limit 5
    """
    from broker.journal.hash_chain import parse_entry_id

    try:
        place = (0, 0) if after is None else parse_entry_id(after)
    except ValueError:
        raise CommandError("--after: must be the id of an entry, like 3-120", ExitCode.BAD_INPUT) from None
    with queue() as (client, keys):
        (name,) = _clouds(client, keys, cloud)
        entries, archive = _of(client, keys, name)
        with _readable(archive):
            found = _entries(entries, archive, place)
            shown = deque(found, limit) if after is None else list(islice(found, limit))
    if as_json:
        print_json({"entries": [_told(entry) for entry in shown]})
        return
    out = console()
    for entry in shown:
        event = _told(entry)["event"]
        about = (event.get("lease") or {}).get("id") or event.get("attempt") or ""
        words = (entry.id, f"{event['at_s']:g} s", event["kind"], about, event.get("cause") or "")
        out.print("  ".join(word for word in words if word), markup=False)


def _told(entry: Entry) -> dict[str, Any]:
    return {"id": entry.id, "hash": entry.hash or None, "event": json.loads(entry.body)}


def _entries(entries: JournalEntries, archive: Archive, after: tuple[int, int]) -> Iterator[Entry]:
    """Those after a place: of the archive, where Redis does not have them any more."""
    first = entries.first()
    begins = None if first is None else first.place
    archived = (entry for entry in archive.entries(after) if begins is None or entry.place < begins)
    return chain(archived, entries.after("{}-{}".format(*after)))


def entries_of(client: redis.Redis, keys: RedisKeys, cloud: str, after: tuple[int, int]) -> Iterator[Entry]:
    """Those of a cloud's journal after a place, from its archive where the journal has been cut."""
    (name,) = _clouds(client, keys, cloud)
    entries, archive = _of(client, keys, name)
    with _readable(archive):
        yield from _entries(entries, archive, after)


@contextmanager
def _readable(archive: Archive) -> Iterator[None]:
    from broker.journal.archive import ArchiveError

    try:
        yield
    except (OSError, ArchiveError) as error:
        raise CommandError(f"{archive.directory} cannot be read: {error}", ExitCode.UNREACHABLE) from error


# -- where they are ------------------------------------------------------------------------------------------


def _of(client: redis.Redis, keys: RedisKeys, cloud: str) -> tuple[JournalEntries, Archive]:
    from broker.journal.archive import Archive, archive_directory
    from broker.journal.entries import JournalEntries
    from broker.settings import settings

    told = settings()
    return JournalEntries(client, keys, cloud), Archive(
        archive_directory(told.state_dir, told.key_prefix, cloud)
    )


def _clouds(client: redis.Redis, keys: RedisKeys, wanted: str | None) -> list[str]:
    """Members, and clouds with an archive here; only the wanted one."""
    from broker.journal.archive import archives_directory
    from broker.settings import settings

    told = settings()
    archives = archives_directory(told.state_dir, told.key_prefix)
    archived = {path.name for path in archives.iterdir()} if archives.is_dir() else set()
    known = sorted(archived | {name.decode() for name in cast("list[bytes]", client.hkeys(keys.clouds))})
    if wanted is not None and wanted not in known:
        raise CommandError(
            f"no cloud is called {wanted!r}; there are: {', '.join(known) or 'none'}", ExitCode.BAD_INPUT
        )
    return [name for name in known if wanted in (None, name)]
