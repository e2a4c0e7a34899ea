"""Compiled replays of a cloud's history (numba); each must equal its plain-Python reference.

youngest_first    youngest-job-first where only cores count; reference: ``reference.youngest_first``
line_up           any line-up; reference: ``reference.line_up``, which runs the scheduler itself
line_up_victims   its victims, as in ``scheduling.victims``, by the searches of ``scheduling.cover_kernel``
line_up_replays   its arguments: line-ups as codes, and the state of a replay
uniform           uniform sizes: all births at once
ages              forecasts by ages for all births
replays           rows of replays under way, shared by samplers and kernels
"""
