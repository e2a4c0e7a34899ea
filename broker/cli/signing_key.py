"""``trust``: make the keys that sign messages between processes, and choose which public keys are trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from broker.cli.console import JsonOption, next_step, print_json, show_list, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.settings import settings
from broker.signing.key_files import (
    KeyFiles,
    KeySet,
    PublicKey,
    check_party,
    create_key,
    distrust_key,
    local_key_files,
    read_trust_file,
    trust_keys,
)

trust = typer.Typer(
    no_args_is_help=True,
    help="Make and exchange the keys that messages between the broker and the clouds are signed with.",
)

Party = Annotated[
    str, typer.Argument(help="Who signs with it: 'broker', 'jobs', or a cloud as in 'cloud.harbour'.")
]
TrustOption = Annotated[
    Path | None,
    typer.Option(
        "--trust",
        help="The file of public keys.",
        show_default="SPOTFED_TRUST, else keys/trust.json in the state directory",
    ),
]


@trust.command()
def create(
    party: Party,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            help="Where the private key goes; never into Redis, never to another machine.",
            show_default="keys/PARTY.key in the state directory",
        ),
    ] = None,
    file: TrustOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a key that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a key for the broker, the job managers or a cloud, and trust it.

    The old public key stays in the file until `spotfed trust remove` takes it out; running processes go over
    to the new one by themselves. Where others have a trust file of their own, make the new key in another
    place (--key), give them its public half (`spotfed trust add`), and move it into its place afterwards.

    Example: spotfed trust create cloud.harbour
    """
    path, trust_file = key or _key_files().key(check_party(party)), _trust_file(file)
    if path.exists() and not replace:
        raise CommandError(
            f"{path} is there already: --replace makes a new key, --key names another file",
            ExitCode.BAD_INPUT,
        )
    public_key = create_key(party, path, trust_file)
    environment = f"Its processes need SPOTFED_SIGNING_KEY={path} and SPOTFED_TRUST={trust_file}"
    show_one(
        public_key,
        escape(f"private key  {path}"),
        escape(f"public key   {public_key.kid} of {party}, in {trust_file}"),
        f"[dim]{escape(environment)}[/dim]",
        as_json=as_json,
    )


@trust.command()
def show(
    party: Annotated[str | None, typer.Argument(help="Only this party's keys.")] = None,
    file: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which public keys are trusted.

    With --json it is a JWK set, which `spotfed trust add` takes on other machines.

    Example: spotfed trust show cloud.harbour --json > harbour.json
    """
    if party is not None:
        check_party(party)
    path = _trust_file(file)
    keys = [key for key in read_trust_file(path).keys if party in (None, key.issuer)]
    _show_keys(path, keys, "Trusted", as_json=as_json)


@trust.command()
def add(
    other: Annotated[Path, typer.Argument(help="What `spotfed trust show --json` wrote elsewhere.")],
    file: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Trust the public keys in a file as well: those of the other members.

    Compare their ids with their owner by another way (telephone): a key in the file may speak as the party
    that it names.

    Example: spotfed trust add harbour.json
    """
    path = _trust_file(file)
    added = trust_keys(path, read_trust_file(other).keys)
    _show_keys(path, added, "Added", as_json=as_json)
    if not as_json:
        next_step("compare these ids with whoever sent the file, by another way")


@trust.command()
def remove(
    key: Annotated[str, typer.Argument(help="The key's id, or the beginning of it.")],
    file: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop trusting a key. What it signed is refused from now on, also what is still under way.

    Example: spotfed trust remove kPrK_qmxVWaYVA9wwBF6
    """
    path = _trust_file(file)
    removed = distrust_key(path, key)
    show_one(removed, escape(f"removed {removed.kid} of {removed.issuer} from {path}"), as_json=as_json)


def _key_files() -> KeyFiles:
    return local_key_files(settings().state_dir)


def _trust_file(file: Path | None) -> Path:
    return file or settings().trust or _key_files().trust


def _show_keys(path: Path, keys: list[PublicKey], title: str, *, as_json: bool) -> None:
    if as_json:
        print_json(KeySet(keys=keys))
        return
    show_list(
        "keys",
        sorted(keys, key=lambda key: (key.issuer, key.kid)),
        *("party", "key id"),
        row=lambda key: (key.issuer, key.kid),
        as_json=False,
        title=f"{title}: {path}",
    )
