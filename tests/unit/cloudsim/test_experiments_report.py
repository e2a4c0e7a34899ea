"""The report: one file that holds everything and fetches nothing."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from broker.experiments import runner
from broker.experiments.report import MOST_ROWS, number, write_report
from cloudsim.experiments.experiment import Case
from tests.unit.cloudsim import experiment_fakes as fakes


class Page(HTMLParser):
    """Tags, addresses and texts of a page; complains about tags that do not match."""

    EMPTY = frozenset({"meta", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.rows = 0
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.addresses += [value for name in ("src", "href") if (value := told.get(name)) is not None]
        self.ids += [value for value in [told.get("id")] if value is not None]
        self.rows += tag == "tr"
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("out")
    whole = fakes.experiment(fakes.squares(), "whole", pictures=True)
    broken = fakes.experiment(
        [Case("bad <b>", fakes.fail, {}), Case("lost", fakes.read, {"name": "a"}, ("a",)), *fakes.squares()],
        "broken",
    )
    return out, [runner.run(one, out, data=None, quick=False, processes=2) for one in (whole, broken)]


def test_every_experiment_is_in_it_with_all_it_has(results: tuple[Path, list[dict[str, Any]]]) -> None:
    out, made = results
    path = write_report(made, out)
    assert path == out / "index.html"
    page = Page(path.read_text())
    text = " ".join(page.texts)
    assert page.ids == ["whole", "broken"]
    assert {"#whole", "#broken", "whole/rows.csv", "broken/rows.csv"} <= set(page.addresses)
    for wanted in (
        "Squares <small>", "ours & theirs", "3 rows, the largest is 9", "A plot of 2 < 3.",
        "spotfed experiment whole", "bad <b> (ValueError: this one cannot be done)",
        "1 of 5 cases were left out", '{"half": 1.5}',
    ):  # fmt: skip
        assert wanted in text, wanted


def test_nothing_is_fetched_from_elsewhere(results: tuple[Path, list[dict[str, Any]]]) -> None:
    out, made = results
    text = write_report(made, out).read_text()
    page = Page(text)
    for address in page.addresses:
        assert address.startswith(("#", "data:image/png;base64,")) or (out / address).is_file(), address
    assert "@import" not in text
    assert "url(" not in text
    assert "<script" not in text
    assert "prefers-color-scheme: dark" in text


def test_long_tables_are_cut(results: tuple[Path, list[dict[str, Any]]]) -> None:
    out, made = results
    many = {**made[0], "rows": made[0]["rows"] * 100, "papers": []}
    page = Page(write_report([many], out).read_text())
    assert page.rows == 1 + MOST_ROWS
    assert f"First {MOST_ROWS} of 300 rows" in page.texts


def test_published_figures_stand_beside_ours(results: tuple[Path, list[dict[str, Any]]]) -> None:
    out, made = results
    line = {"source": "P1 Fig. 1", "quantity": "evicted", "of": "sla 0.25", "published": "0.70",
            "spread": 0.01, "ours": 0.71234, "ours_plus_minus": 0.002,
            "lowest": 0.5, "highest": 0.9, "runs": 3}  # fmt: skip
    text = " ".join(Page(write_report([{**made[0], "papers": [line]}], out).read_text()).texts)
    for wanted in ("P1 Fig. 1", "0.70 ± 0.01", "0.7123 ± 0.0020", "0.5000", "0.9000"):
        assert wanted in text, wanted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.12345, "0.1235"),
        (12.3456, "12.35"),
        (1.0, "1.000"),
        (123456.7, "123,457"),
        (-0.5, "-0.5000"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text
