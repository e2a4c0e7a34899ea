"""The instance agent of one real cloud: ``python -m workers.cloud_agent --cloud ID --federation FILE``.

Each lease of a cloud whose federation file has a table ``instances`` becomes an instance of the real cloud,
which is ended as soon as its lease is. Instances that the cloud's own users start are counted by the cloud's
owner and never touched. What runs outlives the agent; the next one takes it up. A second process for the same
cloud waits for the first. SPOTFED_CLOUD_USER and SPOTFED_CLOUD_SECRET say who it is to the cloud.

Exit status: 0 told to stop, 2 wrong arguments, federation or key file or no credentials, 75 fenced: another
process has become the agent, 78 the Redis server may drop keys or TLS refuses it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import uuid4

from broker.doctor.redis import UnsafeQueueError
from broker.queue.send import ring
from broker.settings import Settings, SettingsError, settings
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.federation.file import load_federation
from cloudsim.model.errors import InputError
from workers import celery_app
from workers.cloud_agent.agent import InstanceAgent
from workers.cloud_agent.background_calls import BackgroundCalls
from workers.cloud_agent.drivers.options import InstanceOptions, options_of
from workers.cloud_agent.drivers.registry import driver_of
from workers.cloud_agent.leases import CloudLeases
from workers.cloud_agent.owner_client import OwnerClient
from workers.node_agent.agent_lock import AgentLock, lock_file
from workers.node_agent.wakeup import listen

_STARTS, _ENDS = 8, 8


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m workers.cloud_agent", description=__doc__)
    made.add_argument("--cloud", required=True, help="id of the cloud in the federation file")
    made.add_argument("--federation", required=True, type=Path, help="federation file")
    return made


def cloud_options(path: Path, cloud: str, data: Path | None) -> InstanceOptions:
    """What the file says of the cloud's instances. Raises InputError."""
    for number, member in enumerate(load_federation(path, data).clouds):
        if member.spec.id == cloud:
            if member.instances is None:
                message = f"{cloud} is simulated: its table in {path} has no table instances"
                raise InputError(message, field="--cloud")
            return options_of(member.instances, f"cloud[{number}].instances", path.absolute().parent)
    raise InputError(f"no cloud is called {cloud!r}", field="--cloud")


def credentials(config: Settings) -> tuple[str | None, str | None]:
    """User and secret. Raises SettingsError: the file cannot be read."""
    if config.cloud_secret_file is None:
        secret = config.cloud_secret
        return config.cloud_user, None if secret is None else secret.get_secret_value()
    try:
        return config.cloud_user, config.cloud_secret_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"SPOTFED_CLOUD_SECRET_FILE cannot be read: {error}") from error


def executors() -> dict[str, Executor]:
    """By kinds of calls: ends wait for no start, and nothing waits for a listing."""
    starts, ends = ThreadPoolExecutor(_STARTS), ThreadPoolExecutor(_ENDS)
    owner = ThreadPoolExecutor(1)  # it is asked one question at a time
    return {
        "list": ThreadPoolExecutor(1), "start": starts, "end": ends, "notice": ends,
        **dict.fromkeys(("gone", "freed", "arrive", "depart"), owner),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the agent until it is told to stop; returns the exit status."""
    told = parser().parse_args(arguments)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        config = settings()
        app = celery_app.create(config)
        options = cloud_options(told.federation, told.cloud, config.data)
        driver = driver_of(options, told.cloud, *credentials(config))
        signing = MessageSigner.from_settings(config, cloud_party(told.cloud))
        celery_app.require_safe_queue(config)
    except (InputError, SettingsError, UnsafeQueueError) as error:
        print(f"workers.cloud_agent: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError) else 2
    client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
    lock = lock_file(config.state_dir, told.cloud)
    tenure = AgentLock(client, keys, told.cloud, config.owner_lease_ttl_s, lock)
    if not tenure.begin(stopping):
        return 0
    threading.Thread(target=tenure.keep, args=(_fenced,), daemon=True).start()
    line = OwnerClient(client, keys, told.cloud, uuid4().hex, signing, partial(ring, app))
    leases = CloudLeases(client, keys, told.cloud)
    calls = partial(BackgroundCalls, executors())
    agent = InstanceAgent(told.cloud, driver, leases, line, calls, options.cores, options.poll_s)
    waiting = partial(connect, str(config.redis_url), socket_timeout=None)
    heard = (waiting, (keys.channel(told.cloud),), agent.wake, stopping)
    threading.Thread(target=listen, args=heard, daemon=True).start()
    agent.run(stopping)
    tenure.end()
    # Not the interpreter's own end: that waits for calls under way, and the next agent asks for them again.
    sys.stderr.flush()
    os._exit(0)


def _fenced() -> None:
    print("workers.cloud_agent: another process has become the agent", file=sys.stderr)  # noqa: T201
    os._exit(os.EX_TEMPFAIL)


if __name__ == "__main__":
    raise SystemExit(main())
