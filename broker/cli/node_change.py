"""``cloud apply``: the owners of clouds take the nodes that the federation file gives them now."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import RenderableType
from rich.markup import escape

from broker.cli import formatting
from broker.cli.console import JsonOption, make_table, next_step, number, show_one
from broker.cli.errors import CommandError, ExitCode
from broker.cli.redis_connection import connected_redis
from broker.contract import Advert, CloudInfo, NodeKind, read_message
from broker.local.process_record import is_supervised, read_record
from broker.local.state_files import find_federation, find_redis_url
from broker.settings import Settings, settings
from broker.storage.keys import RedisKeys
from cloudsim.model.nodes import NodeGroup, shape_of

if TYPE_CHECKING:
    import redis

_TAKEN_S = 60.0
_LOOK_S = 0.1
_BAD_INPUT = 2  # exit status of owners

Report = dict[str, Any]


def apply(
    cloud_ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLOUD]...",
            help="Ids of clouds, which read the whole of their tables anew.",
            show_default="all whose nodes have changed",
        ),
    ] = None,
    federation: Annotated[
        Path | None,
        typer.Option(help="Federation file.", show_default="that of `spotfed up` on this machine"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change and what is in the way.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Give clouds the nodes that the federation file has now: more, fewer, or others.

    A node is known by its number, counted from 0 through the cloud's groups of nodes. Instances stay on
    their numbers. Where one does not fit what its node would be, nothing is applied, the instances in the way
    are shown, and the exit code is 1. Needs the queue itself (SPOTFED_REDIS_URL, or `spotfed up` on this
    machine); run it where the owners run, which read the file anew without losing a lease.

    Example: spotfed cloud apply north --dry-run
    """
    from cloudsim.federation.file import read_file  # loads numpy, which the other commands do without

    config = settings()
    path = federation or find_federation(config)
    if path is None:
        raise CommandError(
            "no federation runs on this machine: name its file with --federation", ExitCode.BAD_INPUT
        )
    known = [table.id for table in read_file(path).cloud]
    for name in cloud_ids or ():
        if name not in known:
            raise CommandError(
                f"no cloud is called {name!r}; there are: {', '.join(known)}", ExitCode.BAD_INPUT
            )
    with connected_redis() as (client, keys):
        infos, local = _infos(client, keys), _find_processes(config)
        reports = [_with_nodes(report, infos, local) for report in _check(config, path, cloud_ids or known)]
        blocked = any(report["in_the_way"] for report in reports)
        if not dry_run and not blocked:
            named = frozenset(cloud_ids or ())
            _apply(local, client, keys, [one for one in reports if one["changes"] or one["cloud"] in named])
    # Members that are in no file given by name may have their owners elsewhere.
    left = sorted(set(infos) - set(known)) if federation is None else []
    show_one(
        {"dry_run": dry_run, "clouds": reports, "left": left},
        *(line for report in reports for line in _lines(report)),
        *(
            f"{escape(name)}: not in {escape(str(path))}; its journal is kept for when it comes back"
            for name in left
        ),
        as_json=as_json,
    )
    if blocked:
        if not as_json:
            next_step(_drain_command(reports))
        raise typer.Exit(ExitCode.FAILED)


def _infos(client: redis.Redis, keys: RedisKeys) -> dict[str, CloudInfo]:
    stored = cast("dict[bytes, bytes]", client.hgetall(keys.clouds))
    return {name.decode(): read_message(CloudInfo, text) for name, text in stored.items()}


def _check(config: Settings, path: Path, clouds: Sequence[str]) -> Iterator[Report]:
    """Yield what the owner program says of each cloud. Raises CommandError."""
    environment = {**os.environ, "SPOTFED_REDIS_URL": find_redis_url(config) or ""}  # noqa: TID251  (handed on)
    command = [
        sys.executable,
        "-P",  # the current directory may hold modules of the same names
        "-m",
        "workers.owner",
        "--federation",
        str(path.absolute()),
        "--check",
        "--cloud",
    ]
    processes = [
        subprocess.Popen(  # noqa: S603  (a module of ours)
            [*command, cloud], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for cloud in clouds
    ]
    answers = [(process.communicate(), process.returncode) for process in processes]
    for cloud, ((answer, complaint), status) in zip(clouds, answers, strict=True):
        if status:
            last = complaint.strip().rpartition("\n")[2].removeprefix("workers.owner: ")
            code = ExitCode.BAD_INPUT if status == _BAD_INPUT else ExitCode.FAILED
            raise CommandError(f"{cloud} was not checked: {last or f'exit status {status}'}", code)
        yield json.loads(answer)


def _find_processes(config: Settings) -> dict[str, int | None]:
    """Return the ids of the processes of ``spotfed up`` by name; None: one is about to start again.

    The owner of each cloud is there as ``cloud-<id>``, also where several share a process.

    A list that nobody keeps any more is left out, as other processes may have its numbers.
    """
    record = read_record(config.state_dir)
    if record is None or not is_supervised(record):
        return {}
    processes = record["processes"]
    # The file may be that of an earlier version, whose owners each had one cloud.
    owners = {f"cloud-{cloud}": entry["pid"] for entry in processes for cloud in entry.get("clouds", ())}
    return {entry["name"]: entry["pid"] for entry in processes} | owners


def _with_nodes(report: Report, infos: Mapping[str, CloudInfo], local: Mapping[str, int | None]) -> Report:
    """Add the nodes that the cloud has, those of the file, and where its owner is, for people."""
    info, process = infos.get(report["cloud"]), f"cloud-{report['cloud']}"
    owner = report["owner"]
    opening = owner is None and process in local
    after = tuple(NodeKind.model_validate(kind) for kind in report["node_kinds"])
    return {
        "cloud": report["cloud"],
        "nodes": None if info is None else _shape(info.node_kinds),
        "new_nodes": _shape(after),
        "changes": info is not None and info.node_kinds != after,
        "in_the_way": report["in_the_way"],
        "moved_headroom": report["moved_headroom"],
        "owner": local[process] if opening else owner,
        "opening": opening,
        "applied": False,
    }


def _shape(kinds: Sequence[NodeKind]) -> str:
    return shape_of(
        NodeGroup(
            kind.nodes, kind.cores, tuple(sorted(kind.resources.items())), frozenset(kind.labels.items())
        )
        for kind in kinds
    )


def _apply(
    local: Mapping[str, int | None], client: redis.Redis, keys: RedisKeys, reports: Sequence[Report]
) -> None:
    """Let owners on this machine read their file anew, and wait until they have. Raises CommandError."""
    asked = [
        (report, _epoch(client, keys, report["cloud"]))
        for report in reports
        if report["opening"] or report["owner"] is not None
    ]
    for report, _ in asked:
        _signal(report["owner"], signal.SIGHUP)
    limit_s = time.monotonic() + _TAKEN_S
    for report, epoch in asked:
        while not _has_taken(client, keys, report, epoch):
            if time.monotonic() > limit_s:
                raise CommandError(
                    f"{report['cloud']} goes on with the nodes that it had: see the log of its owner, and "
                    "try `spotfed cloud apply --dry-run` again"
                )
            time.sleep(_LOOK_S)
        report["applied"] = True
        # Jobs run on without their agent, which reads the file when it is started again.
        _signal(local.get(f"agent-{report['cloud']}"), signal.SIGTERM)


def _has_taken(client: redis.Redis, keys: RedisKeys, report: Report, epoch: int) -> bool:
    """Return True once an owner of a later epoch has the nodes of the file.

    Raises CommandError when it has others. One that was opening may have read the file as it was before, and
    then reads it again.
    """
    if _epoch(client, keys, report["cloud"]) <= epoch:
        return False
    shape = _shape(_infos(client, keys)[report["cloud"]].node_kinds)
    if shape != report["new_nodes"] and not report["opening"]:
        raise CommandError(f"{report['cloud']} has taken {shape}: its owner reads another file")
    return bool(shape == report["new_nodes"])


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is None:
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # whatever starts again reads the file as it is now
    except PermissionError as error:
        raise CommandError(f"process {pid} belongs to another user: run this command as that user") from error


def _epoch(client: redis.Redis, keys: RedisKeys, cloud: str) -> int:
    """Return the epoch whose owner has opened the cloud."""
    advert = cast("bytes | None", client.get(keys.advert(cloud)))
    return 0 if advert is None else read_message(Advert, advert).epoch


def _lines(report: Report) -> list[RenderableType]:
    name = escape(report["cloud"])
    if report["nodes"] is None:
        return [f"{name}: {report['new_nodes']}; no owner has opened it yet"]
    changes = f"{report['nodes']} becomes {report['new_nodes']}" if report["changes"] else report["nodes"]
    if report["in_the_way"]:
        table = make_table(
            "In the way", "instance", "what it is", number("cores"), number("node"), "which", number("ends")
        )
        for one in report["in_the_way"]:
            kind = "lease" if one["kind"] == "spot" else "own instance"
            ends = "" if one["ends_in_s"] is None else f"in {formatting.duration(one['ends_in_s'])}"
            table.add_row(*(one["instance"], kind, str(one["cores"]), str(one["node"]), one["why"], ends))
        return [f"{name}: {report['nodes']} [red]cannot become[/red] {report['new_nodes']}", table]
    text = f"{name}: {changes}"
    if report["applied"]:
        text += ", [green]applied[/green]"
    if report["changes"] and not report["applied"]:
        text += ", nothing is in the way"
        if report["owner"] is None and not report["opening"]:
            text += (
                "; its owner does not run on this machine: start it again there, with the file as it is now"
            )
    return [text]


def _drain_command(reports: Sequence[Report]) -> str:
    report = next(report for report in reports if report["in_the_way"])
    nodes = sorted({one["node"] for one in report["in_the_way"]})
    return f"spotfed cloud drain {report['cloud']}{''.join(f' --node {node}' for node in nodes)}"
