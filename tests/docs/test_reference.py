"""The reference is what the code says, and leaves nothing out."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi.routing import iter_route_contexts

from broker.api.app import create_app
from broker.cli import app, reference
from broker.cli.manual import commands_of
from broker.cli.reference import federation_file, problems, words
from broker.cli.reference.markdown import prose, remarks, table
from broker.cli.reference.schemas import told_apart
from broker.contract import EventKind
from broker.settings import Settings
from cloudsim.errors import SpecError
from cloudsim.federation_file import load
from workers.instances import reference as instances

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs/reference"


WORKERS = "instances.md"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return {**dict(reference.pages()), WORKERS: instances.page()}


def test_the_kept_pages_are_what_the_code_says(made: dict[str, str]) -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in KEPT.iterdir()}
    assert kept.keys() == {*made, "index.md"}
    assert [name for name, text in made.items() if kept[name] != text] == [], "make man"
    assert kept["index.md"] == reference.index(made), "make man"


def test_pages_are_written_with_an_index_of_all_that_are_there(tmp_path: Path, made: dict[str, str]) -> None:
    directory = tmp_path / "new"
    directory.mkdir()
    (directory / WORKERS).write_text(made[WORKERS], encoding="utf-8")
    reference.write(directory)
    written = {path.name: path.read_text(encoding="utf-8") for path in directory.iterdir()}
    assert {name: text for name, text in written.items() if name != "index.md"} == made
    assert written["index.md"].splitlines()[-3].startswith("| [Instances of real clouds](instances.md) | ")


def test_what_a_docstring_says_of_fields_stands_beside_them() -> None:
    text, said = told_apart(
        "A job.\n\n``cores``: of it. sla, risk: what is\nallowed. poll_s: None, how often. note: this.",
        {"cores", "sla", "risk", "poll"},
    )
    assert text == "A job.\n\nnote: this."
    assert said == {"cores": "of it", "sla": "what is allowed", "risk": "what is allowed",
                    "poll": "null, how often"}  # fmt: skip


def test_a_directory_must_be_named() -> None:
    program = [sys.executable, "-m", "broker.cli.reference"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: python -m broker.cli.reference DIRECTORY" in done.stderr


def test_every_command_with_every_option_is_there(made: dict[str, str]) -> None:
    root: Any = typer.main.get_command(app)
    sections = dict(re.findall(r"^## (spotfed .+)\n((?:(?!## ).*\n)+)", made["commands.md"], re.MULTILINE))
    told = {
        place.command_path: command
        for command, place in commands_of(root, typer.Context(root, info_name="spotfed"))
    }
    assert sections.keys() == told.keys()
    for path, command in told.items():
        for one in command.params:
            if one.param_type_name == "option" and one.name not in {"help", "as_json"}:
                assert one.opts[0] in sections[path], f"{path} {one.opts[0]}"


def test_every_setting_is_there(made: dict[str, str]) -> None:
    assert all(f"| `SPOTFED_{name.upper()}` |" in made["settings.md"] for name in Settings.model_fields)


def test_settings_say_nothing_of_the_machine_that_wrote_them(made: dict[str, str]) -> None:
    assert str(Path.home()) not in made["settings.md"]
    assert str(ROOT) not in "".join(made.values())


def test_every_route_is_there_and_says_who_may(made: dict[str, str]) -> None:
    sections = dict(
        re.findall(r"^### `([A-Z]+ /.+)`\n((?:(?!### ).*\n)+)", made["http-api.md"], re.MULTILINE)
    )
    routes = {
        f"{method} {(route.path or '').replace(':path}', '}')}"
        for route in iter_route_contexts(create_app(Settings(redis_url="redis://nowhere.invalid")).routes)
        for method in route.methods or ()
        if (route.path or "").startswith(("/v1", "/metrics"))
    }
    assert routes <= sections.keys()
    public = {route for route, said in sections.items() if "anybody, without a key" in said}
    assert public == {"GET /healthz", "GET /readyz"}
    assert "- Who may: operator\n" in sections["GET /v1/audit"]
    assert "- Who may: viewer and above\n" in sections["GET /v1/leases/{lease_id}"]


def test_every_link_to_a_message_leads_to_it(made: dict[str, str]) -> None:
    for name in ("http-api.md", "events.md"):
        anchors = {head.lower() for head in re.findall(r"^##+ (\w+)$", made[name], re.MULTILINE)}
        assert set(re.findall(r"\]\(#(\w+)\)", made[name])) <= anchors


_CLOUD = "[[cloud]]\nid = 'a'\nnodes = '1x4'\ntrace = { synthetic = 'table-1', hours = 1, seed = 1 }\n"


@pytest.mark.parametrize("before", ["", "[[cloud]]\n", f"{_CLOUD}[[workload]]\n"])
def test_every_field_of_a_federation_file_is_there(before: str, tmp_path: Path, made: dict[str, str]) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(f"{before}nonsense = 1\n")
    with pytest.raises(SpecError, match="unknown field") as raised:
        load(file, None)
    known = re.findall(r"\w+", str(raised.value).partition("known are:")[2])
    assert len(known) > 3
    page = made["federation-file.md"]
    shown = re.findall(r"^(\w+) = |\[(\w+)\]|`(\w+)(?: = [^`]*)?`", page, re.MULTILINE)
    assert set(known) <= {name for names in shown for name in names}


@pytest.mark.data
def test_the_example_of_a_federation_file_is_read(tmp_path: Path, data_dir: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(federation_file.parts()[0])
    assert [cloud.spec.id for cloud in load(file, data_dir).clouds] == ["A", "B"]


def test_every_kind_of_problem_is_found() -> None:
    found = list(problems.kinds())
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "broker/api").glob("*.py"))
    made = re.findall(r"(?:_problem|_later|conflict)\(\s*\"([a-z-]+)\"", source)
    assert sorted(one.name for one in found) == sorted(made)
    assert all(one.said for one in found)
    assert {one.name: one.status for one in found}["queue-away"] == 503


def test_every_word_is_explained() -> None:
    found = dict(words.words())
    assert found.keys() >= {"broker", "queue", "SLA", "counter-offer", "time until eviction", "unreachable"}
    assert all(text.strip().endswith(".") for text in found.values())


def test_remarks_are_those_of_their_own_line() -> None:
    said = remarks(EventKind)
    assert said["EXTENDED"] == "the lease was promised a later end"
    assert said.keys() == {one.name for one in EventKind}


def test_markdown_means_what_the_text_says() -> None:
    assert prose(
        "of ``a_b``, a_b and <c>\nto d\n\nand e"
    ) == "of `a_b`, a\\_b and \\<c>\nto d\n\nand e".replace("\nto", " to")
    assert prose("a *new word*, 2 * 3 and 4 * 5") == r"a *new word*, 2 \* 3 and 4 \* 5"
    assert table(("a", "b"), [("x|y", "z\nz")]) == "| a | b |\n| --- | --- |\n| x\\|y | z z |"
    assert table(("a",), []) == ""
