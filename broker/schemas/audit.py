"""Bodies of the calls about the audit log."""

from __future__ import annotations

from pydantic import BaseModel

from broker.identity.models import AuditEntry


class Audit(BaseModel, defer_build=True):
    """The latest entries of the audit log, the latest first."""

    entries: list[AuditEntry]
