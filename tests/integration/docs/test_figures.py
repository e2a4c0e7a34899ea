"""The figures of the documentation are what is drawn, and each is on a page."""

import re
from pathlib import Path

import pytest

from cloudsim.scheduling.lineups import FEWEST_VICTIMS, YOUNGEST_JOB_FIRST
from tests.integration.docs.figures import eviction
from tests.integration.docs.figures.all import FIGURES

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_what_is_drawn(name: str) -> None:
    kept = (DOCS / f"figures/{name}.svg").read_text(encoding="utf-8")
    assert kept == FIGURES[name]().svg(), "python -m tests.integration.docs.figures docs/figures"
    assert len(kept) < 40_000


def test_each_is_on_a_page_with_words_for_those_who_do_not_see_it() -> None:
    shown = {
        name: words
        for page in DOCS.rglob("*.md")
        for words, name in re.findall(
            r"!\[([^\]]*)\]\([./]*figures/([\w-]+)\.svg\)", page.read_text(encoding="utf-8")
        )
    }
    assert shown.keys() == FIGURES.keys() == {path.stem for path in (DOCS / "figures").iterdir()}
    assert all(len(words) > 20 for words in shown.values())


def test_victims_are_those_that_the_page_speaks_of() -> None:
    assert eviction.victims(YOUNGEST_JOB_FIRST) == {"e", "f"}
    assert eviction.victims(FEWEST_VICTIMS) == {"c"}
