"""Sends work through Celery.

``celery_config`` configures the application and names its queues and tasks, ``send`` sends tasks by name, and
``celery_transport`` keeps workers alive while Redis restarts. A Celery message is never the only copy of
anything (docs/design/reliability.md "A message is never the only copy"): it only wakes a process that also
looks by itself.
"""
