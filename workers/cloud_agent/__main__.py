"""The cloud agent of one real cloud: ``python -m workers.cloud_agent --cloud ID --federation FILE``.

Each lease of a cloud whose federation file has a table ``instances`` becomes an instance of the real cloud,
which is ended as soon as its lease is. Instances that the cloud's own users start are counted by the cloud's
owner and never touched. Instances outlive the agent; the next one takes them up. A second process for the
same cloud waits for the first. SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET are its credentials at the cloud,
SPOTFED_CLOUD_NOTIFICATIONS is where an OpenStack cloud publishes what happens there.

Exit status: 0 told to stop, 2 wrong arguments, federation or key file or no credentials, 75 fenced: another
process has become the agent, 78 the Redis server may drop keys or TLS refuses it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast
from uuid import uuid4

from broker.doctor.redis import UnsafeQueueError
from broker.journal.archive import directory_name
from broker.queue.send import ring
from broker.settings import Settings, SettingsError, require_state_dir, settings
from broker.signing.agent_keys import SealError, read_agent_key
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from broker.storage.private_files import find_reader
from cloudsim.federation.file import load_federation
from cloudsim.federation.model import FederatedCloud
from cloudsim.model.errors import InputError
from workers import worker_process
from workers.agents.process import become_agent, make_parser, print_error, stop_on_signals
from workers.agents.wakeup import listen_for_wakeups
from workers.cloud_agent.agent import CloudAgent
from workers.cloud_agent.background_calls import BackgroundCalls
from workers.cloud_agent.check import check_cloud
from workers.cloud_agent.drivers import make_driver, read_options
from workers.cloud_agent.drivers.base import CommonOptions, guard_check
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.nova_notifications import check_url, listen_to_nova
from workers.cloud_agent.overflow import CLOUD_CALLS, OWNER_CALLS, OverflowDriver
from workers.cloud_agent.owner_client import OwnerClient
from workers.cloud_agent.price_history import PriceDriver, check_prices, find_price_files, keep_prices
from workers.cloud_agent.sales import SOLD

PROGRAM = "workers.cloud_agent"
_STARTS, _ENDS = 8, 8


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = make_parser(PROGRAM, __doc__)
    arguments.add_argument(
        "--check", action="store_true", help="print whether leases can become instances, as JSON, and end"
    )
    arguments.add_argument("--start", action="store_true", help="with --check: start a test instance, too")
    return arguments


def read_cloud(path: Path, cloud: str, data: Path | None) -> tuple[FederatedCloud, CommonOptions]:
    """Read what the federation file says of a cloud, and how its instances are started.

    Raises
    ------
    InputError
        When the file has no cloud of that id, or the cloud is simulated.
    """
    for number, member in enumerate(load_federation(path, data, played=()).clouds):
        if member.spec.id == cloud:
            if member.instances is None:
                message = f"{cloud} is simulated: its table in {path} has no table instances"
                raise InputError(message, field="--cloud")
            where = f"cloud[{number}].instances"
            options = read_options(member.instances, where, path.absolute().parent)
            if member.sells_on_demand and (fault := options.selling_fault):
                raise InputError(fault[1], field=f"{where}.{fault[0]}")
            return member, options
    raise InputError(f"no cloud is called {cloud!r}", field="--cloud")


def read_credentials(config: Settings) -> tuple[str | None, str | None]:
    """Return the user and the secret with which the cloud is called, None where the settings have none.

    Raises
    ------
    SettingsError
        When the file that holds the secret cannot be read.
    """
    if config.cloud_secret_file is None:
        secret = config.cloud_secret
        return config.cloud_user, None if secret is None else secret.get_secret_value()
    try:
        text = config.cloud_secret_file.read_text(encoding="utf-8")
        fault = find_reader(config.cloud_secret_file)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"SPOTFED_CLOUD_SECRET_FILE cannot be read: {error}") from error
    if fault is not None:
        raise SettingsError(f"SPOTFED_CLOUD_SECRET_FILE: {fault}")
    return config.cloud_user, text.strip()


def key_file(config: Settings, cloud: str) -> Path:
    """Return the file with the agent's key pair, for which the secrets of launches are encrypted."""
    return config.state_dir / "cloud-agents" / directory_name(config.key_prefix) / f"{cloud}.jwk"


def make_executors() -> dict[str, Executor]:
    """Return thread pools by kind of call: ends never wait for starts, and nothing waits for a listing."""
    starts, ends = ThreadPoolExecutor(_STARTS), ThreadPoolExecutor(_ENDS)
    owner = ThreadPoolExecutor(1)  # it is asked one question at a time
    return {
        "list": ThreadPoolExecutor(1), "flavours": ThreadPoolExecutor(1), "headroom": ThreadPoolExecutor(1),
        "start": starts, "end": ends, "notice": ends,
        **dict.fromkeys(("gone", "leaving", "freed", "arrive", "depart", SOLD, *OWNER_CALLS), owner),
        **dict.fromkeys(CLOUD_CALLS, ThreadPoolExecutor(1)),
    }  # fmt: skip


def check(options: argparse.Namespace) -> int:
    """Print what was found of the cloud, which needs no queue and no key; return the exit status."""
    try:
        config = settings()
        member, driver_options = read_cloud(options.federation, options.cloud, config.data)
        driver = make_driver(driver_options, options.cloud, *read_credentials(config))
        prices = find_price_files(options.federation, options.cloud, config.data)
    except (InputError, SettingsError) as error:
        print_error(PROGRAM, error)
        return 2
    spec = member.spec
    results = [*check_cloud(driver_options, driver, spec.node_cores, spec.details, start=options.start)]
    if prices is not None:
        results += guard_check("prices", check_prices(cast("PriceDriver", driver), prices))
    print(json.dumps([asdict(result) for result in results]))  # noqa: T201
    sys.stdout.flush()
    return os.EX_OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until it is told to stop; return the exit status."""
    options = parser().parse_args(arguments)
    if options.check:
        return check(options)
    worker_process.end_when_told()
    try:
        config = settings()
        require_state_dir(config)
        app = worker_process.create_app(config)
        member, driver_options = read_cloud(options.federation, options.cloud, config.data)
        driver = make_driver(driver_options, options.cloud, *read_credentials(config))
        prices = find_price_files(options.federation, options.cloud, config.data)
        signing = MessageSigner.from_settings(config, cloud_party(options.cloud))
        key = read_agent_key(key_file(config, options.cloud))
        notifications = config.cloud_notifications and config.cloud_notifications.get_secret_value()
        if notifications:
            check_url(notifications)
        worker_process.require_safe_queue(config)
    except (InputError, SettingsError, SealError, UnsafeQueueError) as error:
        print_error(PROGRAM, error)
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError) else 2
    stopping = stop_on_signals()
    client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
    lock = become_agent(PROGRAM, client, keys, options.cloud, config, stopping)
    if lock is None:
        return 0
    owner = OwnerClient(client, keys, options.cloud, uuid4().hex, signing, partial(ring, app))
    leases = CloudLeases(client, keys, options.cloud, signing, key)
    make_calls = partial(BackgroundCalls, make_executors())
    agent = CloudAgent(
        options.cloud, driver, leases, owner, make_calls, driver_options.cores, driver_options.poll_s,
        node_cores=member.spec.node_cores, details=member.spec.details, headroom=member.spec.headroom,
        overflow=cast("OverflowDriver", driver) if member.overflow else None,
        sells_on_demand=member.sells_on_demand,
    )  # fmt: skip
    waiting = partial(connect, str(config.redis_url), socket_timeout=None)
    listened = (waiting, (keys.channel(options.cloud),), agent.wake, stopping)
    threading.Thread(target=listen_for_wakeups, args=listened, daemon=True).start()
    if notifications:
        heard = (notifications, getattr(driver_options, "ca_file", None), agent.hear, stopping)
        threading.Thread(target=listen_to_nova, args=heard, daemon=True).start()
    if prices is not None:
        kept = (cast("PriceDriver", driver), prices, stopping)
        threading.Thread(target=keep_prices, args=kept, daemon=True).start()
    agent.run(stopping)
    lock.end()
    # Not the interpreter's own end: that waits for calls under way, and the next agent asks for them again.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    raise SystemExit(main())
