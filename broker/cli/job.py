"""``job``: have commands run as batch jobs, and see what became of them."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli.connection import connected
from broker.cli.console import CommandError, ExitCode, JsonOption, console, print_json, warn

if TYPE_CHECKING:
    from pydantic import ValidationError

    from broker.jobs.models import JobView, JobWish

job = typer.Typer(
    no_args_is_help=True,
    help="Have commands run as batch jobs: on spot where that is cheaper, moved on when evicted.",
)

#: Somebody who waits for a job's end outlasts a restart of the broker.
_PATIENCE_S = 120.0

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the job, see spotfed job list.")]


@job.command(context_settings={"allow_interspersed_args": False})
def submit(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="What to run.", show_default=False)],
    home: Annotated[
        str | None,
        typer.Option(help="Cloud on which it may run on-demand.", show_default="the origin, if a cloud"),
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores of each instance.")] = 1,
    instances: Annotated[
        int, typer.Option(min=1, help="So many run together, each told its SPOTFED_JOB_RANK.")
    ] = 1,
    name: Annotated[
        str | None, typer.Option(help="Jobs of one name share what is measured of the first.")
    ] = None,
    work: Annotated[
        str | None,
        typer.Option(help="Its running time: 20m, 2h.", show_default="measured in a first run on-demand"),
    ] = None,
    memory_gb: Annotated[
        float | None, typer.Option(help="With --work: memory to save.", show_default="0.1")
    ] = None,
    disk_gb: Annotated[
        float | None, typer.Option(help="With --work: files to save.", show_default="0")
    ] = None,
    io_share: Annotated[
        float | None, typer.Option(help="With --work: part of it that waits for storage.", show_default="0")
    ] = None,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="It goes on from the files in SPOTFED_JOB_DIR.")
    ] = False,
    save: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="As --checkpoint; run before its state is kept.")
    ] = None,
    restore: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="As --checkpoint; run before it goes on.")
    ] = None,
    memory_limit_mb: Annotated[
        int | None, typer.Option(min=16, help="An instance that needs more is ended.", show_default="none")
    ] = None,
    slack: Annotated[float, typer.Option(help="Share of its time that may go into checkpoints.")] = 0.0625,
    idempotent: Annotated[
        bool,
        typer.Option(
            "--idempotent/--no-idempotent", help="Whether it may run twice, or again from an earlier state."
        ),
    ] = True,
    deadline: Annotated[
        str | None, typer.Option(help="By when it must have finished, from now: 8h.", show_default="none")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="It is given up rather than cost more.", show_default="any")
    ] = None,
    max_evictions: Annotated[
        int | None, typer.Option(help="After so many it stays on-demand.", show_default="any number")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often it is run again after it failed.")] = 3,
    cloud: Annotated[
        list[str] | None,
        typer.Option(help="On spot of this cloud only; may be repeated.", show_default="all"),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Environment; may be repeated.")
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="On whose behalf.", show_default="the member of the key")
    ] = None,
    job_id: Annotated[
        str | None, typer.Option("--id", help="Id of the job: submitting it again changes nothing.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it has ended; the exit code is the job's then.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Have a command run as a batch job. Options go before the command; -- separates them.

    Example: spotfed job submit --home north --work 2h --checkpoint -- python3 train.py --epochs 50

    Example: spotfed job submit --home north --id nightly-$(date +%F) --deadline 8h --wait -- make report
    """
    profile = {"memory_gb": memory_gb, "disk_gb": disk_gb, "io_share": io_share}
    wish = _wish(
        id=job_id,
        name=name,
        origin=origin,
        home=home,
        command=tuple(command),
        environment=_environment(env),
        cores=cores,
        instances=instances,
        memory_limit_mb=memory_limit_mb,
        profile=_profile(work, {field: value for field, value in profile.items() if value is not None}),
        checkpoint=_checkpoint(checkpoint, save, restore),
        slack=slack,
        idempotent=idempotent,
        deadline_s=None if deadline is None else _seconds(deadline, "--deadline"),
        max_cost=max_cost,
        max_evictions=max_evictions,
        retries=retries,
        clouds=tuple(cloud) if cloud else None,
    )
    with connected(_PATIENCE_S if wait else None) as client:
        made = client.jobs.submit(wish)
        if wait:
            if not as_json:
                warn(f"job {made.id} is submitted; Ctrl-C leaves it running (spotfed job cancel {made.id})")
            made = client.jobs.wait(made.id)
    if as_json:
        print_json(made.model_dump(mode="json"))
    elif wait:
        _show(made)
    else:
        from rich.markup import escape

        out = console()
        out.print(f"job [bold]{made.id}[/bold] is {made.state}: {escape(made.said)}", soft_wrap=True)
        out.print(f"  spotfed job status {made.id}         where it runs, why it moved, what it costs")
        out.print(f"  spotfed job logs {made.id} --follow  what it writes")
    if wait:
        raise typer.Exit(_exit_code(made))


@job.command("list")
def list_jobs(
    state: Annotated[
        str | None, typer.Option(help="Only queued, running, finished, failed or cancelled ones.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Show at most so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show your jobs, the latest first.

    Example: spotfed job list --state running
    """
    from broker.cli.views.job import list_rows
    from broker.jobs.models import JobState

    if state is not None and state not in set(JobState):
        known = ", ".join(one.value for one in JobState)
        raise CommandError(f"--state: {state!r} is none of {known}", ExitCode.BAD_INPUT)
    with connected() as client:
        found = client.jobs.list(state=None if state is None else JobState(state), name=name, limit=limit)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if not found.jobs:
        console().print(
            "no such jobs" if state or name else "no jobs yet: spotfed job submit --home CLOUD -- COMMAND"
        )
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Jobs", title_justify="left")
    for column in ("id", "name", "state", "submitted", "where"):
        table.add_column(column)
    for column in ("cost", "on-demand"):
        table.add_column(column, justify="right")
    table.add_column("command", no_wrap=True, overflow="ellipsis")
    for row in list_rows(found.jobs, time.time()):
        table.add_row(*map(escape, row))
    console().print(table)
    if found.more:
        console().print("there are more: --limit")


@job.command()
def status(job_id: IdArgument, as_json: JsonOption = False) -> None:
    """Show how a job stands: where it ran, why it moved, what it costs, and what to do next.

    Example: spotfed job status nightly
    """
    with connected() as client:
        found = client.jobs.get(job_id)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _show(found)


@job.command()
def logs(
    job_id: IdArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until it has ended, with its later attempts.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, help="Its number.", show_default="the one that finished, or the latest"),
    ] = None,
    rank: Annotated[int, typer.Option(min=0, max=63, help="Of several instances, which one.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show what a job wrote to standard output and error: the last 256 kB of an attempt.

    Example: spotfed job logs nightly --follow
    """
    if not follow:
        with connected() as client:
            told = client.jobs.read_log(job_id, attempt=attempt, rank=rank)
        if as_json:
            print_json(told.model_dump(mode="json"))
            return
        if told.offset:
            warn(f"the first {told.offset} bytes of attempt {told.attempt} are not kept")
        if not told.attempt:
            warn(f"it has not run yet: spotfed job status {job_id}")
        _write(told.text)
        return
    with connected(_PATIENCE_S) as client:
        shown = 0
        for told in client.jobs.follow_log(job_id, attempt=attempt, rank=rank):
            if as_json:
                print_json(told.model_dump(mode="json"), lines=True)
                continue
            if shown not in {0, told.attempt}:
                warn(f"attempt {told.attempt}")
            shown = told.attempt
            _write(told.text)


@job.command()
def cancel(job_id: IdArgument, as_json: JsonOption = False) -> None:
    """End a job. What runs of it is stopped.

    Example: spotfed job cancel nightly
    """
    with connected() as client:
        found = client.jobs.cancel(job_id)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        console().print(f"job {found.id}: {found.said}", soft_wrap=True, markup=False)


# -- how -----------------------------------------------------------------------------------------------------


def _show(found: JobView) -> None:
    from broker.cli.views.job import status_lines

    for line in status_lines(found, console().width, time.time()):
        typer.echo(line)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _exit_code(found: JobView) -> int:
    """As a shell would say it: 128 and the signal for a command that one ended."""
    if found.state == "finished":
        return ExitCode.DONE
    code = found.exit_code or ExitCode.FAILED
    return code if code > 0 else 128 - code


def _wish(**fields: Any) -> JobWish:
    from pydantic import ValidationError

    from broker.jobs.models import JobWish

    try:
        return JobWish.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise _named_option(error) from None


_OPTIONS = {
    "environment": "env",
    "clouds": "cloud",
    "deadline_s": "deadline",
    "work_s": "work",
    "command": "COMMAND",
}


def _named_option(error: ValidationError) -> Exception:
    """What a message says of its field, said of the option it came from."""
    from cloudsim.model.errors import SpecError

    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part) for part in first["loc"]]
    field = next((part for part in reversed(path) if not part.isdecimal()), "environment")
    field = path[0] if path and path[0] in {"environment", "clouds", "command"} else field
    option = _OPTIONS.get(field, field)
    shown = option if option.isupper() else f"--{option.replace('_', '-')}"
    return SpecError(first["msg"], field=shown)


def _environment(written: list[str] | None) -> dict[str, str]:
    from cloudsim.model.errors import SpecError

    found: dict[str, str] = {}
    for text in written or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise SpecError(f"{text!r} is not NAME=VALUE", field="--env")
        if name in found:
            raise SpecError(f"{name} is given twice", field="--env")
        found[name] = value
    return found


def _profile(work: str | None, more: dict[str, float]) -> dict[str, float] | None:
    from cloudsim.model.errors import SpecError

    if work is not None:
        return {"work_s": _seconds(work, "--work"), **more}
    if more:
        option = f"--{next(iter(more)).replace('_', '-')}"
        raise SpecError("goes with --work; without it the first run measures all of them", field=option)
    return None


def _checkpoint(wanted: bool, save: str | None, restore: str | None) -> dict[str, tuple[str, ...]] | None:
    if not wanted and save is None and restore is None:
        return None
    commands = {"save": (save, "--save"), "restore": (restore, "--restore")}
    return {name: _words(text, option) for name, (text, option) in commands.items() if text is not None}


def _words(text: str, option: str) -> tuple[str, ...]:
    """A command as a shell splits it."""
    from cloudsim.model.errors import SpecError

    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise SpecError(f"{text!r} is no command: {error}", field=option) from None
    if not found:
        raise SpecError("is empty", field=option)
    return found


def _seconds(text: str, option: str) -> float:
    from cloudsim.model.durations import parse_duration_s

    return parse_duration_s(text, field=option)
