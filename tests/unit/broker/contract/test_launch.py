"""What the holder of a lease lets its instance run, and the rules of who lends it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from broker.contract import Lease, SpotRequest, read_message, write_message
from broker.contract.launch import MOST_USER_DATA, REVEAL, Launch, LaunchRules, find_word
from tests.unit.broker.contract.public_key import PUBLIC_KEY

SECRET = "#!/bin/sh\necho s3cret\n"
WHOLE: dict[str, Any] = {
    "image": "debian-12", "instance_type": "m1.small", "key": PUBLIC_KEY, "networks": ["lab"],
    "security_groups": ["ssh"], "tags": {"team": "x"}, "user_data": SECRET, "arguments": ["s3cret"],
    "environment": {"TOKEN": "s3cret"},
}  # fmt: skip


def test_secrets_are_written_for_the_broker_alone() -> None:
    request = SpotRequest(cores=1, lifetime_s=1.0, launch=Launch(**WHOLE))
    assert "s3cret" not in request.model_dump_json() + repr(request) + str(request) + write_message(request)
    sent = request.model_dump_json(exclude_defaults=True, context=REVEAL)
    assert SpotRequest.model_validate_json(sent, strict=True) == request


def test_what_is_carried_has_no_secrets() -> None:
    launch = Launch(**WHOLE)
    assert launch.carried == {name: WHOLE[name] for name in ("user_data", "arguments", "environment")}
    carried = launch.without_secrets("0" * 32)
    assert (carried.user_data, carried.arguments, carried.environment) == (None, (), {})
    assert (carried.image, carried.key, carried.tags) == ("debian-12", PUBLIC_KEY, {"team": "x"})
    assert (carried.secrets, carried.sealed) == (("user_data", "arguments", "environment"), "0" * 32)
    assert read_message(Launch, write_message(carried)) == carried
    assert Launch(image="x").without_secrets("0" * 32) == Launch(image="x")


def test_readers_of_an_earlier_version_get_none() -> None:
    request = SpotRequest(cores=1, lifetime_s=1.0, launch=Launch(image="x"))
    assert "launch" not in write_message(request, 3)
    assert '"launch":{"image":"x"}' in write_message(request)
    assert "launch" in Lease.model_fields


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"key": "-----BEGIN OPENSSH PRIVATE KEY-----"}, "key"),
        ({"key": "ssh-ed25519 AAAA"}, "key"),
        ({"key": PUBLIC_KEY.replace("ssh-ed25519", "ssh-rsa")}, "key"),
        ({"key": f"{PUBLIC_KEY}\n{PUBLIC_KEY}"}, "key"),
        ({"image": "two\nlines"}, "image"),
        ({"user_data": "x" * (MOST_USER_DATA + 1)}, "user_data"),
        ({"user_data": "\0"}, "user_data"),
        ({"environment": {"LD_PRELOAD": "x"}}, "environment"),
        ({"environment": {"A B": "x"}}, "environment"),
        ({"tags": {"spotfed:lease": "another"}}, "tags"),
        ({"networks": ["n"] * 17}, "networks"),
        ({"user_data": None}, None),
        ({"sealed": "../another"}, "sealed"),
    ],
)
def test_what_cannot_be_is_named_and_not_told(changes: dict[str, Any], field: str | None) -> None:
    with pytest.raises(ValidationError) as raised:
        Launch.model_validate({**WHOLE, **changes})
    (error,) = raised.value.errors(include_input=False)
    assert error["loc"][:1] == ((field,) if field else ())


def test_nothing_is_allowed_unless_it_is_said() -> None:
    faults = ["images: debian-12", "networks: lab", "security_groups: ssh", "keys", "tags", "user data"]
    assert list(LaunchRules().find_faults(Launch(**WHOLE))) == faults
    assert list(LaunchRules().find_faults(Launch(**WHOLE).without_secrets("0" * 32))) == faults
    assert list(LaunchRules().find_faults(Launch())) == []


def test_what_is_allowed() -> None:
    rules = LaunchRules(
        images=["debian-*"], networks={"lab": "1f3b"}, security_groups=["ssh"], keys=True, tags=True,
        user_data=True,
    )  # fmt: skip
    launch = Launch(**WHOLE)
    assert list(rules.find_faults(launch)) == ["arguments", "environment"]
    assert list(rules.model_copy(update={"scripts": True}).find_faults(launch)) == []
    two = Launch(networks=("lab", "lab"))
    assert list(rules.model_copy(update={"most_networks": 1}).find_faults(two)) == ["more than 1 networks"]
    assert [find_word(rules.images, "debian-12"), find_word(rules.networks, "lab")] == ["debian-12", "1f3b"]
    assert find_word(rules.images, "windows") is None
