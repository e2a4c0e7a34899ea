"""``dlq``: commands that the owner of a cloud could not read or process, and set aside."""

from __future__ import annotations

from typing import Annotated, Any, cast

import redis
import typer
from rich.table import Column
from rich.text import Text

from broker.cli import formatting
from broker.cli.console import JsonOption, next_step, number, print_text, show_list, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.options import CloudFilter
from broker.cli.redis_connection import connected_redis
from broker.contract import VERSION
from broker.journal.dead_letters import DeadLetter, DeadLetters, ReplayError
from broker.journal.journal import Journal
from broker.settings import Settings, settings
from broker.signing.key_files import local_key_files
from broker.signing.parties import BROKER
from broker.signing.signer import MessageSigner
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import read_federation_version

dlq = typer.Typer(
    no_args_is_help=True,
    help="Show what the clouds' owners could not process and set aside, send it again, or drop it. Needs the "
    "queue itself: SPOTFED_REDIS_URL, or `spotfed up` on this machine.",
)

LetterArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the dead letter, see `spotfed dlq list`.")
]


@dlq.command("list")
def list_letters(cloud: CloudFilter = None, as_json: JsonOption = False) -> None:
    """Show the dead letters of all clouds, oldest first: when, why, and how large.

    Example: spotfed dlq list --cloud A
    """
    with connected_redis() as (client, keys):
        letters = [letter for box in _boxes(client, keys, cloud) for letter in box.letters()]
        now_ms = _now_ms(client)
    if as_json:
        show_one({"dead_letters": [_letter_dict(letter, now_ms) for letter in letters]}, as_json=True)
        return
    show_list(
        "dead_letters",
        letters,
        *(Column(heading, overflow="fold") for heading in ("id", "cloud", "age", "reason", "why")),
        number("bytes"),
        row=lambda letter: _letter_row(letter, now_ms),
        as_json=False,
        title="Dead letters",
        none="no dead letters",
    )
    if letters:
        print_text(f"{len(letters)} dead letters")
        first = letters[0].id
        next_step(f"spotfed dlq show {first}, then spotfed dlq replay {first} or spotfed dlq drop {first}")


@dlq.command()
def show(letter: LetterArgument, cloud: CloudFilter = None, as_json: JsonOption = False) -> None:
    """Show one dead letter with its body, cut off where it is long; what looks like a secret is left out.

    Example: spotfed dlq show 1795862400000-0
    """
    with connected_redis() as (client, keys):
        _, match = _find_letter(client, keys, cloud, letter)
        view = _letter_dict(match, _now_ms(client)) | {"body": match.format_body()}
    lines = (Text.assemble((f"{name}: ", "bold"), str(value)) for name, value in view.items())
    show_one(view, *lines, as_json=as_json)


@dlq.command()
def replay(letter: LetterArgument, cloud: CloudFilter = None, as_json: JsonOption = False) -> None:
    """Send the commands of a dead letter to their cloud again, if they are valid now.

    Useful once the cause is gone: an upgraded owner, a fixed bug. Commands keep their ids, so that one that
    was carried out after all is not carried out twice. Exit code 3 when it cannot be sent again.

    Example: spotfed dlq replay 1795862400000-0
    """
    with connected_redis() as (client, keys):
        box, match = _find_letter(client, keys, cloud, letter)
        try:
            commands = match.parse_commands()
        except ReplayError as error:
            raise CommandError(f"dead letter {letter} of {match.cloud}: {error}", ExitCode.REFUSED) from error
        version, signer = min(read_federation_version(client, keys), VERSION), _broker_signer(settings())
        needs_signature = client.hexists(keys.cloud_signatures, match.cloud)
        if needs_signature and not signer.sign(b"", keys.inbox(match.cloud)):
            raise CommandError(
                f"{match.cloud} accepts signed commands only: set SPOTFED_SIGNING_KEY to the broker's key",
                ExitCode.REFUSED,
            )
        journal = Journal(client, keys, match.cloud, signer, speaks=lambda: version)
        entry = journal.send(match.cloud, commands)
        box.drop(letter)
    show_one(
        {"cloud": match.cloud, "commands": [command.id for command in commands], "entry": entry},
        f"sent {len(commands)} of its commands to {match.cloud} again, as entry {entry}",
        as_json=as_json,
    )


@dlq.command()
def drop(
    letters: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids of dead letters, see `spotfed dlq list`."),
    ] = None,
    cloud: CloudFilter = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, or all of --cloud.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove dead letters for good.

    Example: spotfed dlq drop --all --cloud A
    """
    if bool(letters) == everything:
        raise CommandError("name dead letters by their ids, or --all of them", ExitCode.BAD_INPUT)
    with connected_redis() as (client, keys):
        if everything:
            matches = [(box, letter.id) for box in _boxes(client, keys, cloud) for letter in box.letters()]
        else:  # nothing is dropped unless all are there
            matches = [(_find_letter(client, keys, cloud, letter)[0], letter) for letter in letters or ()]
        dropped = sum(box.drop(letter) for box, letter in matches)
    show_one({"dropped": dropped}, f"dropped {dropped}", as_json=as_json)


def _boxes(client: redis.Redis, keys: RedisKeys, cloud: str | None) -> list[DeadLetters]:
    """Return the boxes of all clouds, or of one. Raises CommandError when there is no such cloud."""
    known = sorted(name.decode() for name in cast("list[bytes]", client.hkeys(keys.clouds)))
    if cloud is not None and cloud not in known:
        raise CommandError(
            f"--cloud: no member is called {cloud!r}; there are: {', '.join(known) or 'none'}",
            ExitCode.BAD_INPUT,
        )
    return [DeadLetters(client, keys, name) for name in known if cloud in (None, name)]


def _find_letter(
    client: redis.Redis, keys: RedisKeys, cloud: str | None, letter_id: str
) -> tuple[DeadLetters, DeadLetter]:
    """Return a dead letter and its box. Raises CommandError unless there is exactly one of this id."""
    boxes = _boxes(client, keys, cloud)
    matches = [(box, letter) for box in boxes if (letter := box.get(letter_id)) is not None]
    if not matches:
        raise CommandError(
            f"there is no dead letter {letter_id!r}: see `spotfed dlq list`", ExitCode.BAD_INPUT
        )
    if len(matches) > 1:
        clouds = ", ".join(box.cloud for box, _ in matches)
        raise CommandError(f"{letter_id} is in {clouds}: choose one with --cloud", ExitCode.BAD_INPUT)
    return matches[0]


def _broker_signer(config: Settings) -> MessageSigner:
    """Return a signer with the broker's key: the one in the settings, else one kept on this machine."""
    path = local_key_files(config.state_dir).key(BROKER)
    if config.signing_key is None and path.exists():
        config = config.model_copy(update={"signing_key": path})
    return MessageSigner.from_settings(config, BROKER)


def _now_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return seconds * 1000 + microseconds // 1000


def _letter_dict(letter: DeadLetter, now_ms: int) -> dict[str, Any]:
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


def _letter_row(letter: DeadLetter, now_ms: int) -> tuple[Text, ...]:
    age = formatting.duration(letter.age_s(now_ms))
    cells = (letter.id, letter.cloud, age, letter.kind.value, letter.why, str(letter.size_bytes))
    return tuple(map(Text, cells))
