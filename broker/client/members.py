"""The calls about members and keys, as part of ``broker.client.Client``."""

from __future__ import annotations

from urllib.parse import quote

from broker.api.schemas.api_keys import ApiKeys, KeyWish, NewKey, Rotation
from broker.api.schemas.audit import Audit
from broker.api.schemas.members import MemberChange, Members, MemberView, MemberWish
from broker.client.results import ClientCalls, parse
from broker.identity.store import AuditEntry, KeyRecord


class IdentityCalls(ClientCalls):
    """For operators; a member may look at itself."""

    def members(self) -> list[MemberView]:
        """By name."""
        return parse(Members, self._send("GET", "/v1/members")).members

    def member(self, name: str) -> MemberView:
        """One member. Raises NotFoundError."""
        return parse(MemberView, self._send("GET", f"/v1/members/{quote(name, safe='')}"))

    def add_member(self, wish: MemberWish) -> MemberView:
        """A new one. Raises ProblemAnswer (409) when there is one."""
        return parse(MemberView, self._send("POST", "/v1/members", wish))

    def set_member(self, name: str, change: MemberChange) -> MemberView:
        """What ``change`` was made with changes, the rest stays. Raises NotFoundError."""
        return parse(MemberView, self._send("PATCH", f"/v1/members/{quote(name, safe='')}", change))

    def remove_member(self, name: str) -> None:
        """With its keys. Raises NotFoundError."""
        self._send("DELETE", f"/v1/members/{quote(name, safe='')}")

    def api_keys(self) -> list[KeyRecord]:
        """Without their secrets, the oldest first."""
        return parse(ApiKeys, self._send("GET", "/v1/keys")).keys

    def create_key(self, wish: KeyWish) -> NewKey:
        """The only time that the key is shown."""
        return parse(NewKey, self._send("POST", "/v1/keys", wish))

    def rotate_key(self, key_id: str, rotation: Rotation) -> NewKey:
        """A new key; the old one works for ``rotation.grace_s`` more. Raises NotFoundError."""
        path = f"/v1/keys/{quote(key_id, safe='')}/rotate"
        return parse(NewKey, self._send("POST", path, rotation))

    def revoke_key(self, key_id: str) -> KeyRecord:
        """Ends a key. Raises NotFoundError."""
        return parse(KeyRecord, self._send("DELETE", f"/v1/keys/{quote(key_id, safe='')}"))

    def audit(self, limit: int = 100) -> list[AuditEntry]:
        """Who changed members and keys, the latest first."""
        return parse(Audit, self._send("GET", "/v1/audit", parameters={"limit": limit})).entries
