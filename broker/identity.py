"""Who may do what: principals, their roles, and ``authorize``, the one function that decides. Pure.

    operator   everything: all objects, nodes, members, keys
    runner     what a member may, and hand over commands that its member's jobs run on the clouds' machines
    member     its own: requests, leases, events and accounts of its origins, on-demand of its clouds
    viewer     reads what a member reads, and submits nothing

A *member* is an organisation; a *tenant* is a part of it that is told apart by name ("acme/ci") and sees
what its member sees. What a member asks for carries one of its origins: its own name, or the id of a cloud of
its. Somebody else's object is HIDDEN: whoever asks is told the same as of one that does not exist. TOO_SMALL
is said only of what one may know of. (RELIABILITY.md, "Security", I9.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What the holder of a key is to the federation."""

    OPERATOR = "operator"
    RUNNER = "runner"
    MEMBER = "member"
    VIEWER = "viewer"


class Action(StrEnum):
    """What a call does, as far as it matters who may do it."""

    LOOK = "look"  # at public facts of clouds
    READ = "read"  # objects of one's own, and lists of them
    QUOTE = "quote"  # without a side effect, but it keeps owners busy
    SUBMIT = "submit"
    CHANGE = "change"  # end, extend or acknowledge a lease of one's own; one's own webhooks
    RUN = "run"  # have commands run, and stop them: jobs of one's own
    SERVE = "serve"  # start and stop on-demand instances of one's own clouds
    OPERATE = "operate"  # drain and reopen a cloud, let trace time pass
    ADMINISTER = "administer"  # members, keys, the audit log


class Verdict(StrEnum):
    """What ``authorize`` says."""

    ALLOWED = "allowed"
    HIDDEN = "hidden"  # 404: somebody else's
    TOO_SMALL = "too_small"  # 403: not for this role


#: Whoever is higher may what those below may.
RANK = {Role.VIEWER: 0, Role.MEMBER: 1, Role.RUNNER: 2, Role.OPERATOR: 3}
#: The least role for each action.
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
    """Who calls. ``name``: "acme" or "acme/tenant", and of operators any; ``member``: None for operators.

    ``clouds``: ids of the clouds for whose own users it may act; an operator may for all.
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
        """Under what name things are kept that are its own, beside leases: one for all keys of a member."""
        return self.member or f"operator/{self.name}"

    @property
    def origins(self) -> frozenset[str] | None:
        """Whose requests are its own; None: everybody's."""
        if self.role is Role.OPERATOR:
            return None
        return self.clouds if self.member is None else self.clouds | {self.member}


@dataclass(frozen=True, slots=True)
class Thing:
    """What an action is about: something of an ``origin`` (a lease), of a ``holder``, or of a ``cloud``'s own
    users."""

    origin: str | None = None
    holder: str | None = None
    cloud: str | None = None


def authorize(who: Principal, action: Action, thing: Thing | None = None) -> Verdict:
    """Whether ``who`` may do this; ``thing`` None: it is about nothing that belongs to anybody."""
    origins = who.origins
    if origins is None:
        return Verdict.ALLOWED
    if thing is not None and not (
        (thing.origin is None or thing.origin in origins)
        and (thing.holder is None or thing.holder == who.holder)
        and (thing.cloud is None or thing.cloud in who.clouds)
    ):
        return Verdict.HIDDEN
    return Verdict.TOO_SMALL if RANK[who.role] < RANK[LEAST[action]] else Verdict.ALLOWED
