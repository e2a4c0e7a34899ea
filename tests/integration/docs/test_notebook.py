"""The notebook is the page on data frames, with what its code printed and drew."""

import json
import re

from tests.integration.docs.blocks import matches, read
from tests.integration.docs.notebook import NOTEBOOK, PAGE, cells


def test_the_notebook_is_what_the_page_says() -> None:
    kept = NOTEBOOK.read_text(encoding="utf-8")
    parts = json.loads(kept)["cells"]
    told = [(part["cell_type"], "".join(part["source"])) for part in parts]
    assert told == cells(PAGE.read_text(encoding="utf-8")), "make notebook"
    assert len(kept) < 200_000
    assert not re.search(r"(?<![\w.:/])/(?:home|root|tmp|work|Users)\b", kept), "no path of a machine"


def test_it_has_four_pictures_and_what_the_page_prints() -> None:
    outputs = [
        output for part in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        for output in part.get("outputs", ())
    ]  # fmt: skip
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    printed = ["".join(output["text"]) for output in outputs if output["output_type"] == "stream"]
    shown = [block.text for block in read(PAGE).blocks if block.said == "output"]
    assert len(printed) == len(shown) > 0
    assert all(matches(text, output) for text, output in zip(shown, printed, strict=True))
