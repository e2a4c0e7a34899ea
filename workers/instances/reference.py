"""The reference page of `[cloud.instances]`: ``python -m workers.instances.reference > instances.md``."""

from __future__ import annotations

import inspect
from typing import Any

import typer
from pydantic import BaseModel

from broker.cli.reference.markdown import fenced, laid_out, prose
from broker.cli.reference.schemas import described
from workers.instances import options, slurm_options
from workers.instances.common_options import CommonOptions, HttpOptions
from workers.instances.options import Ec2Options, OpenStackOptions
from workers.instances.slurm_options import SlurmOptions

_KINDS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Every driver", CommonOptions),
    ("Drivers of HTTP APIs", HttpOptions),
    ("ec2", Ec2Options),
    ("openstack", OpenStackOptions),
    ("slurm", SlurmOptions),
)


_SHARED = (CommonOptions, HttpOptions)


def page() -> str:
    """The page."""
    told = (
        "The table `[cloud.instances]` within a `[[cloud]]` of a [federation file](federation-file.md). A "
        "cloud that has it is a real one, see [real clouds](../concepts/real-clouds.md)."
    )
    parts = [told]
    for module in (options, slurm_options):
        _, example, rest = _said(module)
        parts += ["", fenced(example, "toml"), "", prose(rest)]
    for title, kind in _KINDS:
        schema = _whole(kind.model_json_schema())
        bases = (base for base in _SHARED if base is not kind and issubclass(kind, base))
        known = {name for base in bases for name in base.model_json_schema()["properties"]}
        schema["properties"] = {name: one for name, one in schema["properties"].items() if name not in known}
        parts += ["", f"## {title}", "", *described(schema)]
    about = "How the leases of a cloud become instances of a real one: the options of each driver."
    return laid_out("Instances of real clouds", about, *parts, source="`workers.instances.options`")


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """With what it refers to in its place."""
    kinds = schema.get("$defs", {})
    for name, one in schema["properties"].items():
        reference = one.get("$ref", "")
        schema["properties"][name] = {**kinds.get(reference.rpartition("/")[2], {}), **one}
        schema["properties"][name].pop("$ref", None)
    return schema


def _said(module: object) -> tuple[str, str, str]:
    """What a module says: its first sentence, its example, what comes after."""
    summary, _, more = (inspect.getdoc(module) or "").partition("\n\n")
    lines = inspect.cleandoc(more).splitlines()
    end = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    return summary, inspect.cleandoc("\n".join(lines[:end])), "\n".join(lines[end:])


if __name__ == "__main__":
    typer.echo(page(), nl=False)
