"""The node agent of one cloud: ``python -m workers.node_agent --cloud ID --federation FILE``.

It runs the commands of batch jobs on the instances of a cloud whose federation file says ``driver =
"process"``: as processes of this machine. What runs outlives it; the next agent of the cloud, on the same
machine and with the same SPOTFED_STATE_DIR, takes it up. A second process for the same cloud waits for the
first. With ``--end-work`` it runs nothing, but ends what an agent that is gone left running.

Exit status: 0 told to stop, 2 wrong arguments, federation or key file, 75 fenced: another process has become
the agent (``--end-work``: there is one), 78 the Redis server may drop keys or TLS refuses it, or jobs cannot
be kept apart here.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import redis

from broker.doctor.redis import UnsafeQueueError
from broker.queue.send import ring_for_job
from broker.settings import Settings, SettingsError, settings
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.federation.file import load_federation
from cloudsim.model.errors import InputError
from workers import celery_app
from workers.node_agent.agent import NodeAgent
from workers.node_agent.agent_lock import AgentLock, lock_file, locked, open_lock
from workers.node_agent.assignments import Assignments
from workers.node_agent.cleanup import tidy
from workers.node_agent.process.checkpoints import CheckpointStore
from workers.node_agent.process.cores import Cores
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.isolation import Users, Walls, chosen
from workers.node_agent.process.process_driver import ProcessDriver
from workers.node_agent.reports import Reports, tell_ended
from workers.node_agent.wakeup import about_instances, listen

_ANSWER_S = 3.0  # a Redis that is silent for longer is away


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m workers.node_agent", description=__doc__)
    made.add_argument("--cloud", required=True, help="id of the cloud in the federation file")
    made.add_argument("--federation", required=True, type=Path, help="federation file")
    made.add_argument(
        "--end-work", action="store_true", help="end all work that was left running here, and nothing else"
    )
    return made


def node_cores(path: Path, cloud: str, data: Path | None) -> tuple[int, ...]:
    """The cores of the cloud's nodes. Raises InputError where it runs no commands."""
    members = {member.spec.id: member for member in load_federation(path, data).clouds}
    if cloud not in members:
        raise InputError(f"no cloud is called {cloud!r}; there are: {', '.join(members)}", field="--cloud")
    if members[cloud].driver != "process":
        raise InputError(
            f'{cloud} runs no commands: its table in {path} needs driver = "process"', field="--cloud"
        )
    return members[cloud].spec.node_cores


def process_driver(config: Settings, cloud: str, nodes: Sequence[int]) -> ProcessDriver:
    """The cloud's driver, with what runs already. Raises DriverError."""
    kept = kept_states(config)
    first, _, last = config.job_users.partition("-")
    walls = Walls(chosen(config.isolation), Users(int(first), int(last)), (config.state_dir, kept.directory))
    return ProcessDriver(config.state_dir / "agents" / cloud, kept, Cores(nodes), walls)


def kept_states(config: Settings) -> CheckpointStore:
    """Those that the agents of all clouds share."""
    return CheckpointStore(config.jobs_dir or config.state_dir / "jobs")


def end_work(config: Settings, cloud: str, nodes: Sequence[int]) -> int:
    """Ends what runs and forgets it; returns the exit status."""
    if not locked(open_lock(lock_file(config.state_dir, cloud))):
        print(f"workers.node_agent: {cloud} has an agent: stop it first", file=sys.stderr)  # noqa: T201
        return os.EX_TEMPFAIL
    driver = process_driver(config, cloud, nodes)
    held = sorted(driver.held())
    for name in held:
        driver.forget(name)
    try:
        with connect(str(config.redis_url), socket_timeout=_ANSWER_S) as client:
            tell_ended(client, RedisKeys(config.key_prefix), cloud, held)
    except redis.RedisError as error:
        print(f"workers.node_agent: its end is not told, as redis is away: {error}", file=sys.stderr)  # noqa: T201
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the agent until it is told to stop; returns the exit status."""
    told = parser().parse_args(arguments)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        config = settings()
        app = celery_app.create(config)
        nodes = node_cores(told.federation, told.cloud, config.data)
        if told.end_work:
            return end_work(config, told.cloud, nodes)
        signing = MessageSigner.from_settings(config, cloud_party(told.cloud))
        celery_app.require_safe_queue(config)
    except (InputError, SettingsError, UnsafeQueueError, DriverError) as error:
        print(f"workers.node_agent: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError | DriverError) else 2
    client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
    lock = lock_file(config.state_dir, told.cloud)
    tenure = AgentLock(client, keys, told.cloud, config.owner_lease_ttl_s, lock)
    if not tenure.begin(stopping):
        return 0
    threading.Thread(target=tenure.keep, args=(_fenced,), daemon=True).start()
    try:
        driver = process_driver(config, told.cloud, nodes)
    except DriverError as error:
        print(f"workers.node_agent: {error}", file=sys.stderr)  # noqa: T201
        tenure.end()
        return os.EX_CONFIG
    reports = Reports(client, keys, told.cloud, driver, partial(ring_for_job, app))
    agent = NodeAgent(driver, Assignments(client, keys, told.cloud, signing), reports)
    waiting = partial(connect, str(config.redis_url), socket_timeout=None)
    events = keys.channel(told.cloud)
    concerns = about_instances(events, lambda: agent.instances)
    heard = (waiting, (keys.work_channel(told.cloud), events), agent.wake, stopping, concerns)
    threading.Thread(target=listen, args=heard, daemon=True).start()
    tidied = (client, keys, kept_states(config), config.jobs_kept_s, stopping)
    threading.Thread(target=tidy, args=tidied, daemon=True).start()
    agent.run(stopping)
    tenure.end()
    return 0


def _fenced() -> None:
    print("workers.node_agent: another process has become the agent of this cloud", file=sys.stderr)  # noqa: T201
    os._exit(os.EX_TEMPFAIL)


if __name__ == "__main__":
    raise SystemExit(main())
