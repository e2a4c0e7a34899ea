"""Bodies of the health checks."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel, defer_build=True):
    """The state of a process that works; one that does not answers with a problem."""

    status: Literal["ok"] = "ok"
