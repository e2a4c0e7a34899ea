"""The worker processes of spotfed.

``owner`` decides about one cloud, ``montecarlo`` samples for quantile tables, ``job_manager`` plans and
manages batch jobs, ``node_agent`` runs their commands on the instances of a cloud, ``cloud_agent`` turns
leases into instances of a real cloud. None of these imports another. Below them are ``agents``, which the two
agents share, and ``worker_process``, which runs a worker. Above them is ``celery_app``, for Celery's own
commands. The broker sends tasks by name and never imports this package.
"""

import os

# To Celery SIGTERM means SIGQUIT from here on: both end a worker after a task's moment of grace. Celery reads
# this when its worker is imported, so it must be set before any module below is.
os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")  # noqa: TID251  (set, not read)
