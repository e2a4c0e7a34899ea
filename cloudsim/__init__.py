"""Everything about clouds that can be computed: inventory, scheduling, prediction, traces and replay.

A library that is useful alone. It knows no network, queue, environment or wall clock, and holds no hidden
random state: time and random generators are arguments. Times are seconds from the start of the trace or of
the simulation.
"""
