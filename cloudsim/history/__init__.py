"""The load of a cloud: the history that it records, and the trace that a simulated cloud plays.

``history`` records admissions and cuts them into an ``event_log``, which prediction replays. ``own_load`` has
the arrivals of a trace, ``take_backs`` what a cloud ends by itself.
"""
