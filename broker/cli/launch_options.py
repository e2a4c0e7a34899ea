"""Options that say what an instance of a real cloud runs: its image, key, user data and the like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from broker.cli.options import build_model, parse_pairs
from broker.contract.launch import Launch
from cloudsim.model.errors import InputError

_PANEL = "What it runs, on a real cloud"

ImageOption = Annotated[
    str | None, typer.Option(help="Image, by the name that the cloud allows.", rich_help_panel=_PANEL)
]
InstanceTypeOption = Annotated[
    str | None,
    typer.Option(help="Flavour or instance type, by the cloud's name.", rich_help_panel=_PANEL),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(help="File with a public key of SSH, which may log in.", rich_help_panel=_PANEL),
]
UserDataOption = Annotated[
    Path | None,
    typer.Option(
        help="File that it runs when it starts (cloud-init); on a batch system the job's script.",
        rich_help_panel=_PANEL,
    ),
]
NetworkOption = Annotated[
    list[str] | None, typer.Option(help="Network; may be repeated.", rich_help_panel=_PANEL)
]
SecurityGroupOption = Annotated[
    list[str] | None, typer.Option(help="Security group; may be repeated.", rich_help_panel=_PANEL)
]
TagOption = Annotated[
    list[str] | None, typer.Option(help="Tag: team=x; may be repeated.", rich_help_panel=_PANEL)
]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(help="Argument of the script; may be repeated.", rich_help_panel=_PANEL),
]
EnvironmentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        help="Variable of the script: NAME=VALUE; may be repeated.",
        rich_help_panel=_PANEL,
    ),
]

_OPTION_OF_FIELD = {
    "networks": "--network",
    "security_groups": "--security-group",
    "tags": "--tag",
    "arguments": "--argument",
    "environment": "--env",
}


class LaunchOptions(NamedTuple):
    """The options of a launch, as they were written on the command line."""

    image: str | None = None
    instance_type: str | None = None
    key: Path | None = None
    user_data: Path | None = None
    networks: list[str] | None = None
    security_groups: list[str] | None = None
    tags: list[str] | None = None
    arguments: list[str] | None = None
    environment: list[str] | None = None

    def launch(self) -> Launch | None:
        """Return the launch that the options describe, None if there are none.

        Raises InputError naming an option.
        """
        if not any(self):
            return None
        fields: dict[str, Any] = {
            "image": self.image,
            "instance_type": self.instance_type,
            "key": _read(self.key, "--key"),
            "user_data": _read(self.user_data, "--user-data"),
            "networks": tuple(self.networks or ()),
            "security_groups": tuple(self.security_groups or ()),
            "tags": parse_pairs(self.tags, field="--tag"),
            "arguments": tuple(self.arguments or ()),
            "environment": parse_pairs(self.environment, field="--env", strip=False),
        }
        return build_model(Launch, fields, _OPTION_OF_FIELD, whole="--user-data")


def _read(path: Path | None, option: str) -> str | None:
    try:
        return None if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path} cannot be read: {error}", field=option) from error
