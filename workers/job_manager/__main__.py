"""The job manager's process: ``python -m workers.job_manager [--name N]``.

It calls the HTTP API (SPOTFED_URL) with an operator's key (SPOTFED_API_KEY), and reads and writes jobs in
Redis.

Exit status: 0 told to stop, 2 wrong arguments or settings, 78 the Redis server may drop keys or TLS refuses
it.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Sequence

from broker.client import Client
from broker.doctor.redis import UnsafeQueueError
from broker.jobs.backup_servers import BackupServers
from broker.jobs.store import JobStore
from broker.jobs.work_queue import WorkStore
from broker.observability import gc_tuning
from broker.queue.celery_config import ADVANCE, JOBS
from broker.queue.send import job_queue
from broker.settings import SettingsError, settings
from broker.signing import parties
from broker.signing.signer import MessageSigner
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys
from workers import worker_process
from workers.job_manager.effects import JobEffects
from workers.job_manager.manager import JobAdvancer, JobManager
from workers.job_manager.market_client import MarketClient
from workers.job_manager.observer import JobObserver

#: Seconds that one call of the API may take in all: a job that waits is looked at again soon.
_CALL_S = 6.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job manager until it is told to stop; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.job_manager", description=__doc__)
    parser.add_argument(
        "--name", default=f"{socket.gethostname()}-{os.getpid()}", help="unique name of this manager"
    )
    name = parser.parse_args(arguments).name
    worker_process.end_when_told()
    try:
        config = settings()
        app = worker_process.create_app(config, queue=JOBS)
        worker_process.require_safe_queue(config)
        signing = MessageSigner.from_settings(config, parties.JOBS)
    except (SettingsError, UnsafeQueueError) as error:
        print(f"workers.job_manager: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError) else 2
    if config.api_key is None:
        print("workers.job_manager: SPOTFED_API_KEY: a job manager needs an operator's key", file=sys.stderr)  # noqa: T201
        return 2
    redis_client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
    store, works = JobStore(redis_client, keys), WorkStore(redis_client, keys, signing)
    servers = BackupServers(redis_client, keys)
    client, events = Client(deadline_s=_CALL_S, timeout_s=_CALL_S), Client(deadline_s=_CALL_S)
    effects, markets = JobEffects(client, works, servers), MarketClient(client, works)
    observer = JobObserver(client, works, servers, effects, markets, time.time)
    manager = JobManager(JobAdvancer(store, works, effects, observer), store, servers, effects, events)
    worker_process.register_task(app, ADVANCE, [job_queue()], manager.ring)

    def ready(_consume: object) -> None:
        gc_tuning.tune_gc()
        manager.start()

    try:
        return worker_process.run_worker(
            app, name=f"jobs.{name}", queues=[JOBS], pool="solo", when_ready=ready
        )
    finally:
        manager.stop()
        client.close()
        events.close()


if __name__ == "__main__":
    raise SystemExit(main())
