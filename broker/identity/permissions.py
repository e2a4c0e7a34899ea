"""Decides who may do what: principals, their roles, and ``authorize``. Pure.

    operator   everything: all objects, nodes, members, keys
    runner     what a member may, and hand over commands that its member's jobs run on the clouds' machines
    member     its own: requests, leases, events and accounts of its origins, on-demand of its clouds
    viewer     reads what a member reads, and submits nothing

A *member* is an organisation; a *tenant* is a named part of it ("acme/ci") and sees what its member sees. A
request of a member carries one of its origins: the member's name, or the id of one of its clouds. An object
of another member is HIDDEN: the answer is that for an object that does not exist. TOO_SMALL is the answer
only for objects that the principal may know of. (docs/design/reliability.md "Invariants", I9.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """A role in the federation, which each API key has."""

    OPERATOR = "operator"
    RUNNER = "runner"
    MEMBER = "member"
    VIEWER = "viewer"


class Action(StrEnum):
    """An action that a call performs, as far as permissions distinguish it."""

    LOOK = "look"  # at public facts of clouds
    READ = "read"  # objects of one's own, and lists of them
    QUOTE = "quote"  # without a side effect, but it keeps owners busy
    SUBMIT = "submit"
    CHANGE = "change"  # end, extend or acknowledge a lease of one's own; one's own webhooks
    RUN = "run"  # have commands run, and stop them: jobs of one's own
    SERVE = "serve"  # start and stop on-demand instances of one's own clouds
    OPERATE = "operate"  # drain and reopen a cloud, let trace time pass
    ADMINISTER = "administer"  # members, keys, the audit log


class AccessDecision(StrEnum):
    """The answer of ``authorize``."""

    ALLOWED = "allowed"
    HIDDEN = "hidden"  # 404: another member's
    TOO_SMALL = "too_small"  # 403: not for this role


#: The order of the roles: each may do what those below it may.
RANK = {Role.VIEWER: 0, Role.MEMBER: 1, Role.RUNNER: 2, Role.OPERATOR: 3}
#: The lowest role that may perform each action.
LEAST = {
    Action.LOOK: Role.VIEWER,
    Action.READ: Role.VIEWER,
    Action.QUOTE: Role.MEMBER,
    Action.SUBMIT: Role.MEMBER,
    Action.CHANGE: Role.MEMBER,
    Action.RUN: Role.RUNNER,
    Action.SERVE: Role.MEMBER,
    Action.OPERATE: Role.OPERATOR,
    Action.ADMINISTER: Role.OPERATOR,
}


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller that an API key stands for.

    Attributes
    ----------
    name
        ``acme`` or ``acme/tenant``; an operator's may be any.
    role
        Role in the federation.
    key_id
        Id of the API key.
    member
        Member that the principal belongs to; None for operators.
    clouds
        Ids of the clouds for whose own users it may act; an operator may act for all.
    """

    name: str
    role: Role
    key_id: str
    member: str | None = None
    clouds: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name

    @property
    def holder(self) -> str:
        """Name under which its jobs and webhooks are kept: one for all keys of a member."""
        return self.member or f"operator/{self.name}"

    @property
    def origins(self) -> frozenset[str] | None:
        """Origins whose requests are its own; None for all origins."""
        if self.role is Role.OPERATOR:
            return None
        return self.clouds if self.member is None else self.clouds | {self.member}


@dataclass(frozen=True, slots=True)
class ProtectedObject:
    """An object that an action concerns.

    It has an ``origin`` (a lease), a ``holder`` (a job, a webhook), or belongs to the own users of a
    ``cloud``.
    """

    origin: str | None = None
    holder: str | None = None
    cloud: str | None = None


def authorize(who: Principal, action: Action, thing: ProtectedObject | None = None) -> AccessDecision:
    """Decide whether ``who`` may perform an action; ``thing`` is None if it concerns no member's object."""
    origins = who.origins
    if origins is None:
        return AccessDecision.ALLOWED
    if thing is not None and not (
        (thing.origin is None or thing.origin in origins)
        and (thing.holder is None or thing.holder == who.holder)
        and (thing.cloud is None or thing.cloud in who.clouds)
    ):
        return AccessDecision.HIDDEN
    return AccessDecision.TOO_SMALL if RANK[who.role] < RANK[LEAST[action]] else AccessDecision.ALLOWED
