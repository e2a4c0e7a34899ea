"""Citations in the code lead to a heading of docs/design, or to a part of a paper on docs/papers.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted(
    path
    for top in ("broker", "cloudsim", "workers", "tests")
    for path in (ROOT / top).rglob("*.py")
    if path != Path(__file__).resolve()
)

#: A page of docs/design with the headings that are quoted right after it.
DESIGN = re.compile(r"""docs/design/([\w-]+\.md)((?:,?(?: and)? ["“][^"”]+["”])*)""")
HEADING = re.compile(r"""["“]([^"”]+)["”]""")
#: A short name of a paper with the parts that follow it: "P3 §3.3, Figures 6 and 7".
NUMBER = r"(?:[A-Z]-[A-Z]|[IVX]+(?:-[A-Z])?|\d+[a-z]?(?:\.\d+)*)"
KIND = r"(?:§+|Figures? |Fig\. |Tables? |Equations? |Algorithms? |Appendix )"
PART = rf"{KIND}(?:{NUMBER})(?:(?:, | and | to |, §| and §| to §){NUMBER}\b(?! (?!and\b|to\b)[a-z]))*"
PAPER = re.compile(rf"\b(P[1-5]) ({PART}(?:(?:, | and |, and | \(){PART})*)")
ANY_PAGE = re.compile(r"\b[A-Z][A-Z0-9_]+\.md\b")
#: Pages of the repository, and the page that lies beside each data set.
PAGES = {
    "PROVENANCE.md",
    *(path.name for top in ("", "docs", "deploy", "tests") for path in (ROOT / top).glob("*.md")),
}
OLD_NAME = re.compile(r"\b[Pp]aper 00\d\b|\b00[0-4] (?:§|Figure|Table|Equation|Algorithm)")


def prose(path: Path) -> str:
    """Return a file as one line, so that a citation may go over the end of a line."""
    text = re.sub(r"\n\s*#:? ?", " ", path.read_text(encoding="utf-8"))
    text = re.sub(r'"\n\s*f?"', "", text)
    return re.sub(r"\s+", " ", text)


@cache
def headings(page: str) -> frozenset[str]:
    text = (ROOT / "docs/design" / page).read_text(encoding="utf-8")
    return frozenset(line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("#"))


def numbers(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, number) of each part named: "Figures 9 to 11" gives three."""
    for part in re.findall(PART, text):
        kind = re.match(KIND, part)[0].strip(" .s")[:3]  # type: ignore[index]
        first = last = ""
        for joint, number in re.findall(rf"(^|, |and | to |to §|§)?§?({NUMBER})", part[len(kind) :]):
            first, last = last, number
            if "to" in joint and first.isdigit() and last.isdigit():
                yield from ((kind, str(between)) for between in range(int(first) + 1, int(last)))
            yield kind, number


def shorter(number: str) -> Iterator[str]:
    """Yield the number and what contains it: 3.3.2, 3.3, 3; 7a, 7; III-A, III."""
    yield number
    while (cut := re.sub(r"[.-]?\w$" if re.search(r"[.-]\w$", number) else r"[a-z]$", "", number)) != number:
        number = cut
        yield number


@cache
def listed() -> dict[str, frozenset[tuple[str, str]]]:
    """Return the parts of each paper in the first column of docs/papers.md."""
    parts: dict[str, set[tuple[str, str]]] = {f"P{number}": set() for number in range(1, 6)}
    section = ""
    for line in (ROOT / "docs/papers.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"## (P[1-5])", line):
            section = match[1]
        elif line.startswith("## "):
            section = ""
        elif section and line.startswith("| "):
            where = line.split("|")[1]
            for piece in re.split(r"(?=\bP[12] )", where):
                paper = match[1] if (match := re.match(r"(P[12]) ", piece)) else section
                parts[paper] |= {
                    (kind, whole) for kind, number in numbers(piece) for whole in shorter(number)
                }
    return {paper: frozenset(found) for paper, found in parts.items()}


def test_the_lists_are_read() -> None:
    assert list(numbers("§3.3.2, §5 and Figures 9 to 11")) == [
        ("§", "3.3.2"), ("§", "5"), ("Fig", "9"), ("Fig", "10"), ("Fig", "11"),
    ]  # fmt: skip
    assert ("Tab", "III") in listed()["P1"]
    assert {("Fig", "20"), ("§", "5.6")} <= listed()["P3"]
    assert list(shorter("3.3.2")) == ["3.3.2", "3.3", "3"]
    assert list(shorter("III-A")) == ["III-A", "III"]


def test_design_pages_and_headings_are_there() -> None:
    cited = 0
    for path in SOURCES:
        for page, quoted in DESIGN.findall(prose(path)):
            assert (ROOT / "docs/design" / page).is_file(), f"{path}: {page}"
            for heading in HEADING.findall(quoted):
                cited += 1
                assert heading in headings(page), f"{path}: {page} has no heading {heading!r}"
    assert cited > 50


def test_parts_of_papers_are_on_the_map() -> None:
    cited = 0
    for path in SOURCES:
        for paper, parts in PAPER.findall(prose(path)):
            for kind, number in numbers(parts):
                cited += 1
                assert any((kind, each) in listed()[paper] for each in shorter(number)), (
                    f"{path}: docs/papers.md has no {kind} {number} of {paper}"
                )
    assert cited > 80


@pytest.mark.parametrize("pattern", [ANY_PAGE, OLD_NAME], ids=["pages", "papers"])
def test_nothing_is_cited_that_a_reader_does_not_have(pattern: re.Pattern[str]) -> None:
    for path in SOURCES:
        for cited in pattern.findall(prose(path)):
            assert cited in PAGES, f"{path}: {cited}"
