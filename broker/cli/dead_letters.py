"""``dlq``: what the clouds' owners put aside because they could not read it, or broke over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from broker.cli import formatting
from broker.cli.connection import queue
from broker.cli.console import CommandError, ExitCode, JsonOption, console, next_step, print_json
from broker.cli.federation import CloudOption

if TYPE_CHECKING:
    import redis

    from broker.journal.dead_letters import DeadLetter, DeadLetters
    from broker.settings import Settings
    from broker.signing.signer import MessageSigner
    from broker.storage.keys import RedisKeys

dlq = typer.Typer(
    no_args_is_help=True,
    help="Look at what the clouds' owners put aside, send it again, or drop it. Needs the queue itself: "
    "SPOTFED_REDIS_URL, or `spotfed up` on this machine.",
)

LetterArgument = Annotated[str, typer.Argument(metavar="ID", help="As `spotfed dlq list` shows it.")]


@dlq.command("list")
def list_letters(cloud: CloudOption = None, as_json: JsonOption = False) -> None:
    """Show the dead letters of all clouds, oldest first: when, why, and how large.

    Example: spotfed dlq list --cloud A
    """
    with queue() as (client, keys):
        letters = [letter for one in _boxes(client, keys, cloud) for letter in one.letters()]
        now_ms = _now_ms(client)
    if as_json:
        print_json({"dead_letters": [_told(letter, now_ms) for letter in letters]})
    else:
        _show_list(letters, now_ms)
        if letters:
            one = letters[0].id
            next_step(f"spotfed dlq show {one}, then spotfed dlq replay {one} or spotfed dlq drop {one}")


@dlq.command()
def show(letter: LetterArgument, cloud: CloudOption = None, as_json: JsonOption = False) -> None:
    """Show one dead letter with its body, cut off where it is long; what looks like a secret is left out.

    Example: spotfed dlq show 1795862400000-0
    """
    with queue() as (client, keys):
        _, found = _one(client, keys, cloud, letter)
        told = _told(found, _now_ms(client)) | {"body": found.format_body()}
    if as_json:
        print_json(told)
        return
    from rich.text import Text

    out = console()
    for name, value in told.items():
        out.print(Text.assemble((f"{name}: ", "bold"), str(value)))


@dlq.command()
def replay(letter: LetterArgument, cloud: CloudOption = None, as_json: JsonOption = False) -> None:
    """Send the commands of a dead letter to their cloud again, if they are valid now.

    Useful once the reason is gone: an upgraded owner, a mended bug. Commands keep their ids, so that one that
    was carried out after all is not carried out twice. Exit code 3 when it cannot be sent again.

    Example: spotfed dlq replay 1795862400000-0
    """
    from broker.contract import VERSION
    from broker.journal.dead_letters import ReplayError
    from broker.journal.journal import Journal
    from broker.settings import settings
    from broker.storage.negotiation import read_federation_version

    with queue() as (client, keys):
        box, found = _one(client, keys, cloud, letter)
        try:
            commands = found.parse_commands()
        except ReplayError as error:
            raise CommandError(f"dead letter {letter} of {found.cloud}: {error}", ExitCode.REFUSED) from error
        version, signing = min(read_federation_version(client, keys), VERSION), _signing(settings())
        if client.hexists(keys.cloud_signatures, found.cloud) and not signing.sign(
            b"", keys.inbox(found.cloud)
        ):
            raise CommandError(
                f"{found.cloud} believes signed commands only: set SPOTFED_SIGNING_KEY to the broker's key",
                ExitCode.REFUSED,
            )
        journal = Journal(client, keys, found.cloud, signing, speaks=lambda: version)
        entry = journal.send(found.cloud, commands)
        box.drop(letter)
    if as_json:
        print_json({"cloud": found.cloud, "commands": [command.id for command in commands], "entry": entry})
    else:
        console().print(f"sent {len(commands)} of its commands to {found.cloud} again, as entry {entry}")


@dlq.command()
def drop(
    letters: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="As `spotfed dlq list` shows them.")
    ] = None,
    cloud: CloudOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, or all of --cloud.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove dead letters for good.

    Example: spotfed dlq drop --all --cloud A
    """
    if bool(letters) == everything:
        raise CommandError("name dead letters by their ids, or --all of them", ExitCode.BAD_INPUT)
    with queue() as (client, keys):
        if everything:
            found = [(box, letter.id) for box in _boxes(client, keys, cloud) for letter in box.letters()]
        else:  # nothing is dropped unless all are there
            found = [(_one(client, keys, cloud, letter)[0], letter) for letter in letters or ()]
        dropped = sum(box.drop(letter) for box, letter in found)
    if as_json:
        print_json({"dropped": dropped})
    else:
        console().print(f"dropped {dropped}")


# -- the queue -----------------------------------------------------------------------------------------------


def _boxes(client: redis.Redis, keys: RedisKeys, cloud: str | None) -> list[DeadLetters]:
    from broker.journal.dead_letters import DeadLetters

    known = sorted(name.decode() for name in cast("list[bytes]", client.hkeys(keys.clouds)))
    if cloud is not None and cloud not in known:
        raise CommandError(
            f"--cloud: no member is called {cloud!r}; there are: {', '.join(known) or 'none'}",
            ExitCode.BAD_INPUT,
        )
    return [DeadLetters(client, keys, name) for name in known if cloud in (None, name)]


def _one(
    client: redis.Redis, keys: RedisKeys, cloud: str | None, letter: str
) -> tuple[DeadLetters, DeadLetter]:
    found = [(box, one) for box in _boxes(client, keys, cloud) if (one := box.get(letter)) is not None]
    if not found:
        raise CommandError(f"there is no dead letter {letter!r}: see `spotfed dlq list`", ExitCode.BAD_INPUT)
    if len(found) > 1:
        clouds = ", ".join(box.cloud for box, _ in found)
        raise CommandError(f"{letter} is there in {clouds}: say which with --cloud", ExitCode.BAD_INPUT)
    return found[0]


def _signing(told: Settings) -> MessageSigner:
    """With the broker's key, told or kept on this machine, where there is one."""
    from broker.signing.key_files import local_key_files
    from broker.signing.parties import BROKER
    from broker.signing.signer import MessageSigner

    kept = local_key_files(told.state_dir).key(BROKER)
    if told.signing_key is None and kept.exists():
        told = told.model_copy(update={"signing_key": kept})
    return MessageSigner.from_settings(told, BROKER)


def _now_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return seconds * 1000 + microseconds // 1000


# -- for people ----------------------------------------------------------------------------------------------


def _told(letter: DeadLetter, now_ms: int) -> dict[str, Any]:
    return {
        "id": letter.id,
        "cloud": letter.cloud,
        "reason": letter.kind.value,
        "why": letter.why,
        "age_s": round(letter.age_s(now_ms), 3),
        "of": letter.of,
        "commands": len(letter.items),
        "size_bytes": letter.size_bytes,
        "kept_bytes": len(letter.body),
    }


def _show_list(letters: list[DeadLetter], now_ms: int) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Dead letters", title_justify="left")
    for heading in ("id", "cloud", "age", "reason", "why"):
        table.add_column(heading, overflow="fold")
    table.add_column("bytes", justify="right")
    for letter in letters:
        row = (
            letter.id,
            letter.cloud,
            formatting.duration(letter.age_s(now_ms)),
            letter.kind.value,
            letter.why,
        )
        table.add_row(*map(Text, row), str(letter.size_bytes))
    out = console()
    if letters:
        out.print(table)
    out.print(f"{len(letters)} dead letters" if letters else "no dead letters")
