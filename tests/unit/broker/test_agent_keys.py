"""What only the cloud agents of some clouds may read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.signing.agent_keys import SealError, public_half, read_agent_key, read_public_key, seal, unseal


def test_each_agent_reads_it_and_nobody_else(tmp_path: Path) -> None:
    keys = {cloud: read_agent_key(tmp_path / "keys" / f"{cloud}.jwk") for cloud in ("A", "B", "C")}
    sealed = seal("s3cret", {cloud: read_public_key(public_half(keys[cloud])) for cloud in ("A", "B")})
    assert "s3cret" not in sealed
    for cloud in ("A", "B"):
        assert unseal(sealed, cloud, keys[cloud]) == "s3cret"
    for cloud, key in (("C", "C"), ("A", "B"), ("A", "C")):
        with pytest.raises(SealError, match="not encrypted for this key"):
            unseal(sealed, cloud, keys[key])
    damaged = json.loads(sealed)
    damaged["ciphertext"] = damaged["ciphertext"][:-2] + "AA"
    with pytest.raises(SealError):
        unseal(json.dumps(damaged), "A", keys["A"])
    with pytest.raises(SealError):
        unseal("{}", "A", keys["A"])


def test_a_key_stays_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "A.jwk"
    first = read_agent_key(path)
    assert read_agent_key(path).as_dict(private=True) == first.as_dict(private=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "d" not in json.loads(public_half(first))
    path.chmod(0o644)
    with pytest.raises(SealError, match="chmod 600"):
        read_agent_key(path)
    path.chmod(0o600)
    path.write_text("{}")
    with pytest.raises(SealError, match="cannot be used as the agent's key"):
        read_agent_key(path)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}', '{"kty": "RSA"}']
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(SealError):
        read_public_key(text)


def test_a_private_key_is_no_public_one(tmp_path: Path) -> None:
    key = read_agent_key(tmp_path / "A.jwk")
    with pytest.raises(SealError):
        read_public_key(json.dumps(key.as_dict(private=True)))
