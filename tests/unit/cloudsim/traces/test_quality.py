"""The checks of a trace: each fault is found, counted as the plain loop counts it, and put into words."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cloudsim.traces import quality
from cloudsim.traces.formats import read
from cloudsim.traces.quality import QualityCheck
from cloudsim.traces.trace import Trace

DAY = 86400

ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.integers(0, 4), st.integers(1, 2)),
    min_size=1,
    max_size=14,
)


def make(rows: list[tuple[str, int, int, int]]) -> Trace:
    ids, starts, lengths, cores = zip(*rows, strict=True)
    return Trace.checked("x", ids, starts, [s + n for s, n in zip(starts, lengths, strict=True)], cores)


def checks(path: Path, text: str, **options: object) -> dict[str, QualityCheck]:
    path.write_text(text)
    trace, report = read(path, max_error_rate=1.0, **options)  # type: ignore[arg-type]
    found = quality.check_trace(trace, report)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


@given(ROWS)
def test_repeated_rows_are_those_beyond_the_first(rows: list[tuple[str, int, int, int]]) -> None:
    assert quality.count_repeated_rows(make(rows)) == len(rows) - len(set(rows))


@given(ROWS)
def test_an_id_twice_at_once_is_counted_as_a_plain_loop_does(rows: list[tuple[str, int, int, int]]) -> None:
    """Each different row of an id that starts strictly before an earlier one of it has stopped."""
    count = 0
    for one in "abc":
        own = sorted({(start, start + length, cores) for name, start, length, cores in rows if name == one})
        count += sum(any(own[at][0] < stop for _, stop, _ in own[:at]) for at in range(1, len(own)))
    assert quality.count_overlapping_ids(make(rows)) == count


def test_an_id_may_be_used_again_at_once() -> None:
    assert quality.count_overlapping_ids(make([("a", 0, 3, 1), ("a", 3, 3, 1)])) == 0


def test_the_longest_silence_is_between_events_that_were_seen() -> None:
    trace = Trace.checked("x", "abc", [0, 5, 50], [7, 100, 60], [1] * 3, right_censored=[False, True, False])
    assert quality.find_longest_silence(trace) == (7, 50)
    assert quality.find_longest_silence(trace.head(1)) == (0, 7)


def test_a_clean_file_has_nothing_found(tmp_path: Path) -> None:
    found = checks(tmp_path / "x.csv", "instance,start_s,stop_s,cores\na,1,5,2\nb,2,9,1\n", capacity_cores=3)
    assert {name: one.found for name, one in found.items() if one.found != 0} == {}
    assert found["cut at the begin"].says == "none that ran before is there: use grows from nothing"


def test_every_fault_is_named_with_its_count(tmp_path: Path) -> None:
    """Case 1, 3 and 15, and rows that are there twice, late or cut off."""
    text = (
        "\ufeffinstance,start_s,stop_s,cores,colour\r\n"
        "before,-7157,60,2,red\r\n"
        "late,50,70,2,red\r\n"
        "early,40,70,2,red\r\n"
        "twice,40,70,2,red\r\n"
        "twice,40,70,2,red\r\n"
        "twice,45,50,1,red\r\n"
        "running,55,,1,red\r\n"
        "short,56,56,1,red\r\n"
        "bad,9,5,1,red\r\n"
        "cut,60,6"
    )
    found = checks(tmp_path / "x.csv", text, capacity_cores=8)
    assert {name: one.found for name, one in found.items()} == {
        "mended": 2,
        "cut off": 1,
        "quarantined": 2,
        "skipped": 0,
        "out of order": 1,
        "repeated rows": 1,
        "an id twice at once": 1,
        "cut at the begin": 1,
        "cut at the end": 1,
        "no length": 1,
        "off the grid": 0,
        "drop-outs": 0,
        "silences": 0,
        "overcommit": 1,
        "not used": 1,
    }
    assert found["quarantined"].says == (
        "line 10: stop_s precedes start_s; line 11: not 5 comma-separated cells"
    )
    assert found["overcommit"].says.startswith("12 cores at the peak on 8; above for 0.0 hours")


def test_more_quarantined_lines_than_are_quoted_are_counted(tmp_path: Path) -> None:
    text = "instance,start_s,stop_s,cores\na,0,1,1\n" + "bad\n" * 7
    found = checks(tmp_path / "x.csv", text)["quarantined"]
    assert found.found == 7
    assert found.says.endswith("line 7: not 4 comma-separated cells; and 2 more")


def log(gap_s: int, *, closed: bool) -> str:
    """Forty short instances, a silence, and three more; two others are closed and reopened around it."""
    lines = ["START 0 a n 1", "START 0 b n 1"]
    for at in range(40):
        lines += [f"START {600 * at + 5} s{at} n 1", f"STOP {600 * at + 300} s{at}"]
    edge = 24_000
    if closed:
        lines += [
            f"STOP {edge} a",
            f"STOP {edge} b",
            f"START {edge + gap_s} a n 1",
            f"START {edge + gap_s} b n 1",
        ]
    lines += [f"START {edge + gap_s + 9} c n 1", f"STOP {edge + gap_s + 50} c"]
    lines += [f"STOP {edge + gap_s + 90} a", f"STOP {edge + gap_s + 95} b", ""]
    return "\n".join(lines)


def test_a_drop_out_is_told_with_its_rule_and_what_it_cuts(tmp_path: Path) -> None:
    """Case 14."""
    found = checks(tmp_path / "x", log(12 * DAY, closed=True))
    drop_out = found["drop-outs"]
    assert drop_out.found == 1
    assert drop_out.says.startswith("12.0 days from day 0.3 (")
    assert "lifetimes that they cut are left out" in drop_out.says
    assert "40 times the mean of all shorter gaps" in drop_out.rule
    assert found["silences"].found == 0


def test_a_silence_that_closed_nothing_is_no_drop_out_and_told(tmp_path: Path) -> None:
    """After the last short one has stopped nothing happens for twelve days, and only one starts then."""
    found = checks(tmp_path / "x", log(12 * DAY, closed=False))
    assert (found["drop-outs"].found, found["silences"].found) == (0, 1)
    assert found["silences"].says == "12.0 days from day 0.3: holidays, or a logger that was off"


def test_many_at_the_edges_of_a_log_are_told(tmp_path: Path) -> None:
    lines = [f"START 0 a{at} n 1" for at in range(5)] + ["START 7 b n 1", "START 9 c n 1", "STOP 11 b"]
    lines += [f"STOP 12 a{at}" for at in range(4)] + ["STOP 20 a4", "STOP 20 c", ""]
    found = checks(tmp_path / "x", "\n".join(lines))
    assert found["cut at the begin"].says == "but 5 start at the very first time: they probably ran before"
    assert found["cut at the end"].says == ""


def test_times_observed_in_campaigns_have_no_drop_outs(tmp_path: Path) -> None:
    lines = ["vm,machine_type,start_time,time_in_sec,outcome"]
    for day in (1, 20):
        lines += [f"v{day}-{at},n1-highcpu-2,2019-03-{day:02}T{at:02}:00:00Z,60,stopped" for at in range(20)]
    lines.append("")
    found = checks(tmp_path / "x", "\n".join(lines))
    assert (found["drop-outs"].found, found["silences"].found) == (None, 0)
    assert found["silences"].says.startswith("the longest lasts 18.2 days")
    assert found["cut at the end"].found == 40
    assert found["overcommit"].found is None
