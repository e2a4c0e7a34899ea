"""The printed numbers beside ours as one HTML file, and as tables in docs/papers.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from broker.experiments.papers.comparison import (
    DIFFERS,
    HOLDS,
    NOT_COMPUTED,
    NOT_RUN,
    NUMBERS,
    compare,
    count,
    statements,
)
from broker.experiments.papers.number import ABOUT
from broker.experiments.report import number
from broker.experiments.runner import write, write_csv, write_json
from cloudsim.experiments.experiment import Row, where
from cloudsim.model.errors import SpecError

SCHEMA = "spotfed.experiment-papers/1"
PAGE = "papers.html"

_RULE = (
    "A number holds where ours, or its 95 % interval, reaches what would be printed like it. Said with "
    f"“about”, “nearly” or “up to”, or without digits to round to, it may be {ABOUT:.0%} off; said with “at "
    "most” or “at least”, ours has to keep it. The interval is that of one more run where ours are several "
    "seeds or draws, that of the mean of jobs or pools, and else the exact binomial one of the counted "
    "requests; without one, ours is a single value."
)
_HEADS = ("where", "number", "printed", "ours", "95 %", "holds?", "how")
_STATEMENT_HEADS = ("where", "statement", "holds?", "ours", "how")
_MARK = "<!-- {} of {}, made by spotfed experiment papers -->"


def write_comparison(
    results: Mapping[str, Mapping[str, Any]], out: Path, page: Path | None = None
) -> dict[str, Any]:
    """Write OUT/papers.html, papers.csv and papers.json, and the marked parts of a Markdown page.

    Return the content of papers.json: schema, quick, computed (the number of printed numbers that were),
    counts [{paper, verdicts {verdict: number of rows}}], numbers (see ``comparison.compare``), statements
    (see ``comparison.statements``), not_computed [{paper, where, what, numbers, why}].

    Raises
    ------
    MissingRowError
        When an experiment ran whole and has no row for a number.
    SpecError
        When the page has no marks for a paper.
    """
    rows, said = compare(results), statements(results)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "quick": any(result["manifest"]["quick"] for result in results.values()),
        "computed": count(rows),
        "counts": [{"paper": paper, "verdicts": verdicts(where(rows, paper=paper))} for paper in NUMBERS],
        "numbers": rows,
        "statements": said,
        "not_computed": [
            {"paper": paper, **each._asdict()} for paper, parts in NOT_COMPUTED.items() for each in parts
        ],
    }
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "papers.json", report)
    write_csv(out / "papers.csv", rows)
    _write_html(out / PAGE, report, results)
    if page is not None:
        write_markdown(page, rows, said)
    return report


def verdicts(rows: Sequence[Row]) -> dict[str, int]:
    """Return verdict → number of rows."""
    return {verdict: len(where(rows, verdict=verdict)) for verdict in (HOLDS, DIFFERS, NOT_RUN)}


def tally(rows: Sequence[Row]) -> str:
    """Return how many rows hold, in words."""
    words = {HOLDS: "hold", DIFFERS: "do not hold", NOT_RUN: "were not run"}
    return ", ".join(
        f"{number} {words[verdict]}"
        for verdict, number in verdicts(rows).items()
        if number or verdict != NOT_RUN
    )


def _cells(row: Row) -> list[str]:
    share = "%" in row["printed"]

    def shown(value: float | str) -> str:
        if isinstance(value, str):
            return value
        if share:
            return f"{100 * value:.1f} %"
        if value == int(value) and not row["of"]:
            return f"{int(value):,}"
        return number(value)

    ours = "" if row["ours"] is None else shown(row["ours"])
    interval = "" if row["low"] is None else f"{shown(row['low'])} to {shown(row['high'])} ({row['of']})"
    what = f"{row['what']} ({row['reading']})" if row["reading"] else row["what"]
    verdict = f"{row['verdict']} (fitted)" if row["fitted"] else row["verdict"]
    return [row["where"], what, row["printed"], ours, interval, verdict, row["experiment"]]


def _statement_cells(row: Row) -> list[str]:
    return [row["where"], row["what"], row["verdict"], row["figures"], row["experiment"]]


# -- docs/papers.md ------------------------------------------------------------------------------------------


def markdown(paper: str, rows: Sequence[Row], statements: Sequence[Row]) -> str:
    """Return a paper's tables for docs/papers.md: numbers, statements, and what cannot be computed."""
    own, said = where(rows, paper=paper), where(statements, paper=paper)
    parts = [
        f"Printed numbers: {tally(own)}.",
        "",
        *_lines(_HEADS, map(_cells, own)),
    ]
    if said:
        parts += [
            "",
            f"Statements: {tally(said)}.",
            "",
            *_lines(_STATEMENT_HEADS, map(_statement_cells, said)),
        ]
    parts += ["", "Not computed:", ""]
    parts += [
        f"- {each.where}: {each.what}{f' ({each.numbers} numbers)' if each.numbers else ''}: {each.why}."
        for each in NOT_COMPUTED[paper]
    ]
    return "\n".join(parts)


def _lines(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        "| " + " | ".join("---" for _ in heads) + " |",
        *(f"| {' | '.join(text.replace('|', '/') for text in line)} |" for line in lines),
    ]


def write_markdown(page: Path, rows: Sequence[Row], statements: Sequence[Row]) -> None:
    """Replace the marked part of each paper in a page; raises SpecError as ``marked_parts`` does."""
    text = page.read_text(encoding="utf-8")
    for paper, part in marked_parts(text).items():
        begin, end = _marks(paper)
        text = text.replace(part, f"{begin}\n\n{markdown(paper, rows, statements)}\n\n{end}")
    write(page, text)


def _marks(paper: str) -> tuple[str, str]:
    return _MARK.format("Numbers", paper), _MARK.format("End of numbers", paper)


def marked_parts(text: str) -> dict[str, str]:
    """Return paper → the part of a Markdown page from its first mark to its second.

    Raises
    ------
    SpecError
        When the page has no marks for a paper.
    """
    parts = {}
    for paper in NUMBERS:
        begin, end = _marks(paper)
        _, mark, rest = text.partition(begin)
        part, other, _ = rest.partition(end)
        if not (mark and other):
            raise SpecError(f"the page has no line {begin} with {end} behind it", field="page")
        parts[paper] = begin + part + end
    return parts


# -- HTML ----------------------------------------------------------------------------------------------------


def _write_html(path: Path, report: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the page: what holds by paper, then all numbers and statements, and what cannot be computed."""
    style = files("broker.experiments").joinpath("report.css").read_text(encoding="utf-8")
    seconds = sum(result["manifest"]["case_seconds"] for result in results.values())
    rows, statements = report["numbers"], report["statements"]
    notice = (
        '<p class="notice">A quick run: a few small cases, not the result.</p>' if report["quick"] else ""
    )
    sections = "".join(_section(paper, rows, statements) for paper in NUMBERS)
    made_at = max(result["manifest"]["made_at"] for result in results.values())
    write(
        path,
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>spotfed: the papers' printed numbers</title>
<style>
{style}body {{ max-width: 84rem; }}
.holds {{ color: #009e73; }} .differs {{ color: #d55e00; font-weight: 600; }}
.numbers td:nth-child(n+3) {{ white-space: nowrap; }}
</style>
</head>
<body>
<header>
<h1>The papers’ printed numbers, and ours</h1>
<p class="lead">{report["computed"]} printed numbers of five papers, computed again by
<code>spotfed experiment papers</code>. Numbers that our inputs were fitted to,
and those that cannot be computed, count apart.
{_RULE}</p>
{notice}
{_summary(rows, statements)}
</header>
<main>
{sections}
<p class="manifest">{seconds:,.0f} s of computing · {made_at}</p>
</main>
</body>
</html>
""",
    )


def _summary(rows: Sequence[Row], statements: Sequence[Row]) -> str:
    lines = []
    for paper in NUMBERS:
        own = where(rows, paper=paper)
        judged, fitted = where(own, fitted=False), where(own, fitted=True)
        said = where(statements, paper=paper)
        lines.append([
            paper, tally(judged), tally(fitted) if fitted else "", tally(said) if said else "",
            str(sum(each.numbers for each in NOT_COMPUTED[paper])),
        ])  # fmt: skip
    return _table(("paper", "numbers", "fitted", "statements", "not computed"), lines)


def _section(paper: str, rows: Sequence[Row], statements: Sequence[Row]) -> str:
    own, said = where(rows, paper=paper), where(statements, paper=paper)
    parts = [
        f'<section class="numbers"><h2>{paper}</h2>',
        _table(_HEADS, map(_cells, own)),
        "</section><section>",
    ]
    if said:
        parts += ["<h3>Statements</h3>", _table(_STATEMENT_HEADS, map(_statement_cells, said))]
    lines = [[each.where, each.what, str(each.numbers or "–"), each.why] for each in NOT_COMPUTED[paper]]
    parts += ["<h3>Not computed</h3>", _table(("where", "what", "numbers", "why"), lines)]
    return "\n".join([*parts, "</section>"])


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    def cell(text: str) -> str:
        look = (
            " class=holds" if text.startswith(HOLDS) else " class=differs" if text.startswith(DIFFERS) else ""
        )
        return f"<td{look}>{escape(text)}</td>"

    head = "".join(f"<th>{text}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(cell, line))}</tr>" for line in lines)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
