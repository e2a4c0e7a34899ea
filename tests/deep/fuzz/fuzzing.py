"""Schemathesis against a real API: what it is told, and what it found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.contract.harness import KEY

#: How often an id is drawn that exists; fuzzed ones lead to 404 only.
_KNOWN = 0.7
_LIMIT_S = 1500
_REJECTED = ("400", "401", "403", "404", "405", "409", "413", "415", "422", "429")


@dataclass(frozen=True)
class Fuzzed:
    """What came of it. ``cases``: so many were sent; ``failures``: each with a curl command, for people."""

    cases: int
    operations: int
    failures: str


def fuzz(
    url: str, directory: Path, examples: int, known: Mapping[str, Sequence[str]], *options: str, seed: int = 1
) -> Fuzzed:
    """Runs all phases against the API at ``url``.

    Args:
        url: of the API.
        directory: where the configuration and the report go.
        examples: at most so many an operation and phase, of valid and of invalid data.
        known: values of parameters by name, such as ``path.cloud``.
        options: further ones of ``schemathesis run``.
        seed: of all that is drawn.
    """
    # The first call makes the document, which Schemathesis waits for ten seconds only.
    assert httpx.get(f"{url}/openapi.json", timeout=120).is_success
    config, report = directory / "schemathesis.toml", directory / "report.json"
    config.write_text(_configuration(examples, known, seed), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
            *("run", f"{url}/openapi.json", "--report", "json", "--report-json-path", str(report), *options),
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    told = json.loads(report.read_text(encoding="utf-8"))
    assert told["complete"], done.stdout
    failures = done.stdout[max(0, done.stdout.find("= FAILURES =")) :] if done.returncode else ""
    return Fuzzed(told["test_cases"]["generated"], told["operations"]["tested"], failures)


def _configuration(examples: int, known: Mapping[str, Sequence[str]], seed: int) -> str:
    lists = {f"list-{number}": one for number, one in enumerate(known.values())}
    return "\n".join([
        f"seed = {seed}",
        "workers = 1",  # the compiler of Python 3.11.2 counts its recursion wrongly when threads share it
        "continue-on-failure = true",
        "request-timeout = 120",
        'suppress-health-check = ["too_slow"]',  # which says more about the machine than about the document
        f'headers = {{ Authorization = "Bearer {KEY}" }}',
        f"generation = {{ max-examples = {examples}, no-shrink = true }}",
        # What suits the schema need not suit the federation: a node that is not there, trace time, ...
        "checks = { positive_data_acceptance = { enabled = false } }",
        "[dictionaries]",
        *(f"{name} = {{ values = {json.dumps(list(values))} }}" for name, values in lists.items()),
        "[parameters]",
        *(
            f'"{parameter}" = {{ dictionary = "{name}", probability = {_KNOWN} }}'
            for parameter, name in zip(known, lists, strict=True)
        ),
        "[[operations]]",
        'include-path = "/v1/events"',
        "parameters = { follow = false }",  # a stream that is followed never ends
        "[[operations]]",
        'include-path = "/v1/leases/{lease_id}"',
        "checks.use_after_free.enabled = false",  # what was given back stays to be looked at, as ended
        "[[operations]]",
        'include-path = "/v1/jobs/{job}"',
        "checks.use_after_free.enabled = false",  # what was cancelled stays to be looked at
        "[[operations]]",
        'include-path = "/v1/jobs/{job}/logs"',
        "checks.use_after_free.enabled = false",
        "parameters = { follow = false }",  # who follows waits
        "[[operations]]",
        'include-path = "/v1/requests"',
        'include-method = "POST"',
        # A list is answered 200, with what is wrong with an item in the item's own result.
        f"checks.negative_data_rejection.expected-statuses = {json.dumps(['200', *_REJECTED])}",
        "",
    ])  # fmt: skip
