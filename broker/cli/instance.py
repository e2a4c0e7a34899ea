"""``instance``: what a spot lease has on its real cloud."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from broker.cli import formatting
from broker.cli.connection import connected
from broker.cli.console import JsonOption, console, print_json


def instance(
    lease: Annotated[str, typer.Argument(help="Id of the lease.")], as_json: JsonOption = False
) -> None:
    """Show the instance of a spot lease on a real cloud: its name there, addresses, state.

    Example: spotfed instance 4f1c9a.1
    """
    with connected() as client:
        found = client.leases.get_instance(lease)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    out = console()
    lasting = formatting.duration(max(0.0, time.time() - found.since))
    out.print(f"{lease}: {found.own_id or 'no instance yet'}, {found.state} for {lasting}", markup=False)
    if found.addresses:
        out.print(f"addresses: {', '.join(found.addresses)}", markup=False)
    if found.why:
        out.print(f"why: {found.why}", soft_wrap=True, markup=False)
