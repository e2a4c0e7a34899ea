"""``python -m workers.job_manager [--name N]`` starts a job manager. It calls the HTTP API (SPOTFED_URL)
with an operator's key (SPOTFED_API_KEY) and reads and writes jobs in Redis.

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

from broker.doctor.redis import UnsafeQueueError
from broker.jobs.backup_servers import BackupServers
from broker.jobs.store import JobStore
from broker.jobs.work_queue import WorkStore
from broker.observability import gc_tuning
from broker.storage.connections import connect
from broker.storage.keys import RedisKeys

#: How long one call of the API may take in all: a job that waits is looked at again soon.
_CALL_S = 6.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workers.job_manager", description=__doc__)
    parser.add_argument(
        "--name", default=f"{socket.gethostname()}-{os.getpid()}", help="of this manager, unique"
    )
    name = parser.parse_args(arguments).name
    # These import Celery, which reads signal settings from the environment that they set.
    from broker.queue.celery_config import JOBS
    from broker.settings import SettingsError, settings
    from broker.signing.parties import JOBS as PARTY
    from broker.signing.signer import MessageSigner
    from workers import celery_app

    try:
        config = settings()
        app = celery_app.create(config, queue=JOBS)
        celery_app.require_safe_queue(config)
        signing = MessageSigner.from_settings(config, PARTY)
    except (SettingsError, UnsafeQueueError) as error:
        print(f"workers.job_manager: {error}", file=sys.stderr)  # noqa: T201
        return os.EX_CONFIG if isinstance(error, UnsafeQueueError) else 2
    if config.api_key is None:
        print("workers.job_manager: SPOTFED_API_KEY: a job manager needs an operator's key", file=sys.stderr)  # noqa: T201
        return 2
    # Late, so that wrong settings are told at once: these bring numpy.
    from broker.client import Client
    from workers.job_manager.effects import JobEffects
    from workers.job_manager.manager import JobAdvance, JobManager
    from workers.job_manager.market_client import MarketClient
    from workers.job_manager.observer import JobObserver

    redis_client, keys = connect(str(config.redis_url)), RedisKeys(config.key_prefix)
    store, works = JobStore(redis_client, keys), WorkStore(redis_client, keys, signing)
    servers = BackupServers(redis_client, keys)
    client, events = Client(deadline_s=_CALL_S, timeout_s=_CALL_S), Client(deadline_s=_CALL_S)
    doing, looking = JobEffects(client, works, servers), MarketClient(client, works)
    observing = JobObserver(client, works, servers, doing, looking, time.time)
    manager = JobManager(JobAdvance(store, works, doing, observing), store, servers, doing, events)
    celery_app.serve_jobs(app, manager.ring)

    def ready() -> None:
        gc_tuning.tune_gc()
        manager.start()

    try:
        return celery_app.run(app, name=f"jobs.{name}", queues=[JOBS], pool="solo", when_ready=ready)
    finally:
        manager.stop()
        client.close()
        events.close()


if __name__ == "__main__":
    raise SystemExit(main())
