"""Calls about API keys: ``client.api_keys``."""

from __future__ import annotations

import builtins
from urllib.parse import quote

from broker.client.transport import Resource, parse
from broker.identity.models import KeyRecord
from broker.schemas.api_keys import ApiKeys, KeyWish, NewKey, Rotation


class ApiKeysResource(Resource):
    """Manages API keys, for operators. Unknown keys raise NotFoundError."""

    def list(self) -> builtins.list[KeyRecord]:
        """Return all keys without their secrets, oldest first."""
        return parse(ApiKeys, self._transport.send("GET", "/v1/keys")).keys

    def create(self, key: KeyWish) -> NewKey:
        """Create a key. Its secret is in this answer only."""
        return parse(NewKey, self._transport.send("POST", "/v1/keys", key))

    def rotate(self, key_id: str, rotation: Rotation) -> NewKey:
        """Replace a key by a new one; the old one works for another ``rotation.grace_s`` seconds."""
        return parse(NewKey, self._transport.send("POST", f"{_path(key_id)}/rotate", rotation))

    def revoke(self, key_id: str) -> KeyRecord:
        """End a key at once."""
        return parse(KeyRecord, self._transport.send("DELETE", _path(key_id)))


def _path(key_id: str) -> str:
    return f"/v1/keys/{quote(key_id, safe='')}"
