"""The notebook beside the page on data frames: the page's prose and code, run, with what it printed and drew.

``make notebook`` writes it. Its cells are those of the page, which another test carries out.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.integration.docs.blocks import FENCE

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = DOCS / "how-to/researcher/data-frames.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
_COMMENT = re.compile(r"^<!--.*?-->\n?", re.MULTILINE)


def cells(page: str) -> list[tuple[str, str]]:
    """Type and source of each cell: blocks that are carried out are code, all else is prose."""
    made: list[tuple[str, str]] = []
    prose, end = "", 0
    for block in FENCE.finditer(page):
        prose += page[end : block.start()]
        end = block.end()
        said = block["said"] or ""
        if block["language"] == "python" and not said:
            made += [("markdown", prose), ("code", block["body"])]
            prose = ""
        elif said != "output":
            prose += block[0]
    made.append(("markdown", prose + page[end:]))
    plain = [(kind, _COMMENT.sub("", text).strip()) for kind, text in made]
    return [(kind, text) for kind, text in plain if text]


def run(code: list[str]) -> list[list[dict[str, Any]]]:
    """Run the cells in an empty directory; the outputs of each, as a notebook keeps them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        for source in code:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(source, PAGE.name, "exec"), names)
            said = {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(True)}
            drawn = [_picture(plt.figure(number)) for number in plt.get_fignums()]
            plt.close("all")
            outputs.append(([said] if printed.getvalue() else []) + drawn)
    return outputs


def _picture(figure: Any) -> dict[str, Any]:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=72, metadata={"Software": None})
    png = base64.b64encode(data.getvalue()).decode()
    return {"output_type": "display_data", "data": {"image/png": png}, "metadata": {}}


def notebook(page: str) -> dict[str, Any]:
    """The notebook of a page, in the format that Jupyter reads."""
    made = cells(page)
    outputs = iter(run([source for kind, source in made if kind == "code"]))
    parts: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(made, start=1):
        part = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(True)}
        code = {"execution_count": None, "outputs": next(outputs)} if kind == "code" else {}
        parts.append(part | code)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": parts,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


if __name__ == "__main__":
    if "SPOTFED_DATA" not in os.environ:
        sys.exit("name the directory of the recorded traces in SPOTFED_DATA; spotfed data fetch eucalyptus")
    text = json.dumps(notebook(PAGE.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(f"notebook: {NOTEBOOK.relative_to(DOCS.parent)}\n")
