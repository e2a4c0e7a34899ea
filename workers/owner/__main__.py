"""The owner of a cloud, or of several: ``python -m workers.owner --cloud ID --federation FILE``.

It is a Celery solo worker with a queue for each cloud, ``cloud.<id>``, on which doorbells come. It attends to
a cloud once it owns it and has recovered; a second process for the same cloud waits for the lease of the
first. What ends the process because of one of its clouds ends the owners of all.

SIGHUP lets it read the federation file anew: it becomes a new process of the same id, unless the file is
wrong or instances do not fit the cloud's nodes, which it logs. ``--check`` only prints, as JSON, what is in
the way of the nodes in the file; the owner may run meanwhile.

Exit status: 0 told to stop, 2 wrong arguments, federation or key file, 70 the owner and its journal disagree,
75 fenced: another process has become the owner, 78 the Redis server may drop keys or TLS refuses it, or the
federation speaks a later version of the contract, or instances do not fit the nodes in the federation file.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn, cast

import redis
import structlog
from celery import Celery, current_task

from broker.contract import Batch, CloudInfo, read_message, write_message
from broker.contract.convert import to_node_kinds
from broker.doctor.redis import UnsafeQueueError
from broker.journal.archive import Archive, archive_directory
from broker.journal.journal import Journal, JournalError
from broker.observability import gc_tuning
from broker.observability.spans import Spans
from broker.queue.celery_config import DRAIN, cloud_queue
from broker.queue.send import bell_queue, send_batch
from broker.settings import Settings, SettingsError, require_state_dir, settings
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from broker.storage.negotiation import ContractError, FederationVersion
from broker.storage.outages import until_answered
from broker.storage.replication import Replication
from cloudsim.federation.file import load_federation
from cloudsim.federation.model import FederatedCloud, Federation
from cloudsim.model.durations import parse_duration_s
from cloudsim.model.errors import InputError
from cloudsim.prediction.samples import Flavour
from workers import worker_process
from workers.owner.catalogue import CatalogueReader
from workers.owner.epoch_file import EpochFile
from workers.owner.nodes import NodesError, describe_change
from workers.owner.owner_group import OwnerGroup
from workers.owner.process import OwnerProcess, OwnerProcessSpec, epochs_directory
from workers.owner.recovery import Recovery
from workers.owner.refresh_schedule import wall_time_sizes
from workers.owner.standby import Standby
from workers.owner.state import OwnerSpec
from workers.owner.stats import OwnerStatsPublisher

log = structlog.get_logger(__name__)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = argparse.ArgumentParser(prog="python -m workers.owner", description=__doc__)
    which = arguments.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--cloud", action="append", default=[], metavar="ID",
        help="id of a cloud in the federation file; once for each whose owner runs in this process",
    )  # fmt: skip
    which.add_argument("--all", action="store_true", help="all clouds of the federation file")
    arguments.add_argument("--federation", required=True, type=Path, help="federation file")
    arguments.add_argument(
        "--time", choices=("wall", "trace"), default="wall", help="whose time the cloud lives in"
    )
    arguments.add_argument(
        "--speed", type=float, default=1.0, help="wall: seconds of the cloud's time a second"
    )
    arguments.add_argument(
        "--history", default="48h", help="wall: own load replayed before the cloud first opens"
    )
    arguments.add_argument("--until", help="requests after this time of the federation are left out")
    arguments.add_argument("--samples", type=int, help="Monte-Carlo samples a size")
    arguments.add_argument("--seed", type=int, help="of the Monte-Carlo samples")
    arguments.add_argument(
        "--overflow-sla", type=float, help="SLA of requests offered to others, instead of the file's"
    )
    arguments.add_argument(
        "--check", action="store_true", help="print what is in the way of the nodes in the file, and end"
    )
    return arguments


def load_process_specs(options: argparse.Namespace, config: Settings) -> list[OwnerProcessSpec]:
    """Read the federation file, and combine it with arguments and settings. Raises InputError."""
    until_s = None if options.until is None else parse_duration_s(options.until, field="--until")
    # In trace time the sizes of tables and the end follow from the load of all.
    played = options.cloud if options.time == "wall" and not options.all else None
    federation = load_federation(options.federation, config.data, until_s=until_s, played=played)
    clouds = [member.spec.id for member in federation.clouds] if options.all else options.cloud
    return [process_spec(cloud, options, config, federation) for cloud in dict.fromkeys(clouds)]


class SpecFile:
    """The federation file, as it was read last for the clouds of this process. Raises InputError."""

    def __init__(self, options: argparse.Namespace, config: Settings):
        self._options, self._config, self._lock = options, config, threading.Lock()
        self._stamp = self._look()
        #: Specifications by cloud.
        self.specs = self._load()

    def read_again(self, cloud: str) -> OwnerProcessSpec:
        """Return the specification of a cloud, from the file as it is now; one that is wrong is logged."""
        with self._lock:
            try:
                if (stamp := self._look()) != self._stamp:
                    self.specs |= self._load()
                    self._stamp = stamp
            except InputError as error:
                log.error("federation file not taken", why=str(error))  # noqa: TRY400
            return self.specs[cloud]

    def _load(self) -> dict[str, OwnerProcessSpec]:
        return {spec.info.id: spec for spec in load_process_specs(self._options, self._config)}

    def _look(self) -> tuple[int, int]:
        try:
            status = self._options.federation.stat()
        except OSError:
            return 0, 0  # reading it says what is wrong
        return status.st_mtime_ns, status.st_size


def process_spec(
    cloud: str, options: argparse.Namespace, config: Settings, federation: Federation
) -> OwnerProcessSpec:
    """Combine arguments, settings and federation file for a cloud. Raises InputError."""
    names = [member.spec.id for member in federation.clouds]
    if cloud not in names:
        raise InputError(f"no cloud is called {cloud!r}; there are: {', '.join(names)}", field="--cloud")
    order = names.index(cloud)
    member = federation.clouds[order]
    trace_time = options.time == "trace"
    if member.instances is not None and not trace_time:
        # Real instances live in real time, and all recorded load of its users is past when it begins.
        past_s = member.own_load.last_stop_s if len(member.own_load) else 0.0
        options = argparse.Namespace(**{**vars(options), "speed": 1.0, "history": past_s})
    until_s = federation.ends_s if trace_time else federation.until_s
    return OwnerProcessSpec(
        owner=OwnerSpec(
            member.spec,
            trace_time=trace_time,
            own_load=member.own_load,
            own_load_until_s=until_s,
            reservation_ttl_s=config.reservation_ttl_s,
            renewal_s=config.renewal_s,
            overflow=member.overflow and not trace_time,
            overflow_sla=member.overflow_sla if options.overflow_sla is None else options.overflow_sla,
        ),
        info=_info(member, order, options),
        sizes=_sizes(federation, member, trace_time=trace_time),
        seed=config.seed if options.seed is None else options.seed,
        births=options.samples or config.samples,
        speed=options.speed,
        history_s=parse_duration_s(options.history, field="--history"),
    )


def _info(member: FederatedCloud, order: int, options: argparse.Namespace) -> CloudInfo:
    cores, pools, prices = member.spec.node_cores, member.spec.products.pools, member.prices
    trace_time = options.time == "trace"
    return CloudInfo(
        id=member.spec.id,
        order=order,
        nodes=member.nodes,
        cores=sum(cores),
        largest_node=max(cores),
        time="trace" if trace_time else "wall",
        overflow=member.overflow,
        node_kinds=to_node_kinds(cores, member.spec.details),
        lineup=member.spec.lineup.name,
        grace_s=member.spec.grace_s,
        pools=pools.bands if pools else (),
        slices_s=member.spec.slices_s,
        fair_share=member.spec.fair_share is not None,
        speed=1.0 if trace_time else options.speed,
        instances=None if member.instances is None or trace_time else str(member.instances.get("driver")),
        runs_commands=(member.driver == "process" or member.boot_s is not None) and not trace_time,
        boot_s=None if trace_time else member.boot_s,
        spot_usd_per_core_hour=None if prices is None else prices.spot_usd_per_core_hour,
        on_demand_usd_per_core_hour=None if prices is None else prices.on_demand_usd_per_core_hour,
        sells_on_demand=member.sells_on_demand and not trace_time,
    )


def _sizes(federation: Federation, member: FederatedCloud, *, trace_time: bool) -> frozenset[int | Flavour]:
    if trace_time or member.spec.products.pools:
        flavours = federation.spot_flavours(member)
        return frozenset((cores, amounts) if amounts else cores for cores, amounts in flavours)
    return frozenset(wall_time_sizes(member.spec.node_cores, member.own_load.cores.tolist()))


def exit_now(status: int) -> NoReturn:
    """End the process from any thread; Celery would take an exception for a failed task."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(status)


def start_again() -> NoReturn:
    """Become a new process of the same id, with the same arguments and environment."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # the new one takes it when it is ready
    logging.shutdown()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  (this very program)


def _keep_reload() -> None:
    """Keep SIGHUP until the owner is ready for it: by default it ends a process, and nohup drops it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def check(spec: OwnerSpec, config: Settings) -> int:
    """Print what is in the way of a cloud's nodes, and the id of its owner's process on this machine."""
    client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
    archive = Archive(archive_directory(config.state_dir, config.key_prefix, spec.cloud.id))
    recovery = Recovery(Journal(client, keys, spec.cloud.id), archive)
    try:
        try:
            state = recovery.read(spec).state
        except JournalError:  # its owner has just cut the journal behind a new snapshot
            state = recovery.read(spec).state
    except (JournalError, redis.RedisError) as error:
        print(f"workers.owner: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_UNAVAILABLE
    owner = EpochFile(epochs_directory(config.state_dir, config.key_prefix), spec.cloud.id).pid()
    print(json.dumps({**describe_change(state, spec.cloud), "owner": owner}))  # noqa: T201
    return os.EX_OK


def _with_catalogue(spec: OwnerProcessSpec, catalogue: CatalogueReader) -> OwnerProcessSpec:
    """Let the owner of a real cloud promise by what its agent says of it."""
    if spec.info.instances is None:
        return spec
    return replace(spec, owner=replace(spec.owner, catalogue=catalogue))


def _read_again(file: SpecFile, cloud: str, catalogue: CatalogueReader) -> OwnerProcessSpec:
    return _with_catalogue(file.read_again(cloud), catalogue)


def _follow_version(speaking: FederationVersion, owners: Mapping[str, OwnerProcess]) -> None:
    """Publish what these members are again once all members read the version that can say all of it."""
    if not speaking.is_final:
        speaking.follow(threading.Event())
        for owner in owners.values():
            owner.publish_info()


def _tell_misfit(client: redis.Redis, keys: RedisKeys, error: NodesError) -> None:
    """Print what does not fit the nodes of a cloud, and the nodes that it told the federation before."""
    stored = cast("bytes | None", until_answered(lambda: client.hget(keys.clouds, error.cloud)))
    had = "" if stored is None else f" (it had {read_message(CloudInfo, stored).nodes})"
    print(f"workers.owner: {error}{had}", file=sys.stderr)  # noqa: T201


def _make_owners(
    file: SpecFile,
    signers: Sequence[MessageSigner],
    config: Settings,
    app: Celery,
    client: redis.Redis,
    speaking: FederationVersion,
) -> tuple[dict[str, OwnerProcess], list[Spans]]:
    """Return the owners by cloud, and the spans that they record, which are to be closed after them."""
    keys = RedisKeys(config.key_prefix)
    owners: dict[str, OwnerProcess] = {}
    recorded: list[Spans] = []
    replication = Replication(client, config)

    def send(queue: str, batch: Batch) -> None:
        send_batch(app, queue, json.loads(write_message(batch, speaking())))

    for spec, signing in zip(file.specs.values(), signers, strict=True):
        cloud = spec.info.id
        journal = Journal(
            client,
            keys,
            cloud,
            signing,
            speaks=speaking,
            events_kept=config.events_kept,
            replication=replication,
        )
        archive = Archive(archive_directory(config.state_dir, config.key_prefix, cloud))
        epochs = EpochFile(epochs_directory(config.state_dir, config.key_prefix), cloud)
        catalogue = CatalogueReader(client, keys, cloud, signing)
        spans = Spans.from_settings(config, "spotfed-owner", **{"spotfed.cloud": cloud})
        recorded += [] if spans is None else [spans]
        owners[cloud] = OwnerProcess(
            _with_catalogue(spec, catalogue),
            config,
            journal,
            send,
            exit_now,
            archive,
            OwnerStatsPublisher(journal, time.monotonic),
            spans,
            Standby(journal, archive, epochs, partial(_read_again, file, cloud, catalogue)),
        )
    threading.Thread(target=_follow_version, args=(speaking, owners), daemon=True).start()
    return owners, recorded


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the owners until the process is told to stop; return the exit status."""
    options = parser().parse_args(arguments)
    worker_process.end_when_told()
    _keep_reload()
    try:
        config = settings()
        require_state_dir(config)
        file = SpecFile(options, config)
        clouds = [*file.specs]
        app = worker_process.create_app(config, clouds[0])
        if options.check:
            return max(check(spec.owner, config) for spec in file.specs.values())
        worker_process.require_safe_queue(config)
        signers = [MessageSigner.from_settings(config, cloud_party(cloud)) for cloud in clouds]
        client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
        speaking = FederationVersion(client, keys)
        until_answered(speaking.refresh)
    except (InputError, SettingsError, UnsafeQueueError, ContractError) as error:
        print(f"workers.owner: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError | ContractError) else 2

    owners, spans = _make_owners(file, signers, config, app, client, speaking)

    def refuse(error: NodesError) -> NoReturn:
        _tell_misfit(client, keys, error)
        exit_now(os.EX_CONFIG)

    group = OwnerGroup(owners, refuse, exit_now)
    bells = {cloud_queue(cloud): cloud for cloud in clouds}

    def attend() -> None:
        group.attend(bells[current_task.request.delivery_info["routing_key"]])

    worker_process.register_task(app, DRAIN, [*map(bell_queue, clouds)], attend)

    def reload() -> None:
        try:
            found = {spec.info.id: spec.owner.cloud for spec in load_process_specs(options, config)}
        except InputError as error:
            log.error("federation file not taken", why=str(error))  # noqa: TRY400
            return
        if gone := owners.keys() - found:
            log.error("federation file not taken", why=f"it has no {', '.join(sorted(gone))} any more")
        else:
            group.make_way(found, start_again)

    def ready(consume: Callable[[str], None]) -> None:
        gc_tuning.tune_gc()
        group.start(lambda cloud: consume(cloud_queue(cloud)))
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, daemon=True).start())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    try:
        opened = group.open()
        return worker_process.run_worker(
            app,
            name=f"cloud.{clouds[0]}",
            queues=[*map(cloud_queue, opened)],
            pool="solo",
            when_ready=ready,
        )
    except NodesError as error:
        _tell_misfit(client, keys, error)
        return os.EX_CONFIG
    finally:
        group.close()
        for recorder in spans:
            recorder.close()


if __name__ == "__main__":
    raise SystemExit(main())
