"""Samplers: replays of one flavour, checked at the door and fed as the history grows.

replay    youngest-job-first where only cores count; the base of ``line_up``
line_up   any line-up, with further resources, labels and groups
plain     line-ups with parts in plain Python, slowly
uniform   clouds on which all instances have one size: every birth, exactly
pool      pools of lifo-pools: the time until own users reach into a band
"""
