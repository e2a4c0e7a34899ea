"""``spotfed quote`` for several sizes and ``spotfed extend``, against a broker."""

import json
from typing import Any

import httpx
import pytest

from tests.contract.harness import FakeOwner, Run
from tests.contract.test_extensions import east, lease
from tests.support.wait import wait_until

__all__ = ["east", "lease"]  # fixtures


def test_a_lease_is_extended_or_refused_with_what_to_ask_instead(
    spotfed: Run, lease: dict[str, Any], api: httpx.Client
) -> None:
    code, out, _ = spotfed("extend", lease["id"], "--by", "1h")
    assert (code, out.split()[:2]) == (0, ["extended", lease["id"]])
    assert "by 1 h, risk of eviction from now on 0.2500" in out
    code, out, _ = spotfed("extend", lease["id"], "--by", "4000s")
    assert code == 3
    assert "accepted instead: --sla 0.75" in out
    code, out, _ = spotfed("extend", lease["id"], "--by", "1d", "--json")
    refused = json.loads(out)
    assert (code, refused["lease"], refused["refusals"][0]["reason"]) == (3, None, "no_evidence")
    code, out, _ = spotfed("extend", lease["id"], "--by", "3590s", "--sla", "0.75", "--json")
    assert (code, json.loads(out)["lease"]["extensions"]) == (0, 2)
    assert f"extended {lease['id']}" in spotfed("events")[1]
    api.delete(f"/v1/leases/{lease['id']}")
    code, _, err = spotfed("extend", lease["id"], "--by", "1h")
    assert code == 3
    assert "has ended: cancelled" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "0"], "--by: '0' is no time at all"),
        (["--by", "soon"], "--by: 'soon' is not a duration"),
        (["--by", "1h", "--sla", "none"], "--sla: an extension keeps its promise"),
        (["--by", "1h", "--sla", "1"], "--sla: an extension keeps its promise"),
        (["--by", "1h", "--sla", "high"], "--sla: 'high' is not a probability"),
        (["--by", "1h"], "there is no such lease"),
    ],
)
def test_what_cannot_be_asked(spotfed: Run, options: list[str], message: str) -> None:
    code, _, err = spotfed("extend", "nobody", *options)
    assert code == 2
    assert message in err


def test_quotes_for_several_sizes(spotfed: Run, east: FakeOwner, api: httpx.Client) -> None:
    wait_until(lambda: api.get("/v1/clouds/east").json()["reachable"])
    code, out, _ = spotfed("quote", "--cores", "2,1", "--lifetime", "2h", "--sla", "0.5")
    assert code == 0
    assert "1, 2 cores for 2 h at SLA 0.5" in out
    assert "no quantile table of this size yet" in out
    code, out, _ = spotfed("quote", "--cores", "2,1", "--lifetime", "2h", "--sla", "0.5", "--json")
    answer = json.loads(out)
    assert [(quote["cores"], quote["eviction_probability"]) for quote in answer["quotes"]] == [(1, 0.25)]
    code, _, err = spotfed("quote", "--cores", "1,two", "--lifetime", "2h")
    assert (code, "--cores" in err) == (2, True)
    code, _, err = spotfed("quote", "--cores", ",".join(map(str, range(1, 30))), "--lifetime", "2h")
    assert (code, "--cores" in err) == (2, True)


def test_a_quote_of_a_renewable_request_says_what_is_promised_at_first(
    spotfed: Run, east: FakeOwner, api: httpx.Client
) -> None:
    wait_until(lambda: api.get("/v1/clouds/east").json()["reachable"])
    options = ("quote", "--cores", "1", "--lifetime", "2d", "--sla", "0.1")
    code, out, _ = spotfed(*options)
    assert (code, "at first" in out) == (3, False)
    code, out, _ = spotfed(*options, "--least", "20m")
    assert (code, "yes, 1 h of it at first" in out) == (0, True)
