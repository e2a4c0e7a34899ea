"""``spotfed prices``: the report of a price history, as a person and as a program meet it."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.broker.running import runner
from tests.unit.cloudsim.markets.histories import BEGIN, HOUR, page, record

Spotfed = Callable[..., SimpleNamespace]


@pytest.fixture
def spotfed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Spotfed:
    """Runs a command in this process, with text on its standard input."""

    command = runner(monkeypatch, capsys)

    def run(*arguments: object, stdin: str = "") -> SimpleNamespace:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return command(*arguments)

    return run


HISTORY = page(
    [
        record(BEGIN + 40 * HOUR, "0.500"),
        record(BEGIN + HOUR, None),
        record(BEGIN + HOUR, "0.7", "Windows"),
        record(BEGIN, "0.1"),
        record(BEGIN, "0.1"),
    ]
)


def test_the_report_as_json(spotfed: Spotfed, tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(HISTORY)
    done = spotfed("prices", path, "--json")
    assert done.code == 0
    result = json.loads(done.out)
    assert result["schema"] == "spotfed.prices/1"
    linux, windows = result["series"]
    assert (linux["product"], windows["product"]) == ("Linux/UNIX", "Windows")
    assert (linux["records"], linux["unknown"], linux["repeated"]) == (3, 1, 1)
    assert linux["gaps_s"] == [[BEGIN + HOUR, BEGIN + 40 * HOUR]]
    assert (linux["starts_s"], linux["ends_s"]) == (BEGIN, BEGIN + 40 * HOUR)
    assert (linux["min_usd_per_hour"], linux["max_usd_per_hour"]) == (0.1, 0.5)
    assert result["files"][0]["records"] == 5
    assert "spotfed: 1 records were there already and were dropped." in done.err


def test_the_report_for_people(spotfed: Spotfed) -> None:
    done = spotfed("prices", "-", stdin=HISTORY)
    assert done.code == 0
    assert "2 markets, 5 records" in done.out
    (row,) = [line for line in done.out.splitlines() if "Linux/UNIX" in line]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:5] == ["m1.large", "us-east-1a", "Linux/UNIX", "2021-03-02", "2021-03-03"]
    assert cells[5:] == ["3", "1", "1", "1 d 15 h", "0.1", "0.3", "0.5"]


@pytest.mark.parametrize(("limit", "gaps"), [("none", 0), ("38h", 1), ("40h", 0)])
def test_what_is_a_gap_can_be_chosen(spotfed: Spotfed, limit: str, gaps: int) -> None:
    done = spotfed("prices", "-", "--max-gap", limit, "--max-silence", "none", "--json", stdin=HISTORY)
    assert len(json.loads(done.out)["series"][0]["gaps_s"]) == gaps


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (("gone.csv",), "", "gone.csv: there is no such file; accepted are"),
        (("-",), HISTORY + HISTORY, "page 2 holds the same 5 records as page 1 of standard input"),
        (("-",), "", "standard input: is empty; accepted are"),
        (("-", "--max-gap", "soon"), HISTORY, "--max-gap: 'soon' is not a duration"),
        (("-", "--max-silence", "0"), HISTORY, "--max-silence: must be above 0, or none"),
        (
            ("-", "--max-error-rate", "0"),
            HISTORY.replace('"0.7"', '"x"'),
            "standard input:17: 1 of 5 lines are bad",
        ),
    ],
)
def test_bad_input_is_named_and_ends_with_2(
    spotfed: Spotfed, arguments: tuple[str, ...], stdin: str, message: str
) -> None:
    done = spotfed("prices", *arguments, stdin=stdin)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""
