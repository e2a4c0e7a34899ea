"""How commands print one thing and lists, and how options become messages to the API."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, Field

from broker.cli.console import console, make_table, number, print_json, print_text, show_list, show_one
from broker.cli.options import build_model, parse_pairs
from cloudsim.model.errors import SpecError


class Inner(BaseModel):
    """A model, inside a dataclass."""

    size_cores: int = Field(ge=1)


@dataclass(frozen=True)
class Outer:
    """A dataclass with a model."""

    name: str
    inner: Inner


THINGS = [Outer("a", Inner(size_cores=1)), Outer("b", Inner(size_cores=2))]


def test_a_list_is_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        show_list(
            "things",
            THINGS,
            *("name", number("cores")),
            row=lambda thing: (thing.name, str(thing.inner.size_cores)),
            as_json=as_json,
            more={"more": True},
        )
        out = capsys.readouterr().out
        if as_json:
            assert json.loads(out) == {
                "things": [{"name": name, "inner": {"size_cores": n}} for name, n in (("a", 1), ("b", 2))],
                "more": True,
            }
        else:
            assert "│ b    │     2 │" in out


def test_an_empty_list_is_a_sentence_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    show_list("things", [], "name", row=lambda _: (), as_json=False, none="nothing yet")
    show_list("things", [], "name", row=lambda _: (), as_json=True, none="nothing yet")
    assert capsys.readouterr().out == 'nothing yet\n{\n  "things": []\n}\n'


def test_one_thing_is_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    show_one(THINGS[0], "[bold]a[/bold] has one core", as_json=False)
    show_one(THINGS[0], "a has one core", as_json=True)
    text, _, document = capsys.readouterr().out.partition("\n")
    assert (text, json.loads(document)) == ("a has one core", {"name": "a", "inner": {"size_cores": 1}})


def test_what_has_no_json_form_is_a_bug() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        print_json({"a": object()})


@pytest.mark.parametrize(("options", "named"), [({}, "--size-cores"), ({"size_cores": "--cores"}, "--cores")])
def test_an_error_names_the_option(options: dict[str, str], named: str) -> None:
    with pytest.raises(SpecError) as refused:
        build_model(Inner, {"size_cores": 0}, options)
    assert str(refused.value).startswith(f"{named}: ")


def test_pairs() -> None:
    assert parse_pairs([" a = 1 ", "b=2"], field="--label") == {"a": "1", "b": "2"}
    assert parse_pairs(["A= x", "B="], field="--env", strip=False) == {"A": " x", "B": ""}
    for wrong in (["a"], ["=1"], ["a="], ["a=1", "a=2"]):
        with pytest.raises(SpecError, match="--label: "):
            parse_pairs(wrong, field="--label")


def test_brackets_are_text_unless_they_are_a_style_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    install = "pip install 'spotfed[plots]'"
    show_one({}, f"{install} [bold]now[/bold] [red]x[/red] \\[red] a[0]", as_json=False)
    table = make_table("title [of]", "[column]")
    table.add_row(f"[dim]{install}[/dim]")
    print_text(table)
    out = capsys.readouterr().out
    assert f"{install} now x [red] a[0]" in out
    assert "title [of]" in out
    assert "[column]" in out
    assert f"│ {install} │" in out
    console().print(install, markup=False)
    assert capsys.readouterr().out == f"{install}\n"
