"""Whatever is sent to the API, it answers as its document says, and never by a fault of ours.

In CI (``CI`` is set) more than ten thousand cases, elsewhere some hundreds. The number is printed.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.harness import KEY, Federation, serving
from tests.deep.fuzz.fuzzing import Fuzzed, fuzz

pytestmark = pytest.mark.timeout(1500)

WHOLE = bool(os.environ.get("CI"))
LEAST_CASES = 10_000 if WHOLE else 250
EXAMPLES = 450 if WHOLE else 8
#: A drained cloud admits nobody, a revoked key lets nobody in, and trace time is not wall time: the rest
#: would be tested against refusals only. They have a federation of their own.
APART = "/drain$|/advance$|/v1/keys/"
#: A few seconds elsewhere: of the phases, those without cases for each value of each field.
PHASES = ("--phases", "examples,coverage,fuzzing,stateful" if WHOLE else "examples,fuzzing,stateful")


@pytest.fixture
def federation(redis_url: str) -> Iterator[Federation]:
    told = {"calls_per_s": 0, "webhook_allow": "127.0.0.0/8", "webhook_attempts": 1}
    with serving(Federation(redis_url, **told)) as federation:
        yield federation


def judge(found: Fuzzed, least: int) -> None:
    print(f"{found.cases} cases of {found.operations} operations")  # noqa: T201
    assert not found.failures, found.failures
    assert found.cases >= least


def furnished(federation: Federation) -> dict[str, list[str]]:
    """Lets two clouds join and makes one or two things of each kind; their ids by parameter."""
    federation.join("a", (8, 8), grace_s=5.0, runs_commands=True)
    federation.join("b", (16,), overflow=True)
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=federation.url, headers=headers, timeout=60) as api:

        def make(path: str, **body: object) -> httpx.Response:
            made = api.post(path, json=body)
            assert made.status_code == 201, made.text
            return made

        leases = [
            make("/v1/requests", id=f"r{number}", cores=1, lifetime_s=3600).json()["lease"]["id"]
            for number in range(8)
        ]
        for instance in ("od-1", "od-2"):
            make("/v1/clouds/a/on-demand", id=instance, cores=1)
        make("/v1/members", name="acme", clouds=["a"], spot_cores=500)
        receiver = f"{federation.url}/healthz"  # it accepts nothing
        jobs = [make("/v1/jobs", id=f"j{n}", command=["true"], home="a").json()["id"] for n in range(3)]
        webhooks = [make("/v1/webhooks", url=f"{receiver}?{n}").json()["webhook"]["id"] for n in (1, 2)]
    return {
        "path.cloud": ["a", "b"],
        "path.lease_id": leases,
        "path.instance": ["od-1", "od-2", "r0.1"],
        "path.name": ["acme"],
        "path.webhook": webhooks,
        "path.job": jobs,
        "query.cloud": ["a", "b"],
        "query.origin": ["user", "acme"],
    }


def test_whatever_is_sent_the_answer_is_as_documented(federation: Federation, tmp_path: Path) -> None:
    known = furnished(federation)
    found = fuzz(federation.url, tmp_path, EXAMPLES, known, *PHASES, "--exclude-path-regex", APART)
    judge(found, LEAST_CASES)
    answer = httpx.get(f"{federation.url}/v1/clouds", headers={"Authorization": f"Bearer {KEY}"}, timeout=60)
    assert {one["info"]["id"] for one in answer.json()["clouds"] if one["reachable"]} == {"a", "b"}


def test_nor_does_it_break_when_clouds_are_drained_keys_revoked_and_time_advanced(
    federation: Federation, tmp_path: Path
) -> None:
    federation.join("a", (8, 8), trace_time=True)
    federation.join("b", (16,), trace_time=True)
    headers = {"Authorization": f"Bearer {KEY}"}
    wish = {"principal": "another", "role": "operator"}
    made = httpx.post(f"{federation.url}/v1/keys", headers=headers, json=wish, timeout=60)
    known = {"path.cloud": ["a", "b"], "path.key_id": [made.json()["record"]["id"]]}
    found = fuzz(federation.url, tmp_path, EXAMPLES, known, *PHASES, "--include-path-regex", APART)
    judge(found, LEAST_CASES // 10)
