"""The node agent on one instance of a real cloud: ``python -m workers.node_agent --api URL --token-file F``.

It reaches the federation by the HTTP API only, with the token that the instance was started with, and keeps
the states of its work in the federation's bucket. It ends with the lease, with status 0. Where a batch system
warns all processes of an instance that it takes back (SIGTERM), the agent goes on, and saves what its work
leaves.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import structlog

from broker.observability import logging
from broker.settings import SettingsError, require_state_dir, settings
from workers.agents.process import print_error
from workers.node_agent.agent import NodeAgent
from workers.node_agent.api_channel import ApiChannel
from workers.node_agent.process.bucket_checkpoints import BucketCheckpoints
from workers.node_agent.process.driver_protocol import DriverError
from workers.node_agent.process.start import jobs_directory, make_driver
from workers.node_agent.reports import Reports

PROGRAM = "workers.node_agent"

log = structlog.get_logger(__name__)


def run_on_instance(url: str, token_file: Path) -> int:
    """Run the agent until its lease has ended; return the exit status."""
    try:
        config = settings()
        require_state_dir(config)
        logging.configure(config)
        channel = ApiChannel(url, token_file.read_text(encoding="ascii").strip())
        cores = (len(os.sched_getaffinity(0)),)
        checkpoints = BucketCheckpoints(jobs_directory(config), channel.sign)
        driver = make_driver(config, config.state_dir / "agents" / "instance", cores, checkpoints)
    except (SettingsError, DriverError, OSError, ValueError) as error:
        print_error(PROGRAM, error)
        return os.EX_CONFIG if isinstance(error, DriverError) else 2
    for lack in driver.lacks:
        log.warning("jobs are not given here", what=lack)
    agent = NodeAgent(driver, channel, Reports(channel, driver))
    signal.signal(signal.SIGTERM, lambda *_: agent.note_warning())
    signal.signal(signal.SIGINT, lambda *_: channel.has_ended.set())
    threading.Thread(target=channel.follow, args=(agent.wake,), daemon=True).start()
    agent.run(channel.has_ended)
    for work in driver.list_work():
        driver.forget(work)
    for thread in driver.empty_trash():
        thread.join()
    return os.EX_OK
