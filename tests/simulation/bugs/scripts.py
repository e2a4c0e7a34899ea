"""Bugs of the Lua scripts."""

from __future__ import annotations

from tests.simulation.bugs.bug import script_bug

_UNSIGNED = "if ARGV[4] ~= 'commit' then redis.call('XADD', KEYS[1 + inbox], '*', 'c', entry) end"

SCRIPT_BUGS = (
    script_bug("fencing ignored", "commit", {"fenced": "false"}, seed=12),
    script_bug("epoch not raised", "acquire", {"next_epoch": "latest"}, seed=2),
    script_bug("retry of a commit not recognised", "commit", {"written_before": "false"}, seed=10),
    script_bug("merged stream forgotten", "commit", {"merge": ""}),
    script_bug("ended leases shown as running", "commit", {"stop_running": ""}),
    script_bug("end of a lease not shown", "commit", {"show_end": ""}),
    script_bug("inbox trimmed too far", "commit", {"trim_inbox": "redis.call('DEL', KEYS[6])"}, seed=9),
    script_bug("decided whatever the attempt", "decide", {"same_attempt": "true", "late": "false"}, seed=490),
    script_bug(
        "decided twice",
        "decide",
        {"is_attempting": "known[1] ~= 'open'", "same_attempt": "known[3] == cloud"},
        seed=6,
    ),
    script_bug("a list is committed in part", "decide", {"all_stand": "true"}, seed=935),
    script_bug("confirmation not sent", "decide", {"send": _UNSIGNED}, seed=1),
    script_bug("reserved whatever the state", "reserve", {"is_open": "known[1]"}, seed=72),
    script_bug("closed whatever the state", "close", {"is_open": "known[1]"}, seed=42),
    script_bug("id used for something else", "accept", {"other_request": "false"}, seed=0),
    script_bug("answers not kept", "accept", {"answered": "false"}),
    script_bug("lease of a lost record not looked for", "accept", {"granted": "false"}, seed=9),
    script_bug("nobody sweeps", "overdue", {"due": "{}"}, seed=1),
)
