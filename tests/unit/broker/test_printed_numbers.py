"""The papers' printed numbers beside ours: when one holds, that none is missing, and what the pages show."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from broker.experiments.papers import comparison, page
from broker.experiments.papers.number import (
    Bounds,
    MissingRowError,
    Ours,
    PrintedNumber,
    about,
    at_least,
    at_most,
    column,
    mean,
    runs,
    select,
    share,
)
from cloudsim.experiments import registry
from cloudsim.model.errors import SpecError

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs/papers.md"
ALL = [number for numbers in comparison.NUMBERS.values() for number in numbers]


def printed(text: str, within: Bounds | None = None) -> PrintedNumber:
    return PrintedNumber("P1 Table I", "a share", text, "tiny", lambda rows: column(rows, "share"), within)


def results(rows: list[dict[str, Any]], *, skipped: bool, quick: bool = False) -> dict[str, dict[str, Any]]:
    """Results of all experiments, each with the same rows."""
    manifest = {"quick": quick, "case_seconds": 1.0, "made_at": "2026-01-01T00:00:00+00:00"}
    return {
        each.name: {
            "name": each.name, "rows": rows, "failed": {}, "manifest": manifest,
            "skipped": {"a case": ["a file"]} if skipped else {},
        }
        for each in comparison.experiments()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("number", "ours", "holds"),
    [
        (printed("0.884"), Ours(0.8844), True),
        (printed("0.884"), Ours(0.8846), False),
        (printed("0.884"), Ours(0.9, 0.87, 0.93, "5 seeds"), True),
        (printed("0.884"), Ours(0.9, 0.89, 0.93, "5 seeds"), False),
        (printed("98.5 %"), Ours(0.9849), True),
        (printed("98.5 %"), Ours(0.983), False),
        (printed("366,720"), Ours(366_720), True),
        (printed("1.05e7"), Ours(10_540_000), True),
        (printed("1.05e7"), Ours(10_560_000), False),
        (printed("nearly 2×", about(2)), Ours(1.81), True),
        (printed("nearly 2×", about(2)), Ours(2.21), False),
        (printed("≤ 0.01", at_most(0.01)), Ours(0.01), True),
        (printed("≤ 0.01", at_most(0.01)), Ours(0.011, 0.001, 0.02, "5 seeds"), False),
        (printed("over 2×", at_least(2)), Ours(2.5), True),
        (printed("over 2×", at_least(2)), Ours(1.9, 1.8, 2.1, "5 seeds"), False),
        (printed("BP1"), Ours("BP1"), True),
        (printed("BP1"), Ours("BP2"), False),
    ],
)
def test_a_number_holds_if_ours_reaches_it(number: PrintedNumber, ours: Ours, holds: bool) -> None:
    assert number.holds(ours) is holds


def test_intervals_say_what_they_are_over() -> None:
    assert runs([0.5], "seeds")[::3] == (0.5, "")
    middle = mean([1.0, 2.0, 3.0], "pools")
    assert (middle.value, middle.of) == (2.0, "mean of 3 pools")
    assert middle.low == pytest.approx(2 - 1.96 / 3**0.5)
    one_more = runs([1.0, 2.0, 3.0], "seeds")
    assert (one_more.value, one_more.of) == (2.0, "3 seeds")
    assert one_more.high == pytest.approx(2 + 1.96 * (1 + 1 / 3) ** 0.5)
    assert one_more.low == 0, "nothing that is counted is below 0"
    assert runs([-1.0, 2.0, 3.0], "seeds").low < 0
    exact = share(0, 100)
    assert (exact.value, exact.low, exact.of) == (0.0, 0.0, "exact, 100")
    assert exact.high == pytest.approx(1 - 0.025 ** (1 / 100))
    half = column([{"cost": 0.5, "cost_plus_minus": 0.1, "jobs": 30}], "cost")
    assert (half.low, half.high, half.of) == (0.4, 0.6, "30 jobs")


def test_a_missing_row_names_what_it_should_have() -> None:
    with pytest.raises(MissingRowError, match=r"no row with pair A-B, sla 0.01"):
        select([{"pair": "A-B", "sla": None}], pair="A-B", sla=0.01)
    with pytest.raises(MissingRowError, match="nothing was counted"):
        share(0, 0)


def test_a_number_without_a_row_is_an_error_after_a_whole_run_and_not_run_else() -> None:
    rows = comparison.compare(results([], skipped=True))
    assert {row["verdict"] for row in rows} == {comparison.NOT_RUN}
    assert comparison.count(rows) == 0
    first = ALL[0]
    with pytest.raises(
        MissingRowError, match=re.escape(f"{first.experiment} has nothing for {first.where}, ")
    ):
        comparison.compare(results([], skipped=False))
    with pytest.raises(MissingRowError, match="has nothing for"):
        comparison.compare(results([{"rule": "unaware", "sla": None}], skipped=False))


def test_each_number_stands_once_and_its_experiment_is_there() -> None:
    assert max(Counter((each.where, each.what, each.reading) for each in ALL).values()) == 1
    assert {each.experiment for each in ALL} <= set(registry.MODULES)
    names = [each.name for each in comparison.experiments()]
    assert len(set(names)) == len(names)
    assert {each.experiment for each in ALL} <= set(names)
    for each in comparison.experiments():
        assert len({case.name for case in each.cases(False)}) == len(each.cases(False))
    for number in ALL:
        assert number.printed[0] in "ABC" or number.bounds.least < number.bounds.most


def test_at_least_120_printed_numbers_can_be_computed() -> None:
    assert len({(each.where, each.what) for each in ALL if not each.fitted}) >= 120


def test_made_pools_and_recorded_sets_are_told_apart() -> None:
    def value(source: str, share: float, **more: object) -> dict[str, object]:
        return {
            "row": "value", "source": source, "pool": "stable-1", "policy": "lifo",
            "value_function": "linear",
            "renewal": "slot", "window": "whole", "of_oracle_full": share, **more,
        }  # fmt: skip

    rows = [
        *(value("2015", share, quartet=set_) for set_, share in enumerate((0.7, 0.95, 0.9), start=1)),
        value("2015", 0.1, quartet=1, renewal="recency"),
        value("made", 0.5), value("made", 0.1, renewal="recency"), value("made", 0.6, window="draw 1"),
    ]  # fmt: skip
    ours = {
        each.reading: each.ours(rows)
        for each in ALL
        if each.what == "Stable 1: LIFO with full, of the Oracle"
    }
    assert (ours["recorded sets"].value, ours["recorded sets"].of) == (0.9, "")
    assert (ours["made pools"].value, ours["made pools"].of) == (0.55, "2 draws")


# -- docs/papers.md ------------------------------------------------------------------------------------------


def lines(part: str, columns: int) -> Iterator[list[str]]:
    """The cells of the tables of a part that have so many columns, without heads."""
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == columns and cells[0] not in {"where", "---"}:
            yield cells


@pytest.mark.parametrize("paper", comparison.NUMBERS)
def test_the_page_lists_every_number_of_a_paper_and_no_other(paper: str) -> None:
    part = page.marked_parts(DOCS.read_text(encoding="utf-8"))[paper]
    unrun = results([], skipped=True)
    numbers, statements = comparison.compare(unrun), comparison.statements(unrun)
    for columns, wanted, made in (
        (7, (0, 1, 2, 6), list(lines(page.markdown(paper, numbers, statements), 7))),
        (5, (0, 1, 4), list(lines(page.markdown(paper, numbers, statements), 5))),
    ):
        shown = list(lines(part, columns))
        assert [[cells[at] for at in wanted] for cells in shown] == [
            [cells[at] for at in wanted] for cells in made
        ], "spotfed experiment papers --page docs/papers.md writes it anew"
    shown = list(lines(part, 7))
    assert all(cells[3] and cells[5] != comparison.NOT_RUN for cells in shown)
    assert all(cells[3] and cells[2] != comparison.NOT_RUN for cells in lines(part, 5))
    counted = Counter(cells[5].removesuffix(" (fitted)") for cells in shown)
    told = f"{counted[comparison.HOLDS]} hold, {counted[comparison.DIFFERS]} do not hold"
    assert f"Printed numbers: {told}" in part
    for each in comparison.NOT_COMPUTED[paper]:
        assert f"- {each.where}: {each.what}" in part
        assert each.why in part


def test_only_the_marked_parts_of_a_page_are_written(tmp_path: Path) -> None:
    copy = tmp_path / "papers.md"
    copy.write_text(DOCS.read_text(encoding="utf-8"), encoding="utf-8")
    page.write_comparison(results([], skipped=True), tmp_path / "out", copy)
    before, after = (path.read_text(encoding="utf-8") for path in (DOCS, copy))
    for part in page.marked_parts(before).values():
        before = before.replace(part, "")
    for part in page.marked_parts(after).values():
        assert comparison.NOT_RUN in part
        after = after.replace(part, "")
    assert before == after


def test_a_page_without_marks_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain.md"
    plain.write_text("# No marks\n")
    with pytest.raises(SpecError, match="has no line <!-- Numbers of P1 and P2"):
        page.write_markdown(plain, [], [])
    assert plain.read_text() == "# No marks\n"


# -- files ---------------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The number of cells, and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.text = 0, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.cells += tag == "td"

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_has_every_number(tmp_path: Path) -> None:
    report = page.write_comparison(results([], skipped=True), tmp_path)
    assert not report["quick"]
    assert "A quick run" not in (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert json.loads((tmp_path / "papers.json").read_text(encoding="utf-8")) == report
    with (tmp_path / "papers.csv").open(encoding="utf-8", newline="") as stream:
        assert [row["what"] for row in csv.DictReader(stream)] == [each.what for each in ALL]
    html = Cells()
    html.feed((tmp_path / page.PAGE).read_text(encoding="utf-8"))
    assert html.cells > 8 * len(ALL)
    for each in ALL:
        assert each.where in html.text
        assert each.what in html.text


def test_a_quick_run_says_that_it_is_one(tmp_path: Path) -> None:
    assert page.write_comparison(results([], skipped=False, quick=True), tmp_path)["quick"]
    assert "A quick run" in (tmp_path / page.PAGE).read_text(encoding="utf-8")
