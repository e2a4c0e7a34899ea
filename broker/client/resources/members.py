"""Calls about the members of the federation: ``client.members``."""

from __future__ import annotations

import builtins
from urllib.parse import quote

from broker.client.transport import Resource, parse
from broker.identity.models import AuditEntry
from broker.schemas.audit import Audit
from broker.schemas.members import MemberChange, Members, MemberView, MemberWish


class MembersResource(Resource):
    """Manages members, for operators; a member may look at itself. Unknown members raise NotFoundError."""

    def list(self) -> builtins.list[MemberView]:
        """Return all members, sorted by name."""
        return parse(Members, self._transport.send("GET", "/v1/members")).members

    def get(self, name: str) -> MemberView:
        """Return one member."""
        return parse(MemberView, self._transport.send("GET", _path(name)))

    def add(self, member: MemberWish) -> MemberView:
        """Add a member.

        Raises
        ------
        ProblemAnswer
            When there is one of this name (status 409).
        """
        return parse(MemberView, self._transport.send("POST", "/v1/members", member))

    def update(self, name: str, change: MemberChange) -> MemberView:
        """Change the fields of a member that ``change`` sets; the others stay."""
        return parse(MemberView, self._transport.send("PATCH", _path(name), change))

    def remove(self, name: str) -> None:
        """Remove a member and its API keys."""
        self._transport.send("DELETE", _path(name))

    def read_audit(self, limit: int = 100) -> builtins.list[AuditEntry]:
        """Return the latest changes of members and API keys and who made them, newest first."""
        return parse(Audit, self._transport.send("GET", "/v1/audit", parameters={"limit": limit})).entries


def _path(name: str) -> str:
    return f"/v1/members/{quote(name, safe='')}"
