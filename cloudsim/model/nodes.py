"""Nodes: their further resources and labels beside cores (P5 §2.1; docs/design/preemption.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cloudsim.model.errors import SpecError
from cloudsim.model.requests import Amounts, Labels

CORES = "cores"
#: The pattern of names of resources, labels and groups, in files and in requests.
NAME = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}"
LARGEST_AMOUNT = 10**12
_NAME = re.compile(NAME)
_NAMED = "letters, digits and . _ / -, beginning with a letter or digit, at most 64 characters"


@dataclass(frozen=True)
class NodeDetails:
    """Details of the nodes of a cloud beside their cores.

    amounts: (name, amount on each node, overcommit included), by name. labels: those of each node; empty
    where no node has one. flavours: (cores, amounts) that instances of a trace need, which tells cores only.
    """

    amounts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    labels: tuple[Labels, ...] = ()
    flavours: tuple[tuple[int, Amounts], ...] = ()

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of all resources, cores first."""
        return (CORES, *(name for name, _ in self.amounts))

    def flavour(self, cores: int) -> Amounts:
        """Return the amounts that an instance of a trace with this many cores needs."""
        return next((amounts for size, amounts in self.flavours if size == cores), ())


CORES_ONLY = NodeDetails()


def checked_name(value: object, *, field: str) -> str:
    """Return the name of a resource, label or group. Raises SpecError naming ``field`` if it is none."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SpecError(f"{value!r} is no name: {_NAMED}", field=field)
    return value


def checked_amounts(value: object, *, field: str) -> Amounts:
    """Return the amounts of a table of whole numbers, ``{memory_mb = 4000}``, sorted by name.

    Raises
    ------
    SpecError
        When a name or an amount is wrong; it names ``field``.
    """
    if not isinstance(value, Mapping):
        raise SpecError(f"{value!r} is not a table of amounts", field=field)
    for name, amount in value.items():
        if name == CORES:
            raise SpecError("cores are named apart from other resources", field=f"{field}.{name}")
        checked_name(name, field=f"{field}.{name}")
        whole = isinstance(amount, int) and not isinstance(amount, bool)
        if not whole or not 0 <= amount <= LARGEST_AMOUNT:
            accepted = f"a whole number from 0 to {LARGEST_AMOUNT}"
            raise SpecError(f"{amount!r} is not {accepted}", field=f"{field}.{name}")
    return tuple(sorted((name, amount) for name, amount in value.items() if amount))


def checked_labels(value: object, *, field: str) -> Labels:
    """Return the labels of a table of texts, ``{zone = "north"}``. Raises SpecError naming ``field``."""
    if not isinstance(value, Mapping):
        raise SpecError(f"{value!r} is not a table of labels", field=field)
    return frozenset(
        (checked_name(name, field=f"{field}.{name}"), checked_name(text, field=f"{field}.{name}"))
        for name, text in value.items()
    )


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are alike.

    nodes: their number. cores, amounts, labels: of each. overcommit: by resource, how much of each real unit
    is sold (1.5 sells half as much again).
    """

    nodes: int
    cores: int
    amounts: Amounts = ()
    labels: Labels = frozenset()
    overcommit: Mapping[str, float] | None = None

    def sold(self, name: str, amount: int) -> int:
        """Return the amount that may be booked on a node that really has ``amount``, rounded down."""
        # As the factor is written: 100 of 1.15 are 115, which the nearest binary number would miss by one.
        return int(amount * Fraction(str((self.overcommit or {}).get(name, 1))))


def nodes_of(groups: Iterable[NodeGroup]) -> tuple[tuple[int, ...], NodeDetails]:
    """Return the cores of each node and their details, from groups in node order."""
    groups = list(groups)
    names = sorted({name for group in groups for name, _ in group.amounts})
    cores: list[int] = []
    amounts: dict[str, list[int]] = {name: [] for name in names}
    labels: list[Labels] = []
    for group in groups:
        cores += [group.sold(CORES, group.cores)] * group.nodes
        has: dict[str, Any] = dict(group.amounts)
        for name in names:
            amounts[name] += [group.sold(name, has.get(name, 0))] * group.nodes
        labels += [group.labels] * group.nodes
    details = NodeDetails(
        tuple((name, tuple(each)) for name, each in amounts.items()), tuple(labels) if any(labels) else ()
    )
    return tuple(cores), details


def groups_of(node_cores: tuple[int, ...], details: NodeDetails) -> tuple[NodeGroup, ...]:
    """Return groups of neighbouring nodes that are alike: the inverse of ``nodes_of``."""
    groups: list[NodeGroup] = []
    for node, cores in enumerate(node_cores):
        amounts = tuple((name, each[node]) for name, each in details.amounts if each[node])
        labels = details.labels[node] if details.labels else frozenset()
        last = groups[-1] if groups else None
        if last is not None and (last.cores, last.amounts, last.labels) == (cores, amounts, labels):
            groups[-1] = NodeGroup(last.nodes + 1, cores, amounts, labels)
        else:
            groups.append(NodeGroup(1, cores, amounts, labels))
    return tuple(groups)


def shape_of(groups: Iterable[NodeGroup]) -> str:
    """Return groups in one line, as sold: ``8x8 memory_mb=16000 zone=north, 4x16``."""
    return ", ".join(
        " ".join(
            (
                f"{group.nodes}x{group.cores}",
                *(f"{name}={amount}" for name, amount in group.amounts),
                *(f"{name}={text}" for name, text in sorted(group.labels)),
            )
        )
        for group in groups
    )
