"""What the site has beside docs/: pages of the repository, pages of the code, and a navigation."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from reference import event_kinds, refusal_reasons
from reference import pages as pages_of_the_code

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent

# Pages that stand elsewhere in the repository, where others read them too.
GUESTS = {
    "how-to/operator/two-hosts.md": "deploy/README.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}
# Made from the code, see reference.py.
MADE = ("reference/commands.md", "reference/http-api.md")
SECTIONS = {
    "Tutorial": "tutorial",
    "How to": {
        "As a user": "how-to/user",
        "As an operator": "how-to/operator",
        "As a researcher": "how-to/researcher",
    },
    "Concepts": "concepts",
    "Design": "design",
    "Reference": "reference",
    "Development": "development",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Build the navigation: sections in their order, in each the pages in the order of its index."""
    config.nav = [
        {"Home": "index.md"},
        *({title: _section(where)} for title, where in SECTIONS.items()),
        {"Papers": "papers.md"},
        {"Security": "security.md"},
        {"Changes": "changelog.md"},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the guests, with links that lead to pages of the site, or name a path where there is none."""
    for page, source in GUESTS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=LINK.sub(partial(_led, page, source), text)))
    for page, text in pages_of_the_code().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Write the kinds of events and the reasons of refusals where a page asks for them."""
    return (
        markdown.replace("<!-- reasons of refusals -->", refusal_reasons())
        .replace("<!-- public events -->", event_kinds(public=True))
        .replace("<!-- other events -->", event_kinds(public=False))
    )


def _section(where: str | dict[str, str]) -> list[object]:
    if isinstance(where, dict):
        return [{title: _section(part)} for title, part in where.items()]
    pages = sorted(page.relative_to(DOCS).as_posix() for page in (DOCS / where).glob("*.md"))
    pages += [page for page in (*GUESTS, *MADE) if PurePosixPath(page).parent.as_posix() == where]
    index = f"{where}/index.md"
    # The order in which the index of the section leads to them; others after these.
    told = LINK.findall((DOCS / index).read_text(encoding="utf-8")) if index in pages else []
    order = [index, *(f"{where}/{target}" for _, target, _ in told)]
    return sorted(pages, key=lambda page: (order.index(page) if page in order else len(order), page))


def _led(page: str, source: str, link: re.Match[str]) -> str:
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target:
        return link[0]
    path = (ROOT / source).parent.joinpath(target).resolve().relative_to(ROOT).as_posix()
    homes = {origin: guest for guest, origin in GUESTS.items()}
    if path in homes:
        return f"[{text}]({'../' * page.count('/')}{homes[path]}{anchor})"
    if path.startswith("docs/"):
        return f"[{text}]({'../' * page.count('/')}{path.removeprefix('docs/')}{anchor})"
    return f"{text} (`{path}`)" if text != path else f"`{path}`"
