"""Bodies of the calls about members and keys; the server and the client share them."""

from __future__ import annotations

from pydantic import BaseModel

from broker.identity.store import AuditEntry


class Audit(BaseModel):
    """The latest first."""

    entries: list[AuditEntry]
