"""Start an agent's process: its command line, its signals and its place as the only agent of a cloud."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import redis

from broker.settings import Settings
from broker.storage.keys import RedisKeys
from workers.agents.agent_lock import AgentLock, lock_path


def make_parser(
    program: str, description: str | None, *, needs_cloud: bool = True
) -> argparse.ArgumentParser:
    """Return the parser of an agent's command line: the cloud and its federation file.

    Parameters
    ----------
    program:
        The module that runs the agent, ``workers.node_agent``.
    needs_cloud:
        False if the two may be left out.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--cloud", required=needs_cloud, help="id of the cloud in the federation file")
    parser.add_argument("--federation", required=needs_cloud, type=Path, help="federation file")
    return parser


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping


def print_error(program: str, error: object) -> None:
    """Print why the process does not go on, to standard error."""
    print(f"{program}: {error}", file=sys.stderr)  # noqa: T201


def become_agent(
    program: str,
    client: redis.Redis,
    keys: RedisKeys,
    cloud: str,
    settings: Settings,
    stopping: threading.Event,
) -> AgentLock | None:
    """Wait until this process is the only agent of the cloud, and stay it; None if told to stop before.

    When another process takes over, this one exits with status 75.
    """
    path = lock_path(settings.state_dir, cloud)
    lock = AgentLock(client, keys, cloud, settings.owner_lease_ttl_s, path)
    if not lock.begin(stopping):
        return None
    threading.Thread(target=lock.keep, args=(partial(_exit_fenced, program),), daemon=True).start()
    return lock


def _exit_fenced(program: str) -> None:
    print_error(program, "another process has become the agent of this cloud")
    os._exit(os.EX_TEMPFAIL)
