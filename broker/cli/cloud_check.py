"""``cloud check``: whether the leases of a real cloud can become instances, before any is promised."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.console import JsonOption, next_step, show_one
from broker.cli.errors import CommandError, ExitCode

_BAD_INPUT = 2  # exit status of cloud agents


def check(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION", help="Federation file.")],
    cloud: Annotated[str, typer.Option(help="Id of the cloud in the file.")],
    start: Annotated[
        bool, typer.Option("--start", help="Start an instance of the smallest size, and end it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that a real cloud is ready for its first lease: access, clock, images, sizes, networks, quota.

    It asks the cloud alone, with SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET, and needs no queue. Exit code 1
    if something is missing.

    Example: spotfed cloud check federation.toml --cloud glade --start
    """
    # Beside this command in its module are some that do without Redis.
    from broker.cli.doctor import results_text
    from broker.doctor.check import CheckResult, State

    command = [sys.executable, "-P", "-m", "workers.cloud_agent", "--check"]
    command += ["--federation", str(federation.absolute()), "--cloud", cloud, *(["--start"] if start else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (a module of ours)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2].removeprefix("workers.cloud_agent: ")
        code = ExitCode.BAD_INPUT if done.returncode == _BAD_INPUT else ExitCode.FAILED
        raise CommandError(last or "the check ended without a result", code)
    checks = json.loads(done.stdout)
    results = [CheckResult(**{**result, "state": State(result["state"])}) for result in checks]
    ready = all(result.state is not State.FAILURE for result in results)
    verdict = (
        f"{cloud} is ready" if ready else f"{cloud} is not ready: correct the failures, then check again"
    )
    report = {"cloud": cloud, "ready": ready, "checks": checks}
    show_one(report, *results_text(results), verdict, as_json=as_json)
    if not ready:
        raise typer.Exit(ExitCode.FAILED)
    if not as_json:
        next_step(f"python -m workers.cloud_agent --cloud {cloud} --federation {federation}")
