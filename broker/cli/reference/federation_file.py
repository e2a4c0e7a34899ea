"""Federation files, as their reader documents them."""

from __future__ import annotations

import inspect

from broker.cli.reference.markdown import fenced, laid_out, prose
from cloudsim import federation_file
from cloudsim.scheduling.lineups import EVICTIONS, LINEUPS
from cloudsim.traces.profiles import PRODUCTION


def page() -> str:
    """The page."""
    example, rest = parts()
    more = (
        "Who is evicted for whom is told on [its own page](../concepts/eviction.md), and what the table "
        "`instances` of a real cloud holds [on another one](instances.md)."
    )
    schema = (
        "`spotfed config schema > federation.schema.json` writes a JSON Schema of these files. Editors that "
        "know Taplo (Even Better TOML in VS Code) complete and check a file whose first line is "
        "`#:schema ./federation.schema.json`. Commands that read the file check more: rules between fields, "
        "nodes and traces."
    )
    return laid_out(
        "Federation files",
        "Clouds, their own load and the workloads that they offer to each other, in TOML.",
        "All fields, each with a value that it may have:",
        "",
        fenced(example, "toml"),
        "",
        prose(rest),
        "",
        more,
        "",
        schema,
        "",
        f"- `lineup`: {_listed(one.name for one in LINEUPS)}",
        f"- `eviction`: {_listed(EVICTIONS)}",
        f"- `synthetic`: {_listed(['table-1', *(f'production-{name}' for name in PRODUCTION)])}",
        "",
        source="`cloudsim.federation_file`",
    )


def parts() -> tuple[str, str]:
    """Of the reader's docstring: the example, and what comes after it."""
    _, _, more = (inspect.getdoc(federation_file) or "").partition("\n\n")
    lines = more.splitlines()
    end = next(number for number, line in enumerate(lines) if line and not line.startswith(" "))
    return inspect.cleandoc("\n".join(lines[:end])), "\n".join(lines[end:])


def _listed(names: object) -> str:
    assert not isinstance(names, str)
    return ", ".join(f"`{name}`" for name in names)  # type: ignore[attr-defined]
