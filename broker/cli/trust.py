"""``trust``: the keys that messages of the federation are signed with, and whose keys are believed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.output import CommandError, ExitCode, JsonOption, console, next_step, print_json

if TYPE_CHECKING:
    from broker.trust import Files, PublicKey

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
    replace: Annotated[
        bool, typer.Option("--replace", help="Put a new key in the place of one that is there.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a key for the broker, the job managers or a cloud, and have it believed.

    The old public key stays in the file until `spotfed trust remove` takes it out; running processes go over
    to the new one by themselves. Where others have a trust file of their own, make the new key in another
    place (--key), give them its public half (`spotfed trust add`), and move it into its place afterwards.

    Example: spotfed trust create cloud.harbour
    """
    from broker import trust as keys

    path, trusted = key or _files().key(keys.checked_party(party)), _trust_file(file)
    if path.exists() and not replace:
        raise CommandError(
            f"{path} is there already: --replace makes a new key, --key names another file",
            ExitCode.BAD_INPUT,
        )
    made = keys.create(party, path, trusted)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    out = console()
    out.print(f"private key  {path}", soft_wrap=True)
    out.print(f"public key   {made.kid} of {party}, in {trusted}", soft_wrap=True)
    out.print(
        f"Its processes need SPOTFED_SIGNING_KEY={path} and SPOTFED_TRUST={trusted}",
        soft_wrap=True,
        style="dim",
    )


@trust.command()
def show(
    party: Annotated[str | None, typer.Argument(help="Only this party's keys.")] = None,
    file: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show whose keys are believed. With --json it is a JWK set that `spotfed trust add` takes on other
    machines.

    Example: spotfed trust show cloud.harbour --json > harbour.json
    """
    from broker.trust import KeySet, checked_party, read_set

    if party is not None:
        checked_party(party)
    path = _trust_file(file)
    found = [key for key in read_set(path).keys if party in (None, key.issuer)]
    if as_json:
        print_json(KeySet(keys=found).model_dump(mode="json"))
    else:
        _show(path, found)


@trust.command()
def add(
    other: Annotated[Path, typer.Argument(help="What `spotfed trust show --json` wrote elsewhere.")],
    file: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Believe the public keys in a file as well: those of the other members.

    Compare their ids with who sent them by another way (telephone): whose key is in the file may speak as the
    party it names.

    Example: spotfed trust add harbour.json
    """
    from broker.trust import KeySet, believe, read_set

    path = _trust_file(file)
    new = believe(path, read_set(other).keys)
    if as_json:
        print_json(KeySet(keys=new).model_dump(mode="json"))
    else:
        _show(path, new, "Added")
        next_step("compare these ids with whoever sent the file, by another way")


@trust.command()
def remove(
    key: Annotated[str, typer.Argument(help="The key's id, or the beginning of it.")],
    file: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop believing a key. What it signed is refused from now on, also what is still under way.

    Example: spotfed trust remove kPrK_qmxVWaYVA9wwBF6
    """
    from broker.trust import disbelieve

    path = _trust_file(file)
    gone = disbelieve(path, key)
    if as_json:
        print_json(gone.model_dump(mode="json"))
    else:
        console().print(f"removed {gone.kid} of {gone.issuer} from {path}", soft_wrap=True)


def _files() -> Files:
    from broker.settings import settings
    from broker.trust import files_in

    return files_in(settings().state_dir)


def _trust_file(file: Path | None) -> Path:
    from broker.settings import settings

    return file or settings().trust or _files().trust


def _show(path: Path, found: list[PublicKey], title: str = "Believed") -> None:
    from rich.table import Table

    table = Table(title=f"{title}: {path}", title_justify="left")
    table.add_column("party")
    table.add_column("key id")
    for key in sorted(found, key=lambda one: (one.issuer, one.kid)):
        table.add_row(key.issuer, key.kid)
    console().print(table)
