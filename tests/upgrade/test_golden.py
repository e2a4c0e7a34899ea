"""Two versions side by side: this one reads all that the one before wrote, and writes what that one reads.

The files are those of ``tests/golden/contract/<version>``, written by the code of that version.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from pydantic import BaseModel, TypeAdapter, ValidationError

from broker.contract import VERSION, Event, EventKind, RefusalView, Reply, commands, replies
from broker.versions import OLDEST_VERSION, list_written, since, version_of, written
from cloudsim.requests import Reason
from tests.upgrade.drawing import values
from tests.upgrade.make_golden import MESSAGES, owner_spec, schemas, summary
from workers.owner.owner import Owner

CONTRACTS = Path(__file__).parents[1] / "golden" / "contract"
LANDED = sorted(int(path.name) for path in CONTRACTS.iterdir() if path.is_dir())


def lines(name: str, version: int = OLDEST_VERSION) -> list[str]:
    found = (CONTRACTS / str(version) / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert found
    return found


def stored(name: str, version: int = OLDEST_VERSION) -> Any:
    return json.loads((CONTRACTS / str(version) / f"{name}.json").read_text(encoding="utf-8"))


SCHEMAS: dict[str, Any] = stored("schemas")
JUDGES = {name: jsonschema_rs.validator_for(schema) for name, schema in SCHEMAS.items()}
LISTS: dict[str, tuple[str, TypeAdapter[Any]]] = {
    "inbox": ("command", commands),
    "replies": ("reply", replies),
}
SINGLE = sorted(
    path.stem
    for path in (CONTRACTS / str(OLDEST_VERSION)).glob("*.jsonl")
    if path.stem not in {*LISTS, "journal"}
)


def parsed(name: str, value: Any) -> Any:
    return TypeAdapter(MESSAGES[name]).validate_python(value, extra="ignore")


# -- this version reads the one before -----------------------------------------------------------------------


@pytest.mark.parametrize("version", LANDED)
def test_a_journal_of_a_version_that_landed_gives_the_same_owner(version: int) -> None:
    events = [Event.model_validate_json(line) for line in lines("journal", version)]
    assert {event.version for event in events} == {version}
    kinds = set(stored("schemas", version)["event"]["$defs"]["EventKind"]["enum"])
    assert {event.kind for event in events} == {EventKind(kind) for kind in kinds}, (
        "the file tells everything"
    )
    owner = Owner.recover(owner_spec(), 2, events)
    owner.validate()
    assert summary(owner) == stored("summary", version)


def test_a_contract_that_landed_changes_no_more() -> None:
    """Who changes a message raises ``broker.versions.VERSION``, and declares what is new with ``since``."""
    assert VERSION in (LANDED[-1], LANDED[-1] + 1)
    if LANDED[-1] == VERSION:
        assert schemas() == stored("schemas", VERSION)


@pytest.mark.parametrize("name", sorted(LISTS))
def test_commands_and_replies_of_the_version_before_are_read(name: str) -> None:
    message, adapter = LISTS[name]
    seen = set()
    for line in lines(name):
        (read,) = adapter.validate_json(line)
        told = json.loads(line)[0]
        assert json.loads(written(read, OLDEST_VERSION)) == told
        seen.add(told.get("kind") or told["answer"]["answer"])
    assert seen == set(_tags(SCHEMAS[message])), "the file has one of each"


def _tags(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema if "discriminator" in schema else schema["properties"]["answer"]
    mapping: dict[str, Any] = found["discriminator"]["mapping"]
    return mapping


@pytest.mark.parametrize("name", SINGLE)
def test_what_the_version_before_stored_is_read(name: str) -> None:
    for line in lines(name):
        assert json.loads(written(parsed(name, json.loads(line)), OLDEST_VERSION)) == _complete(name, line)


def _complete(name: str, line: str) -> Any:
    """An offer is written without what is not used."""
    told = json.loads(line)
    return parsed(name, told).model_dump(mode="json") if name == "offer" else told


# -- the version before reads this one -----------------------------------------------------------------------

#: Commands of an instance agent to the owner beside it, which has read the same federation file: none of the
#: version before has a real cloud.
NOT_SENT = frozenset({"gone"})


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_what_is_written_for_the_version_before_is_read_by_it(name: str) -> None:
    schema = TypeAdapter(MESSAGES[name]).json_schema()

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(values(schema, schema.get("$defs", {})))
    def check(drawn: Any) -> None:
        try:
            message = parsed(name, drawn)
        except ValidationError:
            assume(False)
        assume(getattr(message, "kind", None) not in NOT_SENT)
        JUDGES[name].validate(json.loads(written(message, OLDEST_VERSION)))

    check()


class Inner(BaseModel):
    kept: int
    tier: str | None = since(3)


class Outer(BaseModel):
    version: int = VERSION
    inner: Inner
    several: tuple[Inner, ...] = ()
    limit: int = since(VERSION, 3)


def test_a_field_is_left_out_for_who_does_not_know_it_and_while_nobody_uses_it() -> None:
    plain = Outer(inner=Inner(kept=1))
    assert json.loads(written(plain)) == {"version": VERSION, "inner": {"kept": 1}, "several": []}
    used = Outer(inner=Inner(kept=1, tier="gold"), several=(Inner(kept=2, tier="lead"),), limit=4)
    assert Outer.model_validate_json(written(used)) == used
    assert json.loads(written(used, OLDEST_VERSION)) == {
        "version": OLDEST_VERSION,
        "inner": {"kept": 1},
        "several": [{"kept": 2}],
    }
    assert json.loads(list_written([plain, plain])) == [json.loads(written(plain))] * 2


def test_fields_say_since_when_they_are_there() -> None:
    fields = {name: version_of(field) for name, field in Inner.model_fields.items()}
    assert fields == {"kept": OLDEST_VERSION, "tier": 3}


@pytest.mark.parametrize("name", sorted(set(MESSAGES) - {"command", "reply"}))
def test_no_field_came_without_saying_since_when(name: str) -> None:
    old = set(SCHEMAS[name]["properties"])
    fields = MESSAGES[name].model_fields
    assert {field for field, one in fields.items() if version_of(one) == OLDEST_VERSION} == old


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_new_word_has_an_older_one(name: str) -> None:
    now, before = TypeAdapter(MESSAGES[name]).json_schema().get("$defs", {}), SCHEMAS[name].get("$defs", {})
    words = {one: schema["enum"] for one, schema in now.items() if "enum" in schema}
    new = {
        word for one, told in words.items() if one in before for word in set(told) - {*before[one]["enum"]}
    }
    assert new <= {word.value for word in Reason}
    for word in new:
        refusal = RefusalView(cloud="a", reason=Reason(word))
        told = written(Reply(command="c", answer=refusal), OLDEST_VERSION)
        JUDGES["reply"].validate(json.loads(told))
        assert json.loads(written(refusal))["reason"] == word


# -- what comes after ----------------------------------------------------------------------------------------


def test_what_a_later_version_adds_is_passed_over() -> None:
    line = json.loads(lines("journal")[3])
    line["unheard_of"] = line["lease"]["unheard_of"] = 1
    assert Event.model_validate(line, extra="ignore") == Event.model_validate_json(lines("journal")[3])
    (command,) = json.loads(lines("inbox")[0])
    assert commands.validate_python([command | {"unheard_of": 1}], extra="ignore")
    with pytest.raises(ValidationError, match="unheard_of"):
        commands.validate_python([command | {"unheard_of": 1}])
