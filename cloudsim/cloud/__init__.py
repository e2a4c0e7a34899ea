"""One cloud: its specification, its nodes, its time, and every decision about its instances.

``cloud`` is the state machine. ``spec`` says what a cloud is; ``inventory`` and ``spot_columns`` hold what
runs, ``calendar`` what will happen. ``headroom`` keeps room for own users, ``gang_start`` starts several
requests or none, ``extensions`` promises later ends.
"""
