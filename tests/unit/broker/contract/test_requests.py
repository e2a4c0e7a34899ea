"""What a user sends: needs beside cores, and digests that do not change for those who have none."""

import hashlib
from typing import Any

import pytest
from pydantic import ValidationError

from broker.cli.views.request import REMOVED
from broker.contract import Ask, OnDemandRequest, QuoteRequest, Reserve, SpotRequest, StartOnDemand, commands
from broker.contract.convert import to_needs_fields
from broker.requests.open_request import make_ask
from cloudsim.model.requests import Kind, Request, Spread
from cloudsim.scheduling import filters

NEEDS: dict[str, Any] = {
    "resources": {"memory_mb": 4000, "disk_gb": 40},
    "labels": {"zone": "north", "disk": "ssd"},
    "group": "web",
    "spread": "apart",
}


def test_requests_that_need_cores_only_are_written_as_before() -> None:
    """The text is what the fingerprint of an id is made of: ids of a running federation stay good."""
    request = SpotRequest(id="r", cores=2, lifetime_s=60, sla=0.05)
    text = '{"id":"r","origin":"user","cores":2,"lifetime_s":60.0,"sla":0.05,"targets":null,"at_s":null}'
    assert request.model_dump_json() == text
    digest = hashlib.sha256(f"p\n{request.model_dump_json()}".encode()).hexdigest()
    assert digest == hashlib.sha256(f"p\n{text}".encode()).hexdigest()
    own = OnDemandRequest(id="i", cores=1)
    assert own.model_dump_json() == '{"id":"i","cores":1,"lifetime_s":null}'
    assert not request.needs_more


def test_the_same_needs_are_the_same_text() -> None:
    one = SpotRequest(id="r", cores=1, lifetime_s=1, **NEEDS)
    turned = {name: dict(reversed(NEEDS[name].items())) for name in ("resources", "labels")}
    turned["resources"]["gpus"] = 0
    other = SpotRequest(id="r", cores=1, lifetime_s=1, **(NEEDS | turned))
    assert one.model_dump_json() == other.model_dump_json()
    assert SpotRequest.model_validate_json(one.model_dump_json(), strict=True) == one
    assert one.needs_more


def test_they_reach_the_owner_and_the_core() -> None:
    request = SpotRequest(id="r", cores=1, lifetime_s=1, **NEEDS)
    asked = make_ask("c", request, "me")
    (heard,) = commands.validate_json(commands.dump_json([asked]))
    assert isinstance(heard, Ask)
    core = Request("r", Kind.SPOT, 1, 1.0, **heard.needs)
    assert core.amounts == (("disk_gb", 40), ("memory_mb", 4000))
    assert core.labels == frozenset({("zone", "north"), ("disk", "ssd")})
    assert (core.group, core.spread) == ("web", Spread.APART)
    assert SpotRequest(id="r", cores=1, lifetime_s=1, **to_needs_fields(core)) == request
    more = QuoteRequest(cores=[1, 2], lifetime_s=1, **NEEDS).requests()
    assert [(one.cores, one.needs) for one in more] == [(1, heard.needs), (2, heard.needs)]
    for command in (
        Reserve(id="c", attempt="a", request="r", origin="B", cores=1, lifetime_s=1, sla=None, **NEEDS),
        StartOnDemand(id="c", instance="i", cores=1, lifetime_s=None, **NEEDS),
    ):
        (heard_too,) = commands.validate_json(commands.dump_json([command]))
        assert heard_too == command
        assert {"pool": None, **command.needs} == heard.needs


@pytest.mark.parametrize(
    ("needs", "place"),
    [
        ({"resources": {"cores": 1}}, "resources"),
        ({"resources": {"memory_mb": 0.5}}, "resources"),
        ({"resources": {f"r{i}": 1 for i in range(17)}}, "resources"),
        ({"labels": {"zone": ""}}, "labels"),
        ({"group": "a" * 65}, "group"),
        ({"spread": "together"}, "spread"),
    ],
)
def test_needs_that_cannot_be_meant(needs: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        OnDemandRequest.model_validate({"cores": 1} | needs)
    assert caught.value.errors()[0]["loc"][0] == place


def test_the_command_line_has_words_for_every_filter() -> None:
    assert set(REMOVED) == {one.name for one in filters.ALL} | {filters.ROOM}
