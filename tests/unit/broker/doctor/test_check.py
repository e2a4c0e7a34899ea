"""How checks are named, ordered and run."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import redis

from broker.doctor import CHECKS, CheckResult, Installation, State, run_checks
from broker.doctor.check import check, ok, warning
from broker.doctor.installation import NoAnswerError
from broker.doctor.redis import RedisServer
from broker.settings import Settings, SettingsError


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert [check.name for check in CHECKS[:2]] == ["settings", "unknown settings"]
    assert [check.name for check in CHECKS[-3:]] == ["api", "api ready", "api key"]


def test_results_are_named_after_the_check_unless_they_are_about_one_of_several_things() -> None:
    @check("owner")
    def check_two(_: Installation) -> Iterator[CheckResult]:
        yield ok("fine")
        yield warning("tired", "let it rest", name="owner A")

    assert check_two.run(Installation()) == [
        CheckResult("owner", State.OK, "fine"),
        CheckResult("owner A", State.WARNING, "tired", "let it rest"),
    ]


def test_a_check_that_hangs_has_failed() -> None:
    end = threading.Event()

    @check("disk")
    def check_disk(_: Installation) -> CheckResult:
        """Does the disk answer?"""
        end.wait(60)
        return ok("at last")

    (result,) = check_disk.run(Installation(), timeout_s=0.01)
    end.set()
    assert (result.name, result.state) == ("disk", State.FAILURE)
    assert result.found == "there is no answer within 0.01 s"


def test_a_check_that_may_not_look_has_failed_and_the_others_go_on() -> None:
    @check("disk")
    def check_disk(_: Installation) -> CheckResult:
        raise PermissionError(13, "Permission denied", "/root/state")

    (result,) = check_disk.run(Installation())
    assert (result.name, result.state) == ("disk", State.FAILURE)
    assert result.found == "it cannot be checked: [Errno 13] Permission denied: '/root/state'"


def test_a_check_whose_prerequisite_is_missing_says_nothing() -> None:
    @check("more")
    def check_more(installation: Installation) -> CheckResult:
        return ok(str(installation.redis_client.ping()))

    assert check_more.run(Installation(Settings())) == []


def test_a_redis_that_goes_away_is_waited_for_once() -> None:
    @check("first")
    def check_first(installation: Installation) -> CheckResult:
        raise redis.TimeoutError(installation.redis_server.url)

    installation = Installation(Settings())
    installation.redis_server = RedisServer(redis.Redis(), "redis://queue")
    (result,) = check_first.run(installation)
    assert (result.name, result.state) == ("first", State.FAILURE)
    assert "cannot be read: redis://queue" in result.found
    assert check_first.run(installation) == []


def test_a_refused_command_and_an_api_that_goes_away_are_failures() -> None:
    @check("denied")
    def check_denied(_: Installation) -> CheckResult:
        raise redis.exceptions.NoPermissionError("no permissions")

    @check("gone")
    def check_gone(_: Installation) -> CheckResult:
        raise NoAnswerError("reset")

    (denied,) = check_denied.run(Installation(Settings(key_prefix="p:")))
    assert (denied.state, denied.advice.endswith("begin with p:")) == (State.FAILURE, True)
    (gone,) = check_gone.run(Installation(Settings()))
    assert (gone.state, gone.found) == (State.FAILURE, "it does not answer: reset")


def test_settings_that_cannot_be_read_are_the_only_failure() -> None:
    results = run_checks(Installation(SettingsError("SPOTFED_PORT: not a number")))
    (failed,) = [result for result in results if result.state is State.FAILURE]
    assert (failed.name, failed.found) == ("settings", "SPOTFED_PORT: not a number")
    assert {"packages", "extra plots"} <= {result.name for result in results}
