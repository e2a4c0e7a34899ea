"""Describes batch jobs: their requests and states, and the messages between job managers and node agents.

``models`` has the wire models, ``events`` the entries of a job's journal, ``record`` folds them into the
state of the job, ``view`` shows that to people; ``store`` keeps journals in Redis, ``work_queue`` the work of
node agents, ``backup_servers`` the servers that backup replicas share; ``ids`` makes ids.
"""
