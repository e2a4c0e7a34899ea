"""Shows what processes do.

``logging`` writes logs, ``request_id`` connects the log entries of one API call, ``spans`` sends
OpenTelemetry spans, ``owner_stats`` holds the statistics of an owner, ``standbys`` names those who wait to
be one, and ``gc_tuning`` keeps the garbage collector quiet.
"""
