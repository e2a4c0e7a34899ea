"""Batch jobs by HTTP: handed over, looked at, read and cancelled. What becomes of them is a job manager's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from broker.client import Client, InputRefusedError, NotFoundError, ProblemAnswer
from broker.identity.permissions import Role
from broker.jobs.events import JobCancelled, JobFailed, JobSubmitted
from broker.jobs.ids import LONGEST_CHOSEN, make_suffix
from broker.jobs.models import JobWish, Outcome
from broker.jobs.store import JobStore
from broker.queue.celery_config import JOBS
from broker.schemas.api_keys import KeyWish
from broker.schemas.members import MemberWish
from tests.contract.harness import KEY, Federation, Run, serving
from tests.contract.job_journals import Journals
from tests.support.wait import wait_until

COMMAND = {"command": ["python3", "count.py"], "home": "north"}


@pytest.fixture
def running(federation: Federation) -> Federation:
    """``north`` runs commands, ``south`` does not."""
    federation.join("north", (8, 8), runs_commands=True)
    federation.join("south", (16,))
    return federation


@pytest.fixture
def journals(running: Federation) -> Journals:
    return Journals(running)


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json()["type"]).removeprefix("urn:spotfed:problem:")


def field_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json()["errors"][0]["field"])


# -- submitting --------------------------------------------------------------------------------------------


def test_a_job_is_noted_and_job_managers_are_told(running: Federation, api: httpx.Client) -> None:
    made = api.post("/v1/jobs", json=COMMAND | {"id": "nightly", "cores": 2, "environment": {"A": "1"}})
    assert made.status_code == 201, made.text
    told = made.json()
    assert (told["id"], told["state"], told["holder"]) == ("nightly", "queued", "operator/tester")
    assert (told["origin"], told["home"]) == ("user", "north")
    assert made.headers["location"] == "/v1/jobs/nightly"
    assert api.get(made.headers["location"]).json()["id"] == "nightly"
    (entry,) = JobStore(running.redis, running.keys).read_entries("nightly")
    assert isinstance(entry, JobSubmitted)
    assert (entry.wish.cores, entry.wish.environment) == (2, {"A": "1"})
    assert JobStore(running.redis, running.keys).list_due(time.time(), 10) == ["nightly"]
    bell = wait_until(lambda: running.redis.lrange(f"{running.prefix}{JOBS}", 0, -1), "a doorbell")
    assert json.loads(bell[0])["headers"]["task"] == "spotfed.jobs.advance"


@pytest.mark.parametrize("named", [{"id": "same"}, {}])
def test_the_same_job_twice_is_one_job(running: Federation, api: httpx.Client, named: dict[str, str]) -> None:
    del running
    header = {} if named else {"Idempotency-Key": "once"}
    answers = [api.post("/v1/jobs", json=COMMAND | named, headers=header) for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert len(api.get("/v1/jobs").json()["jobs"]) == 1
    other = api.post("/v1/jobs", json=COMMAND | named | {"cores": 2}, headers=header)
    assert problem(other) == (422, "key-reused")
    both = api.post("/v1/jobs", json=COMMAND | {"id": "x"}, headers={"Idempotency-Key": "k"})
    assert both.status_code == 201
    again = api.post("/v1/jobs", json=COMMAND | {"id": "y"}, headers={"Idempotency-Key": "k"})
    assert problem(again) == (422, "key-reused")


def test_an_ended_job_is_not_begun_again(journals: Journals, api: httpx.Client) -> None:
    api.post("/v1/jobs", json=COMMAND | {"id": "j"})
    journals.run("j")
    journals.finish("j")
    assert api.post("/v1/jobs", json=COMMAND | {"id": "j"}).json()["state"] == "finished"


#: What is changed in a wish that can be used, and the field that is named then.
UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"home": None, "origin": "nowhere"}, "home"),
    ({"home": "south"}, "home"),
    ({"home": "nowhere"}, "home"),
    ({"clouds": ["north", "south"]}, "clouds"),
    ({"clouds": ["nowhere"]}, "clouds"),
    ({"cores": 9}, "cores"),
    ({"command": []}, "command"),
    ({"command": "ls"}, "command"),
    ({"command": ["a\0b"]}, "command.0"),
    ({"environment": {"SPOTFED_API_KEY": "x"}}, "body"),
    ({"retries": -1}, "retries"),
    ({"profile": {"work_s": 0}}, "profile.work_s"),
    ({"id": "a.b"}, "id"),
    ({"nonsense": 1}, "nonsense"),
    ({"policy": "luck"}, "policy"),
    ({"policy": "uniform-progress", "checkpoint": {}}, "policy"),
]


def test_what_cannot_be_used_is_named(running: Federation, api: httpx.Client) -> None:
    for change, field in UNUSABLE:
        refused = api.post("/v1/jobs", json=COMMAND | change)
        assert field_of(refused) == (422, field), change
    assert running.redis.keys(running.keys.job("*")) == []


def test_a_job_without_a_home_has_the_only_cloud_that_runs_commands(
    running: Federation, api: httpx.Client
) -> None:
    assert api.post("/v1/jobs", json={"command": ["true"]}).json()["home"] == "north"
    running.join("east", (8,), runs_commands=True)
    wait_until(lambda: api.get("/v1/clouds").json()["clouds"][2:], "the other cloud")
    answer = api.post("/v1/jobs", json={"command": ["true"]})
    assert field_of(answer) == (422, "home")
    assert "one of east, north" in answer.text


def test_the_home_of_a_job_is_its_origin_where_that_is_a_cloud(
    running: Federation, api: httpx.Client
) -> None:
    del running
    made = api.post("/v1/jobs", json={"command": ["true"], "origin": "north"})
    assert made.json()["home"] == "north"


def test_without_a_cloud_that_runs_commands_it_is_said_what_to_do(
    federation: Federation, api: httpx.Client
) -> None:
    federation.join("north")
    refused = api.post("/v1/jobs", json=COMMAND)
    assert problem(refused) == (409, "no-commands")
    assert 'driver = "process"' in refused.json()["detail"]


def test_a_body_that_is_too_large_is_not_read(running: Federation, api: httpx.Client) -> None:
    del running
    large = COMMAND | {"environment": {f"V{number}": "x" * 30_000 for number in range(10)}}
    assert problem(api.post("/v1/jobs", json=large)) == (413, "body-too-large")


def test_a_member_has_so_many_open_jobs_and_no_more(redis_url: str) -> None:
    with serving(Federation(redis_url, open_jobs=2)) as federation, Client(federation.url, KEY) as operator:
        federation.join("north", (8,), runs_commands=True)
        key = runner(operator, "acme", "north")
        wish = JobWish(command=("true",), origin="north")
        with Client(federation.url, key) as acme:
            first, second = acme.jobs.submit(wish), acme.jobs.submit(wish)
            with pytest.raises(ProblemAnswer, match="2 jobs that have not ended"):
                acme.jobs.submit(wish)
            again = acme.jobs.submit(
                wish.model_copy(update={"id": second.id.removesuffix(make_suffix("acme"))})
            )
            assert again.id == second.id
            Journals(federation).run(first.id)
            Journals(federation).finish(first.id)
            acme.jobs.submit(wish)
        for _ in range(3):  # operators are trusted
            operator.jobs.submit(JobWish(command=("true",), home="north"))


# -- whose they are ----------------------------------------------------------------------------------------


def runner(operator: Client, member: str, *clouds: str) -> str:
    """A key of a new member that may have commands run."""
    operator.members.add(MemberWish(name=member, clouds=clouds))
    return operator.api_keys.create(KeyWish(principal=f"{member}/ci", role=Role.RUNNER)).key


def test_ids_of_two_members_are_apart_and_each_finds_its_own_by_the_id_it_chose(running: Federation) -> None:
    with Client(running.url, KEY) as operator:
        running.join("east", (8,), runs_commands=True)
        keys = [runner(operator, "acme", "north"), runner(operator, "rival", "east")]
        with Client(running.url, keys[0]) as acme, Client(running.url, keys[1]) as rival:
            mine = acme.jobs.submit(JobWish(id="nightly", command=("mine",), home="north"))
            theirs = rival.jobs.submit(JobWish(id="nightly", command=("theirs",), home="east"))
            assert (mine.id, theirs.id) == (f"nightly{make_suffix('acme')}", f"nightly{make_suffix('rival')}")
            assert (mine.holder, mine.origin) == ("acme", "acme")
            for name in ("nightly", mine.id):
                assert acme.jobs.get(name).command == ("mine",)
            assert rival.jobs.get("nightly").command == ("theirs",)
            for call in (acme.jobs.get, acme.jobs.read_log, acme.jobs.cancel):
                with pytest.raises(NotFoundError, match="there is no such job"):
                    call(theirs.id)
            assert {one.holder for one in acme.jobs.list().jobs} == {"acme"}
            assert {one.holder for one in operator.jobs.list().jobs} == {"acme", "rival"}
            with pytest.raises(InputRefusedError, match="origin: is not yours"):
                acme.jobs.submit(JobWish(command=("true",), origin="east", home="north"))
            with pytest.raises(InputRefusedError, match=r"home: east is not yours .*one of north"):
                acme.jobs.submit(JobWish(command=("true",), home="east"))
            with pytest.raises(InputRefusedError, match=f"at most {LONGEST_CHOSEN} characters"):
                acme.jobs.submit(JobWish(id="x" * 60, command=("true",), home="north"))


def test_a_key_for_some_of_its_members_clouds_sees_the_jobs_of_those(running: Federation) -> None:
    running.join("east", (8,), runs_commands=True)
    with Client(running.url, KEY) as operator:
        operator.members.add(MemberWish(name="acme", clouds=("north", "east")))
        wishes = [
            KeyWish(principal="acme/ci", role=Role.RUNNER, clouds=clouds) for clouds in (None, ("north",))
        ]
        whole, narrow = (operator.api_keys.create(wish).key for wish in wishes)
        with Client(running.url, whole) as all_of_it, Client(running.url, narrow) as north:
            for cloud in ("north", "east"):
                all_of_it.jobs.submit(JobWish(id=f"in-{cloud}", command=("true",), origin=cloud))
            assert [one.origin for one in north.jobs.list().jobs] == ["north"]
            assert len(all_of_it.jobs.list().jobs) == 2
            with pytest.raises(NotFoundError):
                north.jobs.get("in-east")
            with pytest.raises(InputRefusedError, match="home: east is not yours"):
                north.jobs.submit(JobWish(command=("true",), origin="north", home="east"))


def test_who_may_not_run_commands_is_told_which_role_may(running: Federation) -> None:
    with Client(running.url, KEY) as operator:
        operator.members.add(MemberWish(name="acme", clouds=("north",)))
        key = operator.api_keys.create(KeyWish(principal="acme")).key
    with (
        Client(running.url, key) as member,
        pytest.raises(ProblemAnswer, match="a key with the role runner, or one that may more"),
    ):
        member.jobs.submit(JobWish(command=("true",), home="north"))


# -- looking -----------------------------------------------------------------------------------------------


def test_a_list_is_narrowed_and_says_whether_there_are_more(journals: Journals, api: httpx.Client) -> None:
    for number in range(4):
        name = "odd" if number % 2 else "even"
        api.post("/v1/jobs", json=COMMAND | {"id": f"j{number}", "name": name})
    journals.run("j0")
    journals.run("j1")
    journals.finish("j1")

    def ids(**query: object) -> tuple[list[str], bool]:
        told = api.get("/v1/jobs", params=query).json()  # type: ignore[arg-type]
        return [one["id"] for one in told["jobs"]], told["more"]

    assert ids() == (["j3", "j2", "j1", "j0"], False)
    assert ids(limit=3) == (["j3", "j2", "j1"], True)
    assert ids(limit=4) == (["j3", "j2", "j1", "j0"], False)
    assert ids(state="running") == (["j0"], False)
    assert ids(state="finished") == (["j1"], False)
    assert ids(state="queued", limit=1) == (["j3"], True)
    assert ids(name="even") == (["j2", "j0"], False)
    assert field_of(api.get("/v1/jobs?state=gone")) == (422, "state")


def test_what_was_written_is_read_piece_by_piece(journals: Journals, api: httpx.Client) -> None:
    api.post("/v1/jobs", json=COMMAND | {"id": "j", "instances": 2})

    def log(**query: object) -> dict[str, Any]:
        answer = api.get("/v1/jobs/j/logs", params=query)  # type: ignore[arg-type]
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    assert log() == {
        "job": "j", "attempt": 0, "rank": 0, "offset": 0, "next_offset": 0, "text": "", "end": False,
    }  # fmt: skip
    journals.run("j")
    assert (log()["attempt"], log()["text"], log()["end"]) == (1, "", False)
    journals.write("j", "eins\nzwölf".encode()[:-4])  # in the middle of a character
    assert (log()["text"], log()["next_offset"]) == ("eins\nzw", 7)
    journals.write("j", "eins\nzwölf".encode())
    assert (log(offset=7)["text"], log(offset=7)["next_offset"]) == ("ölf", 11)
    assert (log(offset=11)["text"], log(offset=99)["next_offset"]) == ("", 99)
    journals.write("j", b"the last part", before=1000)
    told = log(offset=11)
    assert (told["offset"], told["text"], told["next_offset"]) == (1000, "the last part", 1013)
    journals.write("j", b"\xff\xfe", rank=1)
    assert log(rank=1)["text"] == "\ufffd\ufffd"
    assert field_of(api.get("/v1/jobs/j/logs?rank=2")) == (422, "rank")
    assert problem(api.get("/v1/jobs/j/logs?attempt=2")) == (404, "not-found")

    journals.end("j", Outcome.EVICTED)
    assert log(offset=1013)["end"] is True
    journals.run("j", 2)
    journals.write("j", b"second", attempt=2)
    assert (log()["attempt"], log(attempt=1)["attempt"]) == (2, 1)
    journals.finish("j", 2)
    assert (log()["attempt"], log()["text"], log()["end"]) == (2, "second", True)


def test_who_follows_waits_for_more_and_goes_on_with_the_next_attempt(
    running: Federation, journals: Journals, api: httpx.Client
) -> None:
    api.post("/v1/jobs", json=COMMAND | {"id": "j"})
    found: list[tuple[int, str]] = []
    with Client(running.url, KEY) as client:
        following = client.jobs.follow_log("j")

        def later(action: Callable[[], None]) -> None:
            timer = threading.Timer(0.5, action)
            timer.start()
            told = next(following)
            timer.join()
            found.append((told.attempt, told.text))

        def first() -> None:
            journals.write("j", b"one ")
            journals.run("j")

        def second() -> None:
            journals.end("j", Outcome.EVICTED)
            journals.write("j", b"three", attempt=2)
            journals.run("j", 2)

        later(first)
        later(lambda: journals.write("j", b"one two "))
        later(second)
        journals.finish("j", 2)
        assert list(following) == []
    assert found == [(1, "one "), (1, "two "), (2, "three")]


# -- cancelling --------------------------------------------------------------------------------------------


def test_cancelling_is_asked_for_once(journals: Journals, api: httpx.Client) -> None:
    api.post("/v1/jobs", json=COMMAND | {"id": "j"})
    for _ in range(2):
        asked = api.delete("/v1/jobs/j")
        assert asked.status_code == 200
        assert asked.json()["said"] == "Is being cancelled, as tester asked."
    kinds = [one.kind for one in journals.store.read_entries("j")]
    assert kinds == ["submitted", "cancel"]
    assert journals.store.list_due(time.time(), 10) == ["j"]
    journals.add("j", JobCancelled(at=time.time(), by="tester"), ended=True)
    assert api.delete("/v1/jobs/j").json()["state"] == "cancelled"


@pytest.mark.parametrize("ended", ["finished", "failed"])
def test_what_has_ended_is_not_cancelled(journals: Journals, api: httpx.Client, ended: str) -> None:
    api.post("/v1/jobs", json=COMMAND | {"id": "j"})
    journals.run("j")
    if ended == "finished":
        journals.finish("j")
    else:
        journals.end("j", Outcome.FAILED)
        journals.add("j", JobFailed(at=time.time(), why="no more retries"), ended=True)
    refused = api.delete("/v1/jobs/j")
    assert problem(refused) == (409, "job-ended")
    assert ended in refused.json()["detail"]


@pytest.mark.parametrize("name", ["nowhere", "a.b", "%00", "x" * 70])
def test_there_is_no_such_job(running: Federation, api: httpx.Client, name: str) -> None:
    del running
    for method, rest in (("GET", ""), ("GET", "/logs"), ("DELETE", "")):
        assert problem(api.request(method, f"/v1/jobs/{name}{rest}")) == (404, "not-found")


# -- the command line --------------------------------------------------------------------------------------


def test_the_command_line_from_one_end_to_the_other(
    running: Federation, journals: Journals, spotfed: Run
) -> None:
    del running
    code, out, err = spotfed("job", "submit", "--home", "north", "--id", "n", "--", "echo", "--json", "hello")
    assert (code, err) == (0, "")
    assert "job n is queued: Is about to be planned." in out
    journals.run("n")
    journals.write("n", b"hello\n")
    assert spotfed("job", "logs", "n") == (0, "hello\n", "")
    code, out, _ = spotfed("job", "status", "n")
    assert (code, "Where did it run, why did it move, what did it cost?" in out) == (0, True)
    assert json.loads(spotfed("job", "status", "n", "--json")[1])["command"] == ["echo", "--json", "hello"]
    assert "running" in spotfed("job", "list")[1]
    assert spotfed("job", "list", "--state", "failed")[1] == "no such jobs\n"
    assert spotfed("job", "list", "--state", "lost")[0] == 2
    code, out, _ = spotfed("job", "cancel", "n")
    assert (code, out) == (0, "job n: Is being cancelled, as tester asked.\n")
    journals.end("n", Outcome.STOPPED)
    journals.add("n", JobCancelled(at=time.time(), by="tester"), ended=True)
    again = ("job", "submit", "--home", "north", "--id", "n", "--wait", "--", "echo", "--json", "hello")
    assert spotfed(*again)[0] == 1
    assert spotfed("job", "logs", "n", "--follow") == (0, "hello\n", "")
    assert json.loads(spotfed("job", "logs", "n", "--json")[1])["end"] is True
    code, _, err = spotfed("job", "status", "nowhere")
    assert (code, err) == (2, "spotfed: there is no such job\n")
