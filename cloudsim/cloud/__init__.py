"""One cloud: its specification, its time, and every decision about its instances.

``cloud`` is the state machine. ``spec`` says what a cloud is, and ``calendar`` holds what will happen; what
runs is in ``cloudsim.scheduling.inventory``. ``headroom`` keeps room for own users, ``joint_start`` starts
several requests or none, ``extensions`` promises later ends.
"""
