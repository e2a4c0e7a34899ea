"""Output that cannot be encoded or written: characters are replaced, and what was done is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DONE = "admitted lease 7.1 on harbour for 4 h, risk of eviction –"
#: The command line, whose commands are replaced by one that prints its argument as the others do.
PROGRAM = """
import sys
from broker.cli import app, console
def print_what_was_done(**_):
    if sys.argv[1] == "json":
        console.print_json({"lease": "7.1", "name": "Zürich –"}, lines=True)
    else:
        console.print_text(sys.argv[1])
app.app = print_what_was_done
app.main()
"""


def run(text: str, redirection: str = "", encoding: str = "utf-8") -> tuple[int, str, str]:
    """Print a text with a redirection of the shell; return exit code, output and errors."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -c "$1" "$2" {redirection}', sys.executable, PROGRAM, text],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "?"), ("latin-1", "?"), ("cp1252", "–")])
def test_characters_that_the_output_does_not_have_are_replaced(encoding: str, shown: str) -> None:
    assert run(DONE, encoding=encoding) == (0, DONE.replace("–", shown) + "\n", "")


def test_json_loses_no_character() -> None:
    assert run("json", encoding="ascii")[1] == '{"lease": "7.1", "name": "Z\\u00fcrich \\u2013"}\n'
    assert run("json")[1] == '{"lease": "7.1", "name": "Zürich –"}\n'


@pytest.mark.parametrize(
    ("redirection", "why"),
    [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")],
)
def test_what_was_done_is_told_where_the_output_takes_nothing(redirection: str, why: str) -> None:
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    told = f"spotfed: standard output cannot be written: {why}; lost: "
    assert run(DONE, redirection) == (1, "", f"{told}{DONE}\n")
    assert run("json", redirection)[2] == told + '{"lease": "7.1", "name": "Zürich –"}\n'
    assert run("a table\nof lines", redirection) == (1, "", told.removesuffix("; lost: ") + "\n")


def test_what_is_shown_once_is_in_no_message() -> None:
    for secret in ("sf_4f1c9a0b2d3e_abc-DEF", "whsec_abc+DEF/g="):
        code, _, told = run(f"shown this once: {secret}", ">&-")
        assert code == 1
        assert told.endswith("lost: shown this once: " + secret.partition("_")[0] + "_***\n")


def test_nothing_at_all_can_be_written() -> None:
    assert run(DONE, ">&- 2>&-") == (1, "", "")


def test_a_reader_that_has_left_needs_no_message() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '{ "$0" -c "$1" "$2"; echo $? >&2; } | true', sys.executable, PROGRAM, DONE],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b"1\n"
