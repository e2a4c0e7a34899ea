"""The report: all results in one HTML file that fetches nothing, so that it can be sent to anyone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from broker.experiments.runner import columns, plain, write

REPORT = "index.html"
#: Most rows in the report; the CSV has all.
MOST_ROWS = 200

_LEAD = (
    "Spot instances with a promised lifetime on private clouds: what the papers of Pucher, Wolski and Krintz "
    "report, computed again by <code>spotfed experiment all</code>, and the questions that they leave open. "
    "<b>P1</b> is their paper on co-scheduling; <b>P2</b> is <i>Using Spot Instance SLAs for Reliable Cloud "
    "Federation</i>, UCSB Technical Report 2015-02. Published figures are those printed in their texts and "
    "tables; nothing was read off a plot. An experiment may also be held against a page of "
    "<b>docs/design</b>, where gaps in the papers are settled."
)


def write_report(results: Sequence[Mapping[str, Any]], out: Path) -> Path:
    """Write ``index.html`` beside the results of ``runner.run``, with their pictures; return its path."""
    path = out / REPORT
    write(path, _page(results, out))
    return path


def _page(results: Sequence[Mapping[str, Any]], out: Path) -> str:
    style = files("broker.experiments").joinpath("report.css").read_text(encoding="utf-8")
    contents = "".join(f'<li><a href="#{r["name"]}">{escape(r["title"])}</a></li>' for r in results)
    sections = "\n".join(_section(result, out) for result in results)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>spotfed: experiments</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>Experiments</h1>
<p class="lead">{_LEAD}</p>
<nav aria-label="Contents"><ol>{contents}</ol></nav>
</header>
<main>
{sections}
</main>
</body>
</html>
"""


def _section(result: Mapping[str, Any], out: Path) -> str:
    name = result["name"]
    parts = [
        f'<section id="{name}">',
        f"<h2>{escape(result['title'])}</h2>",
        f'<p class="source">{escape(result["source"])} · <code>{name}</code></p>',
        *_notices(result),
    ]
    if result["findings"]:
        items = "".join(f"<li>{escape(finding)}</li>" for finding in result["findings"])
        parts.append(f'<ul class="findings">{items}</ul>')
    parts += [_picture(picture, out / name) for picture in result["pictures"]]
    if result["papers"]:
        parts.append("<h3>Published figures and ours</h3>" + _papers(result["papers"]))
    if result["rows"]:
        parts.append(_rows(result))
    parts += [_manifest(result["manifest"]), "</section>"]
    return "\n".join(parts)


def _notices(result: Mapping[str, Any]) -> Iterable[str]:
    if result["manifest"]["quick"]:
        yield '<p class="notice">A quick run: a few small cases, not the result.</p>'
    if result["failed"]:
        cases = "; ".join(f"{case} ({error})" for case, error in result["failed"].items())
        yield f'<p class="notice">Failed: {escape(cases)}.</p>'
    if result["skipped"]:
        lost = sorted({name for names in result["skipped"].values() for name in names})
        yield (
            f'<p class="notice">{len(result["skipped"])} of {result["manifest"]["cases"]} cases were left '
            f"out for want of recorded traces: {escape(', '.join(lost))}.</p>"
        )


def _picture(picture: Mapping[str, str], folder: Path) -> str:
    image = b64encode((folder / f"{picture['name']}.png").read_bytes()).decode()
    caption = escape(picture["caption"])
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{image}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _papers(papers: Sequence[Mapping[str, Any]]) -> str:
    several = any(row["runs"] > 1 for row in papers)
    heads = ["source", "quantity", "of", "published", "ours"]
    heads += ["lowest", "highest", "runs"] if several else []
    lines = []
    for row in papers:
        published = row["published"] + (f" ± {row['spread']:g}" if row["spread"] else "")
        ours = number(row["ours"]) + (f" ± {number(row['ours_plus_minus'])}" if row["runs"] > 1 else "")
        cells = [row["source"], row["quantity"], row["of"], published, ours]
        if several:
            cells += [number(row["lowest"]), number(row["highest"]), str(row["runs"])]
        lines.append(cells)
    return _table(heads, lines, numbers=set(range(3, len(heads)))) + (
        '<p class="manifest">Ours: mean over the runs ± half the width of its 95 % interval.</p>'
        if several
        else ""
    )


def _rows(result: Mapping[str, Any]) -> str:
    rows, name = result["rows"], result["name"]
    names = columns(rows)
    shown = [[_cell(row.get(column)) for column in names] for row in rows[:MOST_ROWS]]
    numeric = {
        place
        for place, column in enumerate(names)
        if all(isinstance(row.get(column), (int, float, type(None))) for row in rows)
    }
    what = f"Rows ({len(rows):,})" if len(rows) <= MOST_ROWS else f"First {MOST_ROWS} of {len(rows):,} rows"
    return (
        f'<details class="rows"><summary>{what}</summary>{_table(names, shown, numbers=numeric)}</details>'
        f'<p><a href="{name}/rows.csv">rows.csv</a> · <a href="{name}/result.json">result.json</a></p>'
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, float):
        return "" if value is None else str(plain(value))
    return number(value)


def number(value: float) -> str:
    """Write a number with about four digits, without an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    return f"{value:,.{4 if size < 1 else 3 if size < 10 else 2 if size < 100 else 0}f}"


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]], *, numbers: set[int]) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if place in numbers else ''}>{escape(text)}</{tag}>"
            for place, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return (
        f'<div class="table"><table><thead><tr>{cells("th", heads)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _manifest(manifest: Mapping[str, Any]) -> str:
    seeds = manifest["seeds"]
    data = ", ".join(f"{name} {digest[:12]}" for name, digest in manifest["data_sha256"].items())
    versions = ", ".join(f"{name} {text}" for name, text in manifest["versions"].items())
    parts = [
        f"<code>{escape(manifest['command'])}</code>",
        f"{manifest['cases']} cases, {manifest['case_seconds']:,.0f} s of computing",
        f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}" if seeds else "",
        f"data (SHA-256) {escape(data)}" if data else "",
        escape(versions),
        f"source {manifest['source_sha256'][:12]}",
        escape(manifest["machine"]),
        manifest["made_at"],
    ]
    return f'<p class="manifest">{" · ".join(part for part in parts if part)}</p>'
