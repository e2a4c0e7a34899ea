"""The node agent of one cloud: ``python -m workers.node_agent --cloud ID --federation FILE``.

With ``--api URL --token-file FILE`` it is the agent of one instance of a real cloud
(`workers.node_agent.on_instance`).

It runs the commands of batch jobs on the instances of a cloud whose federation file says ``driver =
"process"``: as processes of this machine. They outlive it; the next agent of the cloud, on the same machine
and with the same SPOTFED_STATE_DIR, takes them up. A second process for the same cloud waits for the first.
With ``--end-work`` it runs nothing, but ends what an agent that is gone left running.

Exit status: 0 told to stop, 2 wrong arguments, federation or key file, 75 fenced: another process has become
the agent (``--end-work``: there is one), 78 the Redis server may drop keys or TLS refuses it, or jobs cannot
be kept apart here.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import redis

from broker.doctor.redis import UnsafeQueueError
from broker.jobs.assignments import Assignments
from broker.jobs.bucket import Bucket
from broker.queue.send import ring_for_job
from broker.settings import Settings, SettingsError, require_state_dir, settings
from broker.signing.parties import cloud_party
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from cloudsim.federation.file import load_federation
from cloudsim.model.errors import InputError
from workers import worker_process
from workers.agents.agent_lock import lock_path, open_lock, try_lock
from workers.agents.process import become_agent, make_parser, print_error, stop_on_signals
from workers.agents.wakeup import Message, instance_filter, listen_for_wakeups
from workers.node_agent.agent import NodeAgent
from workers.node_agent.cleanup import remove_old_states
from workers.node_agent.on_instance import run_on_instance
from workers.node_agent.process.bucket_checkpoints import BucketCheckpoints
from workers.node_agent.process.checkpoints import CheckpointStore
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.start import jobs_directory, make_driver
from workers.node_agent.reports import RedisReports, Reports, report_ended, report_isolation

PROGRAM = "workers.node_agent"
_ANSWER_S = 3.0  # a Redis that is silent for longer is away
_REMOVAL_S = 10.0  # what jobs left and is not removed by then is removed by the next agent


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = make_parser(PROGRAM, __doc__, needs_cloud=False)
    arguments.add_argument(
        "--end-work", action="store_true", help="end all work that was left running here, and nothing else"
    )
    arguments.add_argument("--api", metavar="URL", help="address of the HTTP API, on an instance")
    arguments.add_argument("--token-file", type=Path, help="file of the instance's token, with --api")
    return arguments


def read_node_cores(path: Path, cloud: str, data: Path | None) -> tuple[int, ...]:
    """Return the cores of each of the cloud's nodes.

    Raises
    ------
    InputError
        When the file has no cloud of that id, or the cloud runs no commands.
    """
    members = {member.spec.id: member for member in load_federation(path, data, played=()).clouds}
    if cloud not in members:
        raise InputError(f"no cloud is called {cloud!r}; there are: {', '.join(members)}", field="--cloud")
    if members[cloud].driver != "process":
        raise InputError(
            f'{cloud} runs no commands here: its table in {path} needs driver = "process"', field="--cloud"
        )
    return members[cloud].spec.node_cores


def checkpoint_store(config: Settings) -> CheckpointStore:
    """Return the store of checkpoints that the agents of all clouds share."""
    directory, bucket = jobs_directory(config), Bucket.from_settings(config)
    return CheckpointStore(directory) if bucket is None else BucketCheckpoints(directory, bucket.sign)


def end_work(config: Settings, cloud: str, nodes: Sequence[int]) -> int:
    """End all work that an agent left running, and forget it; return the exit status."""
    if not try_lock(open_lock(lock_path(config.state_dir, cloud))):
        print_error(PROGRAM, f"{cloud} has an agent: stop it first")
        return os.EX_TEMPFAIL
    driver = make_driver(config, config.state_dir / "agents" / cloud, nodes, checkpoint_store(config))
    works = sorted(driver.list_work())
    for name in works:
        driver.forget(name)
    for thread in driver.empty_trash():
        thread.join(_REMOVAL_S)
    try:
        with connect(str(config.redis_url), socket_timeout=_ANSWER_S) as client:
            report_ended(client, RedisKeys(config.key_prefix), cloud, works)
    except redis.RedisError as error:
        print_error(PROGRAM, f"its end is not told, as redis is away: {error}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until it is told to stop; return the exit status."""
    command_line = parser()
    options = command_line.parse_args(arguments)
    if options.api is not None and options.token_file is not None:
        return run_on_instance(options.api, options.token_file)
    if options.cloud is None or options.federation is None:
        command_line.error("needs --cloud and --federation or, on an instance, --api and --token-file")
    worker_process.end_when_told()
    try:
        config = settings()
        require_state_dir(config)
        app = worker_process.create_app(config)
        nodes = read_node_cores(options.federation, options.cloud, config.data)
        if options.end_work:
            return end_work(config, options.cloud, nodes)
        checkpoints = checkpoint_store(config)
        signing = MessageSigner.from_settings(config, cloud_party(options.cloud))
        worker_process.require_safe_queue(config)
    except (InputError, SettingsError, UnsafeQueueError, DriverError) as error:
        print_error(PROGRAM, error)
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError | DriverError) else 2
    stopping = stop_on_signals()
    client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
    lock = become_agent(PROGRAM, client, keys, options.cloud, config, stopping)
    if lock is None:
        return 0
    try:
        driver = make_driver(config, config.state_dir / "agents" / options.cloud, nodes, checkpoints)
    except DriverError as error:
        print_error(PROGRAM, error)
        lock.end()
        return os.EX_CONFIG
    report_isolation(client, keys, options.cloud, driver.lacks)
    reports = Reports(RedisReports(client, keys, options.cloud, partial(ring_for_job, app)), driver)
    agent = NodeAgent(driver, Assignments(client, keys, options.cloud, signing), reports)
    waiting = partial(connect, str(config.redis_url), socket_timeout=None)
    events = keys.channel(options.cloud)
    orders = keys.work_channel(options.cloud)
    is_about_instance = instance_filter(events, lambda: agent.instances)

    def concerns(message: Message) -> bool:
        if message["channel"] == orders.encode():
            agent.hear(message["data"].decode(errors="replace"))
        return is_about_instance(message)

    listened = (waiting, (orders, events), agent.wake, stopping, concerns)
    threading.Thread(target=listen_for_wakeups, args=listened, daemon=True).start()
    cleaned = (client, keys, checkpoints, driver.empty_trash, config.jobs_kept_s, stopping)
    threading.Thread(target=remove_old_states, args=cleaned, daemon=True).start()
    agent.run(stopping)
    lock.end()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
