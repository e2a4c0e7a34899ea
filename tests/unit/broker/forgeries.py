"""Messages that nobody may believe: a good one, changed in each way that one can think of."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.util import urlsafe_b64decode, urlsafe_b64encode

from broker.signing.key_files import KeyFiles, SigningKey, TrustFile
from broker.signing.parties import BROKER
from broker.signing.signer import LIFETIME_S, MessageSigner

#: The order of the group that Ed25519 signs in: s + this is the same number to a careless verifier.
_ORDER = 2**252 + 27742317777372353535851937790883648493
OTHER = "cloud.B"
STRANGER = "cloud.M"  # its key is in no trust file

Fields = dict[str, bytes]


@dataclass
class Parties:
    """Key files of a broker, two clouds and a stranger, and what the good ones are told."""

    files: KeyFiles
    apart: KeyFiles

    @classmethod
    def make(cls, directory: Path) -> Parties:
        made = cls(KeyFiles(directory / "keys"), KeyFiles(directory / "stranger"))
        made.files.ensure([BROKER, "cloud.A", OTHER])
        made.apart.ensure([STRANGER])
        return made

    def signing(self, party: str, **options: Any) -> MessageSigner:
        """What a process of that party signs with and believes."""
        files = self.apart if party == STRANGER else self.files
        return MessageSigner(SigningKey(files.key(party)), TrustFile(self.files.trust), **options)

    def key(self, party: str) -> tuple[dict[str, Any], Ed25519PrivateKey]:
        """The header of its tokens, and its private key."""
        files = self.apart if party == STRANGER else self.files
        key = SigningKey(files.key(party)).current()
        assert key.private is not None
        return json.loads(urlsafe_b64decode(key.header)), key.private


def dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def signed(header: bytes, payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """A token over whatever bytes."""
    text = urlsafe_b64encode(header) + b"." + urlsafe_b64encode(payload)
    return text + b"." + urlsafe_b64encode(key.sign(text))


def claims_of(body: bytes, audience: str, **changed: Any) -> dict[str, Any]:
    """Good claims of the broker, but for what is changed; None: left out."""
    claims: dict[str, Any] = {
        "iss": BROKER,
        "aud": audience,
        "jti": "0123456789abcdef-7",
        "exp": changed.pop("now_s") + LIFETIME_S,
        "sha256": urlsafe_b64encode(hashlib.sha256(body).digest()).decode(),
    }
    return {name: value for name, value in {**claims, **changed}.items() if value is not None}


def forgeries(parties: Parties, audience: str, body: bytes, now_s: int) -> dict[str, Fields]:
    """By name, the fields of an inbox entry. ``body`` is a JSON list of commands, ``audience`` the inbox."""
    header, key = parties.key(BROKER)

    def claims(**changed: Any) -> dict[str, Any]:
        return claims_of(body, audience, now_s=now_s, **changed)

    made = {f"header: {name}": token for name, token in _headers(parties, claims()).items()}
    made |= {f"claims: {name}": signed(dumped(header), text, key) for name, text in _claims(claims).items()}
    made |= {f"signature: {name}": token for name, token in _shapes(dumped(header), claims(), key).items()}
    for party in (OTHER, STRANGER):
        its_header, its_key = parties.key(party)
        made[f"{party} as itself"] = signed(dumped(its_header), dumped(claims(iss=party)), its_key)
        made[f"{party} as the broker"] = signed(dumped(its_header), dumped(claims()), its_key)
        made[f"{party} under the broker's key id"] = signed(dumped(header), dumped(claims()), its_key)
    entries = {name: {"s": token, "c": body} for name, token in made.items()}
    good = signed(dumped(header), dumped(claims()), key)
    entries |= {f"body: {name}": {"s": good, "c": text} for name, text in _bodies(body).items()}
    entries["not signed"] = {"c": body}
    entries["empty signature"] = {"s": b"", "c": body}
    entries["10 MB, not signed"] = {"c": b"[" + b" " * 10_000_000 + b"]"}
    return entries


def _headers(parties: Parties, claims: dict[str, Any]) -> dict[str, bytes]:
    header, key = parties.key(BROKER)
    other, stranger = parties.key(OTHER)[0], parties.key(STRANGER)[1]
    payload, raw = dumped(claims), key.public_key().public_bytes_raw()
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    its_jwk = {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": urlsafe_b64encode(stranger.public_key().public_bytes_raw()).decode(),
    }

    def resigned(**changed: Any) -> bytes:
        parts = {name: value for name, value in {**header, **changed}.items() if value is not None}
        return signed(dumped(parts), payload, key)

    made = {
        f"alg {alg}": resigned(alg=alg)
        for alg in ("Ed25519", "Ed448", "ES256", "RS256", "PS256", "eddsa", "", 1, ["EdDSA"])
    }
    for alg in ("none", "None", "NONE"):
        text = urlsafe_b64encode(dumped({**header, "alg": alg})) + b"." + urlsafe_b64encode(payload) + b"."
        made[f"alg {alg}"] = text
        made[f"alg {alg}, signed"] = text + good_signature(header, payload, key)
    for alg, digest in (("HS256", "sha256"), ("HS512", "sha512")):
        for name, secret in (("raw", raw), ("PEM", pem), ("base64", urlsafe_b64encode(raw))):
            text = urlsafe_b64encode(dumped({**header, "alg": alg})) + b"." + urlsafe_b64encode(payload)
            made[f"{alg} with the {name} public key"] = (
                text + b"." + urlsafe_b64encode(hmac.digest(secret, text, digest))
            )
    made |= {
        "alg missing": resigned(alg=None),
        "kid missing": resigned(kid=None),
        "kid unknown": resigned(kid="0" * 43),
        "kid empty": resigned(kid=""),
        "kid a path": resigned(kid="../../dev/null"),
        "kid of another party": signed(dumped(other), payload, key),
        "kid a list": resigned(kid=[header["kid"]]),
        "typ added": resigned(typ="JWT"),
        "crit added": resigned(crit=["exp"]),
        "b64 false": resigned(b64=False, crit=["b64"]),
        "brings its key": signed(dumped({**header, "jwk": its_jwk}), payload, stranger),
        "names its keys": signed(dumped({**header, "jku": "https://example.net/keys"}), payload, stranger),
        "another order": signed(dumped(dict(reversed(header.items()))), payload, key),
        "with spaces": signed(json.dumps(header).encode(), payload, key),
        "alg twice": signed(b'{"alg":"none",' + dumped(header)[1:], payload, key),
        "a list": signed(dumped([header]), payload, key),
        "empty": signed(b"", payload, key),
        "not JSON": signed(b"\xff\xfe", payload, key),
    }
    return made


def good_signature(header: dict[str, Any], payload: bytes, key: Ed25519PrivateKey) -> bytes:
    return signed(dumped(header), payload, key).rpartition(b".")[2]


def _claims(claims: Callable[..., dict[str, Any]]) -> dict[str, bytes]:
    good = claims()
    inbox = str(good["aud"])
    prefix, _, _ = inbox.partition("inbox:")
    changed: dict[str, dict[str, Any]] = {
        "issuer a cloud": {"iss": "cloud.A"},
        "issuer empty": {"iss": ""},
        "issuer a number": {"iss": 1},
        "audience another cloud": {"aud": f"{prefix}inbox:B"},
        "audience another federation": {"aud": "other:inbox:A"},
        "audience another stream": {"aud": f"{prefix}replies:A"},
        "audience a list": {"aud": [inbox]},
        "audience longer": {"aud": f"{inbox}A"},
        "expired": {"exp": good["exp"] - LIFETIME_S - 60},
        "expired in 1970": {"exp": 0},
        "never expires": {"exp": 2**52},
        "expires too late": {"exp": good["exp"] + 3 * LIFETIME_S},
        "expires before 1970": {"exp": -1},
        "expiry a text": {"exp": str(good["exp"])},
        "expiry a fraction": {"exp": good["exp"] + 0.5},
        "expiry true": {"exp": True},
        "number zero": {"jti": "0123456789abcdef-0"},
        "number below zero": {"jti": "0123456789abcdef--7"},
        "number with a zero before": {"jti": "0123456789abcdef-07"},
        "number too large": {"jti": "0123456789abcdef-" + "9" * 30},
        "session in capitals": {"jti": "0123456789ABCDEF-7"},
        "session too long": {"jti": "0" * 40 + "-7"},
        "id empty": {"jti": ""},
        "digest of another": {"sha256": urlsafe_b64encode(hashlib.sha256(b"[]").digest()).decode()},
        "digest empty": {"sha256": ""},
        "one more": {"nbf": 0},
    }
    made = {name: dumped(claims(**change)) for name, change in changed.items()}
    made |= {f"{name} missing": dumped(claims(**{name: None})) for name in good}
    made |= {
        "issuer twice": b'{"iss":"cloud.B",' + dumped(good)[1:],
        "audience twice": dumped(good)[:-1] + b',"aud":"other:inbox:A"}',
        "with spaces": json.dumps(good).encode(),
        "another order": dumped(dict(reversed(good.items()))),
        "a list": dumped([good]),
        "deep": b"[" * 900 + b"]" * 900,
        "not JSON": b"\xff",
        "empty": b"",
    }
    return made


def _shapes(header: bytes, claims: dict[str, Any], key: Ed25519PrivateKey) -> dict[str, bytes]:
    good = signed(header, dumped(claims), key)
    head, payload, signature = good.split(b".")
    raw = key.sign(head + b"." + payload)
    large_s = int.from_bytes(raw[32:], "little") + _ORDER
    digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # 64 bytes leave four bits of the last letter unused; a lenient decoder does not look at them.
    last = digits[digits.index(signature[-1:]) + 1 : digits.index(signature[-1:]) + 2]
    made = {
        f"bit {bit} flipped": b".".join([head, payload, urlsafe_b64encode(_flipped(raw, bit))])
        for bit in (0, 7, 255, 256, 400, 511)
    }
    made |= {
        "of zeros": b".".join([head, payload, urlsafe_b64encode(bytes(64))]),
        "shorter": b".".join([head, payload, urlsafe_b64encode(raw[:-1])]),
        "longer": b".".join([head, payload, urlsafe_b64encode(raw + b"\0")]),
        "s not reduced": b".".join(
            [head, payload, urlsafe_b64encode(raw[:32] + large_s.to_bytes(32, "little"))]
        ),
        "with padding": good + b"==",
        "with unused bits": good[:-1] + last,
        "with a line end": good + b"\n",
        "with a blank before": b" " + good,
        "in standard base64": head
        + b"."
        + payload
        + b"."
        + signature.replace(b"-", b"+").replace(b"_", b"/")
        + b"/",
        "left out": head + b"." + payload + b".",
        "two parts": head + b"." + payload,
        "four parts": good + b"." + signature,
        "parts swapped": b".".join([payload, head, signature]),
        "as JSON": dumped({"protected": head.decode(), "payload": payload.decode(), "signature": "x"}),
        "payload left out": head + b".." + signature,
        "payload's bit flipped": b".".join(
            [head, urlsafe_b64encode(_flipped(dumped(claims), 80)), signature]
        ),
        "cut": good[: len(good) // 2],
        "10 MB": good + b"A" * 10_000_000,
        "not ASCII": b"\xff" * 200,
    }
    return made


def _bodies(body: bytes) -> dict[str, bytes]:
    items = json.loads(body)
    return {
        "bit flipped": _flipped(body, 8 * (len(body) // 2)),
        "cut": body[:-1],
        "longer": body + b" ",
        "empty": b"",
        "an empty list": b"[]",
        "one command twice": dumped([*items, items[0]]),
        "a field twice": body.replace(b'"cores":', b'"cores":1,"cores":', 1),
        "more cores": body.replace(b'"cores":1', b'"cores":4', 1),
        "asker changed": body.replace(b'"reply_to":"me"', b'"reply_to":"mine"', 1),
        "written otherwise": json.dumps(items).encode(),
        "10 MB": b"[" + b" " * 10_000_000 + body[1:],
    }


def _flipped(data: bytes, bit: int) -> bytes:
    number = bytearray(data)
    number[bit // 8] ^= 1 << bit % 8
    return bytes(number)
