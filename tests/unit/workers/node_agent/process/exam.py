"""The exam that every driver sits: what an agent relies on, whatever runs the commands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.wait import wait_until
from tests.unit.workers.node_agent.process.scenes import cleared, ended, running, says, work
from workers.node_agent.process.driver_protocol import DriverError, EndedWork, StopCause, WorkDriver

Make = Callable[[], WorkDriver]


class DriverExam:
    """Subclasses say how a driver is made: again and again with the same state."""

    @pytest.fixture
    def make(self) -> Make:
        raise NotImplementedError

    @pytest.fixture
    def driver(self, make: Make) -> Iterator[WorkDriver]:
        made = make()
        with cleared(made):
            yield made

    def test_status_output_and_usage(self, driver: WorkDriver) -> None:
        driver.start(work("echo out; echo err >&2; exit 7"))
        found = ended(driver)
        assert (found.code, found.cause, found.why) == (7, None, None)
        assert found.started_at is not None
        assert found.started_at <= found.at
        assert driver.read_log("j.1.0", 1_000) == (0, b"out\nerr\n")
        assert driver.read_log("j.1.0", 4) == (4, b"err\n")
        assert driver.written_bytes("j.1.0") == 8
        assert found.usage.cpu_s > 0
        assert found.usage.peak_memory_gb > 0

    def test_started_twice_runs_once(self, driver: WorkDriver) -> None:
        one = work("echo once; sleep 1000")
        driver.start(one)
        driver.start(one)
        says(driver, "once")
        driver.start(one)
        assert running(driver).started_at is not None
        assert driver.list_work() == ["j.1.0"]
        assert driver.read_log("j.1.0", 1_000)[1] == b"once\n"

    def test_what_cannot_be_run_says_so(self, driver: WorkDriver) -> None:
        driver.start(work("").model_copy(update={"command": ("no-such-program", "-x")}))
        found = ended(driver)
        assert found.code is None
        assert found.why == "it cannot be run: no-such-program: No such file or directory"

    def test_notice_comes_once_and_the_first_cause_stays(self, driver: WorkDriver) -> None:
        driver.start(work('trap "echo warned" TERM; echo ready; while true; do sleep 0.02; done'))
        says(driver, "ready")
        driver.give_notice("j.1.0")
        says(driver, "warned")
        noticed_at = running(driver).noticed_at
        assert noticed_at is not None
        driver.give_notice("j.1.0")
        driver.stop("j.1.0", StopCause.EVICTED)
        driver.stop("j.1.0", StopCause.STOPPED)
        found = ended(driver)
        assert (found.code, found.cause, found.noticed_at) == (137, StopCause.EVICTED, noticed_at)
        assert driver.read_log("j.1.0", 1_000)[1].count(b"warned") == 1

    def test_kept_states_are_restored(self, driver: WorkDriver) -> None:
        driver.start(work("mkdir d; echo 1 > d/n; ln -s d/n link; chmod 700 d; echo up; sleep 1000"))
        says(driver, "up")
        never = threading.Event()
        first = driver.save_checkpoint("j.1.0", never)
        second = driver.save_checkpoint("j.1.0", never, last=True)
        assert (first.number, second.number) == (1, 2)
        assert (first.last, second.last) == (False, True)
        assert second.gb > 0
        assert driver.last_checkpoint("j.1.0") == second
        driver.stop("j.1.0", StopCause.SAVED)
        driver.start(
            work('cat link; stat -c %a d; echo "$SPOTFED_JOB_RESTORED"', "j.2.0", restore=("j.1.0", 2))
        )
        assert ended(driver, "j.2.0").code == 0
        assert driver.read_log("j.2.0", 1_000)[1] == b"1\n700\n1\n"

    def test_the_last_two_states_stay(self, driver: WorkDriver) -> None:
        driver.start(work("echo up > f; echo up; sleep 1000"))
        says(driver, "up")
        for _ in range(4):
            driver.save_checkpoint("j.1.0", threading.Event())
        driver.start(work("cat f", "j.2.0", restore=("j.1.0", 3)))
        assert ended(driver, "j.2.0").code == 0
        with pytest.raises(DriverError, match=r"there is no state 2 of j\.1\.0"):
            driver.start(work("true", "j.3.0", restore=("j.1.0", 2)))
        assert "j.3.0" not in driver.list_work()

    def test_an_abandoned_state_does_not_count(self, driver: WorkDriver) -> None:
        driver.start(work("echo up > f; echo up; sleep 1000"))
        says(driver, "up")
        abandon = threading.Event()
        abandon.set()
        with pytest.raises(DriverError, match="no time"):
            driver.save_checkpoint("j.1.0", abandon)
        assert driver.last_checkpoint("j.1.0") is None
        running(driver)

    def test_save_and_restore_commands(self, driver: WorkDriver) -> None:
        save, resume = ("/bin/sh", "-c", "cp n saved"), ("/bin/sh", "-c", "mv saved n; echo resumed")
        driver.start(work("echo 5 > n; echo up; sleep 1000", save=save))
        says(driver, "up")
        driver.save_checkpoint("j.1.0", threading.Event())
        driver.start(work("cat n", "j.2.0", resume=resume, restore=("j.1.0", 1)))
        assert ended(driver, "j.2.0").code == 0
        assert driver.read_log("j.2.0", 1_000)[1] == b"resumed\n5\n"

    def test_a_failing_save_or_restore_command_is_told(self, driver: WorkDriver) -> None:
        driver.start(work("echo up; sleep 1000", save=("/bin/sh", "-c", "echo full; exit 3")))
        says(driver, "up")
        with pytest.raises(DriverError, match="its save command ended with status 3: full"):
            driver.save_checkpoint("j.1.0", threading.Event())
        assert driver.last_checkpoint("j.1.0") is None
        driver.start(work("echo up; sleep 1000", "k.1.0"))
        says(driver, "up", "k.1.0")
        driver.save_checkpoint("k.1.0", threading.Event())
        driver.start(work("echo no", "k.2.0", resume=("/bin/false",), restore=("k.1.0", 1)))
        found = ended(driver, "k.2.0")
        assert (found.code, found.why) == (None, "its restore command ended with status 1")

    def test_the_next_driver_takes_up_what_runs_and_what_ended(self, make: Make) -> None:
        first = make()
        first.start(work("echo up; sleep 1000"))
        first.start(work("echo up; exit 4", "k.1.0"))
        says(first, "up")
        began = running(first).started_at
        assert ended(first, "k.1.0").code == 4
        second = make()
        with cleared(second):
            assert sorted(second.list_work()) == ["j.1.0", "k.1.0"]
            found = running(second)
            assert found.started_at == began
            assert ended(second, "k.1.0").code == 4
            second.stop("j.1.0", StopCause.EVICTED)
            assert ended(second).cause is StopCause.EVICTED

    def test_forgotten_work_is_gone(self, driver: WorkDriver) -> None:
        driver.start(work("echo up; sleep 1000"))
        says(driver, "up")
        kept = driver.save_checkpoint("j.1.0", threading.Event())
        driver.forget("j.1.0")
        assert driver.list_work() == []
        assert driver.inspect("j.1.0") is None
        driver.start(work("true", "j.2.0", restore=("j.1.0", kept.number)))
        assert ended(driver, "j.2.0").code == 0

    def test_calls_about_nothing_do_nothing(self, driver: WorkDriver) -> None:
        driver.give_notice("x.1.0")
        driver.stop("x.1.0", StopCause.EVICTED)
        driver.forget("x.1.0")
        assert driver.inspect("x.1.0") is None
        assert driver.last_checkpoint("x.1.0") is None
        assert driver.read_log("x.1.0", 10) == (0, b"")
        with pytest.raises(DriverError):
            driver.save_checkpoint("x.1.0", threading.Event())

    def test_many_at_once(self, driver: WorkDriver) -> None:
        names = [f"m{number}.1.0" for number in range(8)]
        threads = [threading.Thread(target=driver.start, args=(work("echo $HOME", one),)) for one in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [ended(driver, one).code for one in names] == [0] * 8
        assert len({driver.read_log(one, 1_000)[1] for one in names}) == 8

    def test_a_driver_that_stopped_work_for_a_copy_and_was_killed_leaves_nothing_standing(
        self, make: Make
    ) -> None:
        first = make()
        first.start(work("echo up; while true; do echo x >> f; sleep 0.02; done"))
        says(first, "up")
        first.save_checkpoint("j.1.0", threading.Event(), last=True)  # its processes stand still from here on
        second = make()
        with cleared(second):
            before = second.save_checkpoint("j.1.0", threading.Event())
            wait_until(
                lambda: second.save_checkpoint("j.1.0", threading.Event()).gb > before.gb, "it goes on"
            )
            assert not isinstance(second.inspect("j.1.0"), EndedWork)
