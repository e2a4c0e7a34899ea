"""The owner of one cloud: ``python -m workers.owner --cloud ID --federation FILE``.

It is a Celery solo worker with a queue of its own, ``cloud.<id>``, on which doorbells come. It starts to
listen once it owns the cloud and has recovered; a second process for the same cloud waits for the lease of
the first.

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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

import redis
import structlog

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
from workers.owner.process import OwnerProcess, OwnerProcessSpec, epochs_directory
from workers.owner.recovery import Recovery
from workers.owner.refresh_schedule import wall_time_sizes
from workers.owner.state import OwnerSpec
from workers.owner.stats import OwnerStatsPublisher

log = structlog.get_logger(__name__)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = argparse.ArgumentParser(prog="python -m workers.owner", description=__doc__)
    arguments.add_argument("--cloud", required=True, help="id of the cloud in the federation file")
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


def load_process_spec(options: argparse.Namespace, config: Settings) -> OwnerProcessSpec:
    """Read the federation file, and combine it with arguments and settings. Raises InputError."""
    until_s = None if options.until is None else parse_duration_s(options.until, field="--until")
    return process_spec(options, config, load_federation(options.federation, config.data, until_s=until_s))


def process_spec(options: argparse.Namespace, config: Settings, federation: Federation) -> OwnerProcessSpec:
    """Combine arguments, settings and federation file. Raises InputError."""
    names = [member.spec.id for member in federation.clouds]
    if options.cloud not in names:
        raise InputError(
            f"no cloud is called {options.cloud!r}; there are: {', '.join(names)}", field="--cloud"
        )
    order = names.index(options.cloud)
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


def _follow_version(speaking: FederationVersion, journal: Journal, info: CloudInfo) -> None:
    """Publish what this member is again once all members read the version that can say all of it."""
    if not speaking.is_final:
        speaking.follow(threading.Event())
        until_answered(lambda: journal.publish_info(info))


def _describe_earlier_nodes(client: redis.Redis, keys: RedisKeys, cloud: str) -> str:
    """Return the nodes that a cloud told the federation before, in brackets; empty if it told none."""
    stored = cast("bytes | None", until_answered(lambda: client.hget(keys.clouds, cloud)))
    return "" if stored is None else f" (it had {read_message(CloudInfo, stored).nodes})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the owner until it is told to stop; return the exit status."""
    options = parser().parse_args(arguments)
    worker_process.end_when_told()
    _keep_reload()
    try:
        config = settings()
        require_state_dir(config)
        app = worker_process.create_app(config, options.cloud)
        spec = load_process_spec(options, config)
        if options.check:
            return check(spec.owner, config)
        worker_process.require_safe_queue(config)
        signing = MessageSigner.from_settings(config, cloud_party(options.cloud))
        spans = Spans.from_settings(config, "spotfed-owner", **{"spotfed.cloud": options.cloud})
        client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
        speaking = FederationVersion(client, keys)
        until_answered(speaking.refresh)
    except (InputError, SettingsError, UnsafeQueueError, ContractError) as error:
        print(f"workers.owner: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError | ContractError) else 2

    def send(queue: str, batch: Batch) -> None:
        send_batch(app, queue, json.loads(write_message(batch, speaking())))

    journal = Journal(
        client,
        keys,
        options.cloud,
        signing,
        speaks=speaking,
        events_kept=config.events_kept,
        replication=Replication(client, config),
    )
    follower = threading.Thread(target=_follow_version, args=(speaking, journal, spec.info), daemon=True)
    follower.start()
    archive = Archive(archive_directory(config.state_dir, config.key_prefix, options.cloud))
    stats = OwnerStatsPublisher(journal, time.monotonic)
    spec = _with_catalogue(spec, CatalogueReader(client, keys, options.cloud, signing))
    owner_process = OwnerProcess(spec, config, journal, send, exit_now, archive, stats, spans)
    worker_process.register_task(app, DRAIN, [bell_queue(options.cloud)], owner_process.attend)

    def reload() -> None:
        try:
            cloud = load_process_spec(options, config).owner.cloud
        except InputError as error:
            log.error("federation file not taken", why=str(error))  # noqa: TRY400
        else:
            owner_process.make_way(cloud, start_again)

    def ready() -> None:
        gc_tuning.tune_gc()
        owner_process.start()
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=reload, daemon=True).start())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    try:
        owner_process.open()
        return worker_process.run_worker(
            app,
            name=f"cloud.{options.cloud}",
            queues=[cloud_queue(options.cloud)],
            pool="solo",
            when_ready=ready,
        )
    except NodesError as error:
        had = _describe_earlier_nodes(client, keys, options.cloud)
        print(f"workers.owner: {error}{had}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG
    finally:
        owner_process.close()
        if spans is not None:
            spans.close()


if __name__ == "__main__":
    raise SystemExit(main())
