"""The reference pages of the documentation, made of the code: ``python -m broker.cli.reference DIRECTORY``.

Nothing on them is written by hand: they repeat what commands, settings, messages, routes and metrics say of
themselves in their help, docstrings and remarks. A test compares the pages that are kept with new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

#: File → module with a ``page()``, in the order of the index.
PAGES = {
    "commands.md": "commands",
    "exit-codes.md": "exit_codes",
    "settings.md": "settings",
    "federation-file.md": "federation_file",
    "http-api.md": "http_api",
    "problems.md": "problems",
    "events.md": "events",
    "metrics.md": "metrics",
    "words.md": "words",
}


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of every page but the index."""
    for name, module in PAGES.items():
        yield name, str(import_module(f"{__name__}.{module}").page())


def write(directory: Path) -> None:
    """All pages into a directory, which is made where there is none, and an index of what is there then."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (directory / name).write_text(text, encoding="utf-8")
    there = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*.md")}
    (directory / "index.md").write_text(index(there), encoding="utf-8")


def index(made: Mapping[str, str]) -> str:
    """The index of these pages: those of ``PAGES`` in their order, then others, such as the workers'."""
    from broker.cli.reference.markdown import laid_out, table

    order = [*PAGES, *sorted(made.keys() - PAGES.keys() - {"index.md"})]
    rows = []
    for name in order:
        title, _, rest = made[name].partition("\n")
        first = rest.strip().partition("\n\n")[0]
        rows.append((f"[{title.removeprefix('# ')}]({name})", first))
    return laid_out("Reference", "All that can be said and told, by kind.", "", table(("page", "what"), rows))
