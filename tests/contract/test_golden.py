"""What landed versions of the contract wrote is read, and messages are written so that they can be read.

The files are those of ``tests/golden/contract/<version>``, written by the code of that version.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from broker.contract import (
    VERSION,
    Confirm,
    Event,
    EventKind,
    commands,
    field_version,
    since,
    write_message,
    write_messages,
)
from broker.contract import version as versions
from cloudsim.model.codes import Added, Code
from tests.deep.upgrade.make_golden import MESSAGES, owner_spec, schemas, summary
from workers.owner.owner import Owner

CONTRACTS = Path(__file__).parents[1] / "golden" / "contract"
LANDED = sorted(int(path.name) for path in CONTRACTS.iterdir() if path.is_dir())
LATEST = LANDED[-1]
NEXT = VERSION + 1


def lines(name: str, version: int = LATEST) -> list[str]:
    found = (CONTRACTS / str(version) / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert found
    return found


def stored(name: str, version: int = LATEST) -> Any:
    return json.loads((CONTRACTS / str(version) / f"{name}.json").read_text(encoding="utf-8"))


SCHEMAS: dict[str, Any] = stored("schemas")


def inlined(schema: dict[str, Any]) -> Any:
    """Return a schema with its definitions in place of their names, which are those of Python classes."""

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolve(schema["$defs"][part["$ref"].rpartition("/")[2]])
        if "mapping" in part:
            return {
                **part,
                "mapping": {kind: resolve({"$ref": name}) for kind, name in part["mapping"].items()},
            }
        return {key: resolve(item) for key, item in part.items() if key != "$defs"}

    return resolve(schema)


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
    """A change declares its version with ``since`` or ``Added``; ``broker.contract.VERSION`` follows."""
    assert VERSION in (LATEST, LATEST + 1)
    if LATEST == VERSION:
        for name, schema in schemas().items():
            assert inlined(schema) == inlined(SCHEMAS[name])
        assert schemas().keys() == SCHEMAS.keys()


@pytest.mark.parametrize("name", sorted(set(MESSAGES) - {"command", "reply"}))
def test_no_field_came_without_saying_since_when(name: str) -> None:
    fields = MESSAGES[name].model_fields
    old = {field for field, one in fields.items() if field_version(one) <= LATEST}
    assert old == set(SCHEMAS[name]["properties"])


#: Enumerations that had another name when the golden files were written.
RENAMED = {"RefusalReason": "Reason"}


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_new_value_of_an_enumeration_has_an_older_one(name: str) -> None:
    now, before = TypeAdapter(MESSAGES[name]).json_schema().get("$defs", {}), SCHEMAS[name].get("$defs", {})
    new = {
        (one, value)
        for one, schema in now.items()
        if "enum" in schema and (old := before.get(RENAMED.get(one, one)))
        for value in set(schema["enum"]) - set(old["enum"])
    }
    added = {
        (code.__name__, value.value)
        for code in Code.__subclasses__()
        for value in code
        if value.since > LATEST
    }
    assert new <= added


# -- what the next version would do --------------------------------------------------------------------------


class Colour(Code):
    RED = "red"
    CRIMSON = Added("crimson", NEXT, "red")


class Inner(BaseModel):
    kept: int
    tier: str | None = since(NEXT)
    colour: Colour = Colour.RED


class Outer(BaseModel):
    version: int = NEXT
    inner: Inner
    several: tuple[Inner, ...] = ()
    limit: int = since(NEXT, 3)


class Painted(BaseModel):
    colours: tuple[Colour, ...] | None = None


@pytest.mark.parametrize("model", [Inner, Outer, Painted])
def test_the_version_is_the_highest_that_a_field_or_a_value_declares(model: type[BaseModel]) -> None:
    assert max(versions._declared_versions(model)) == NEXT


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "current_version", lambda: NEXT)


@pytest.mark.usefixtures("next_version")
def test_what_is_new_is_left_out_for_readers_of_the_version_before() -> None:
    used = Outer(inner=Inner(kept=1, tier="gold", colour=Colour.CRIMSON), several=(Inner(kept=2),), limit=4)
    assert Outer.model_validate_json(write_message(used, NEXT)) == used
    assert json.loads(write_message(used, VERSION)) == {
        "version": VERSION,
        "inner": {"kept": 1, "colour": "red"},
        "several": [{"kept": 2, "colour": "red"}],
    }


@pytest.mark.usefixtures("next_version")
def test_a_field_that_nobody_uses_is_not_written() -> None:
    plain = Outer(inner=Inner(kept=1))
    expected = {"version": NEXT, "inner": {"kept": 1, "colour": "red"}, "several": []}
    assert json.loads(write_message(plain, NEXT)) == expected
    assert json.loads(write_messages([plain, plain], NEXT)) == [expected] * 2


def test_fields_of_a_later_version_are_passed_over() -> None:
    line = json.loads(lines("journal")[3])
    line["unheard_of"] = line["lease"]["unheard_of"] = 1
    assert Event.model_validate(line, extra="ignore") == Event.model_validate_json(lines("journal")[3])
    command = Confirm(id="c", attempt="r.1").model_dump() | {"unheard_of": 1}
    assert commands.validate_python([command], extra="ignore")
    with pytest.raises(ValidationError, match="unheard_of"):
        commands.validate_python([command])
