"""``job``: run commands as batch jobs, and see what happened to them."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column

from broker.cli.connection import connected
from broker.cli.console import JsonOption, console, number, print_json, print_text, show_list, show_one
from broker.cli.errors import CommandError, ExitCode, warn
from broker.cli.options import build_model, parse_pairs
from broker.cli.views.job import list_rows, status_lines
from broker.jobs.models import JobState, JobView, JobWish
from broker.jobs.state_archive import StateArchiveError
from cloudsim.jobs.policy_names import PolicyName
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import SpecError

job = typer.Typer(
    no_args_is_help=True,
    help="Run commands as batch jobs: on spot where that is cheaper, moved on when evicted.",
)

#: A command that waits for a job's end outlasts a restart of the broker.
_PATIENCE_S = 120.0

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the job, see spotfed job list.")]

#: Options that set a field of ``JobWish`` under another name.
_OPTION_OF_FIELD = {
    "environment": "--env",
    "clouds": "--cloud",
    "deadline_s": "--deadline",
    "work_s": "--work",
    "command": "COMMAND",
}


@job.command(context_settings={"allow_interspersed_args": False})
def submit(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="What to run.", show_default=False)],
    home: Annotated[
        str | None,
        typer.Option(
            help="Cloud on which it may run on-demand; needed where several of yours run commands.",
            show_default="the origin, if a cloud, else the only one of yours",
        ),
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores of each instance.")] = 1,
    instances: Annotated[
        int,
        typer.Option(min=1, help="Number of ranks to run in parallel; each gets its SPOTFED_JOB_RANK."),
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
        bool, typer.Option("--checkpoint", help="It can go on from the files in SPOTFED_JOB_DIR.")
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
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"How it is placed: {', '.join(PolicyName)}. "
            "All but cost-aware and on-demand need --checkpoint, the deadline policies also --deadline.",
            show_default=PolicyName.COST_AWARE.value,
        ),
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Give it up rather than let it cost more.", show_default="any")
    ] = None,
    max_evictions: Annotated[
        int | None,
        typer.Option(help="Number of evictions after which it stays on-demand.", show_default="any number"),
    ] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often it is run again after it failed.")] = 3,
    cloud: Annotated[
        list[str] | None,
        typer.Option(help="On spot of this cloud only; may be repeated.", show_default="all"),
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Image of its instances on real clouds.", show_default="the cloud's")
    ] = None,
    instance_type: Annotated[
        str | None,
        typer.Option(help="Type of its instances on real clouds.", show_default="one with these cores"),
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
        bool, typer.Option("--wait", help="Wait until it has ended; the exit code is then the job's.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a command as a batch job. Options go before the command; -- separates them.

    Example: spotfed job submit --home north --work 2h --checkpoint -- python3 train.py --epochs 50

    Example: spotfed job submit --home north --id nightly-$(date +%F) --deadline 8h --wait -- make report
    """
    amounts = {"memory_gb": memory_gb, "disk_gb": disk_gb, "io_share": io_share}
    known = {name: value for name, value in amounts.items() if value is not None}
    fields = {
        "id": job_id,
        "name": name,
        "origin": origin,
        "home": home,
        "command": tuple(command),
        "environment": parse_pairs(env, field="--env", strip=False),
        "cores": cores,
        "instances": instances,
        "memory_limit_mb": memory_limit_mb,
        "profile": _profile_fields(work, known),
        "checkpoint": _checkpoint_fields(checkpoint, save, restore),
        "slack": slack,
        "idempotent": idempotent,
        "deadline_s": None if deadline is None else parse_duration_s(deadline, field="--deadline"),
        "policy": policy,
        "max_cost": max_cost,
        "max_evictions": max_evictions,
        "retries": retries,
        "clouds": tuple(cloud) if cloud else None,
        "image": image,
        "instance_type": instance_type,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    request = build_model(JobWish, given, _OPTION_OF_FIELD, whole="--env")
    with connected(_PATIENCE_S if wait else None) as client:
        submitted = client.jobs.submit(request)
        if wait:
            if not as_json:
                warn(
                    f"job {submitted.id} is submitted; Ctrl-C leaves it running "
                    f"(spotfed job cancel {submitted.id})"
                )
            submitted = client.jobs.wait(submitted.id)
    if wait:
        _show_status(submitted, as_json=as_json)
        raise typer.Exit(_exit_code(submitted))
    show_one(
        submitted,
        f"job [bold]{submitted.id}[/bold] is {submitted.state}: {escape(submitted.said)}",
        f"  spotfed job status {submitted.id}         where it runs, why it moved, what it costs",
        f"  spotfed job logs {submitted.id} --follow  what it writes",
        as_json=as_json,
    )


@job.command("list")
def list_jobs(
    state: Annotated[
        str | None, typer.Option(help="Only queued, running, finished, failed or cancelled ones.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Largest number of jobs to show.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show your jobs, the latest first.

    Example: spotfed job list --state running
    """
    if state is not None and state not in set(JobState):
        known = ", ".join(each.value for each in JobState)
        raise CommandError(f"--state: {state!r} is none of {known}", ExitCode.BAD_INPUT)
    with connected() as client:
        page = client.jobs.list(state=None if state is None else JobState(state), name=name, limit=limit)
    if as_json:
        print_json(page)
        return
    show_list(
        "jobs",
        list_rows(page.jobs, time.time()),
        *("id", "name", "state", "submitted", "where"),
        *map(number, ("cost", "on-demand")),
        Column("command", no_wrap=True, overflow="ellipsis"),
        row=lambda cells: map(escape, cells),
        as_json=False,
        title="Jobs",
        none="no such jobs" if state or name else "no jobs yet: spotfed job submit --home CLOUD -- COMMAND",
    )
    if page.more:
        print_text("there are more: --limit")


@job.command()
def status(job_id: IdArgument, as_json: JsonOption = False) -> None:
    """Show the state of a job: where it ran, why it moved, what it costs, and what to do next.

    Example: spotfed job status nightly
    """
    with connected() as client:
        view = client.jobs.get(job_id)
    _show_status(view, as_json=as_json)


@job.command()
def logs(
    job_id: IdArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until it has ended, with its later attempts.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, help="Number of an attempt.", show_default="the finished one, or the latest"),
    ] = None,
    rank: Annotated[int, typer.Option(min=0, max=63, help="Rank, where the job has several instances.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show what a job wrote to standard output and error: the last 256 kB of an attempt.

    Example: spotfed job logs nightly --follow
    """
    if not follow:
        with connected() as client:
            part = client.jobs.read_log(job_id, attempt=attempt, rank=rank)
        if as_json:
            print_json(part)
            return
        if part.offset:
            warn(f"the first {part.offset} bytes of attempt {part.attempt} are not kept")
        if not part.attempt:
            warn(f"it has not run yet: spotfed job status {job_id}")
        _write(part.text)
        return
    with connected(_PATIENCE_S) as client:
        shown = 0
        for part in client.jobs.follow_log(job_id, attempt=attempt, rank=rank):
            if as_json:
                print_json(part, lines=True)
                continue
            if shown not in {0, part.attempt}:
                warn(f"attempt {part.attempt}")
            shown = part.attempt
            _write(part.text)


@job.command()
def files(
    job_id: IdArgument,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A new directory for them.")],
    attempt: Annotated[
        int | None,
        typer.Option(min=1, help="Number of an attempt.", show_default="the finished one, or the latest"),
    ] = None,
    rank: Annotated[int, typer.Option(min=0, max=63, help="Rank, where the job has several instances.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fetch the files of a job, as they were last saved; when a job is done, all of its directory is.

    Needs a federation that keeps the states of jobs in a bucket (SPOTFED_JOBS_BUCKET).

    Example: spotfed job files nightly results
    """
    if directory.exists():
        raise CommandError(f"DIRECTORY: {directory} exists already", ExitCode.BAD_INPUT)
    with connected() as client:
        try:
            found = client.jobs.fetch_files(job_id, directory, attempt=attempt, rank=rank)
        except (StateArchiveError, OSError) as error:
            raise CommandError(f"the files cannot be fetched: {error}", ExitCode.FAILED) from error
    show_one(found, escape(f"the files of attempt {found.attempt} are in {directory}"), as_json=as_json)


@job.command()
def cancel(job_id: IdArgument, as_json: JsonOption = False) -> None:
    """End a job. What runs of it is stopped.

    Example: spotfed job cancel nightly
    """
    with connected() as client:
        view = client.jobs.cancel(job_id)
    show_one(view, escape(f"job {view.id}: {view.said}"), as_json=as_json)


def _show_status(view: JobView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    for line in status_lines(view, console().width, time.time()):
        typer.echo(line)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _exit_code(view: JobView) -> int:
    """Return the exit code of a job as a shell gives it: 128 plus the signal that ended the command."""
    if view.state is JobState.FINISHED:
        return ExitCode.DONE
    code = view.exit_code or ExitCode.FAILED
    return code if code > 0 else 128 - code


def _profile_fields(work: str | None, more: dict[str, float]) -> dict[str, float] | None:
    if work is not None:
        return {"work_s": parse_duration_s(work, field="--work"), **more}
    if more:
        option = f"--{next(iter(more)).replace('_', '-')}"
        raise SpecError("goes with --work; without it the first run measures all of them", field=option)
    return None


def _checkpoint_fields(
    is_given: bool, save: str | None, restore: str | None
) -> dict[str, tuple[str, ...]] | None:
    if not is_given and save is None and restore is None:
        return None
    commands = {"save": (save, "--save"), "restore": (restore, "--restore")}
    return {
        name: _split_command(text, option) for name, (text, option) in commands.items() if text is not None
    }


def _split_command(text: str, option: str) -> tuple[str, ...]:
    """Split a command as a shell does. Raises SpecError naming the option."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SpecError(f"{text!r} is no command: {error}", field=option) from None
    if not words:
        raise SpecError("is empty", field=option)
    return words
