"""Commands ``trust``: make the keys that sign messages between processes, and choose whose are believed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.console import CommandError, ExitCode, JsonOption, console, next_step, print_json

if TYPE_CHECKING:
    from broker.signing.key_files import KeyFiles, PublicKey

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
    from broker.signing.key_files import check_party, create_key

    path, trust_file = key or _key_files().key(check_party(party)), _trust_file(file)
    if path.exists() and not replace:
        raise CommandError(
            f"{path} is there already: --replace makes a new key, --key names another file",
            ExitCode.BAD_INPUT,
        )
    public_key = create_key(party, path, trust_file)
    if as_json:
        print_json(public_key.model_dump(mode="json"))
        return
    out = console()
    out.print(f"private key  {path}", soft_wrap=True)
    out.print(f"public key   {public_key.kid} of {party}, in {trust_file}", soft_wrap=True)
    out.print(
        f"Its processes need SPOTFED_SIGNING_KEY={path} and SPOTFED_TRUST={trust_file}",
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
    from broker.signing.key_files import KeySet, check_party, read_trust_file

    if party is not None:
        check_party(party)
    path = _trust_file(file)
    keys = [key for key in read_trust_file(path).keys if party in (None, key.issuer)]
    if as_json:
        print_json(KeySet(keys=keys).model_dump(mode="json"))
    else:
        _show_keys(path, keys)


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
    from broker.signing.key_files import KeySet, read_trust_file, trust_keys

    path = _trust_file(file)
    new = trust_keys(path, read_trust_file(other).keys)
    if as_json:
        print_json(KeySet(keys=new).model_dump(mode="json"))
    else:
        _show_keys(path, new, "Added")
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
    from broker.signing.key_files import distrust_key

    path = _trust_file(file)
    removed = distrust_key(path, key)
    if as_json:
        print_json(removed.model_dump(mode="json"))
    else:
        console().print(f"removed {removed.kid} of {removed.issuer} from {path}", soft_wrap=True)


def _key_files() -> KeyFiles:
    from broker.settings import settings
    from broker.signing.key_files import local_key_files

    return local_key_files(settings().state_dir)


def _trust_file(file: Path | None) -> Path:
    from broker.settings import settings

    return file or settings().trust or _key_files().trust


def _show_keys(path: Path, keys: list[PublicKey], title: str = "Believed") -> None:
    from rich.table import Table

    table = Table(title=f"{title}: {path}", title_justify="left")
    table.add_column("party")
    table.add_column("key id")
    for key in sorted(keys, key=lambda key: (key.issuer, key.kid)):
        table.add_row(key.issuer, key.kid)
    console().print(table)
