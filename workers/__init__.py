"""The worker processes of spotfed.

``owner`` decides about one cloud, ``montecarlo`` samples for quantile tables, ``jobs`` manages batch jobs,
``agent`` and ``drivers`` run their commands on a cloud's nodes, ``instances`` turns leases into instances of
a real cloud. ``celery_app`` has the Celery tasks: each decodes its message and calls one function. The broker
sends tasks by name and never imports this package; docs/reference/words.md has the glossary.
"""
