"""Flavours: the sizes of instances that a real cloud has, and which of them meets a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cloudsim.model.requests import Amounts, Labels


@dataclass(frozen=True, slots=True)
class CloudFlavour:
    """A size of instances, as the cloud describes it.

    amounts: what an instance has beside cores. labels: what the cloud says of it. is_divisible: True if an
    instance takes only as much as it needs, as a job does of a node; else it takes all.
    """

    name: str
    cores: int
    amounts: Amounts = ()
    labels: Labels = frozenset()
    is_divisible: bool = False

    def has_cores(self, cores: int) -> bool:
        """Return True if an instance of this many cores is of this size."""
        return cores <= self.cores if self.is_divisible else cores == self.cores

    def find_lacks(self, amounts: Amounts, labels: Labels) -> Iterator[str]:
        """Yield what the flavour lacks of these needs, as ``gpus=1``."""
        has = dict(self.amounts)
        yield from (f"{name}={amount}" for name, amount in amounts if has.get(name, 0) < amount)
        yield from (f"{name}={value}" for name, value in sorted(labels - self.labels))


def find_flavour(
    flavours: Iterable[CloudFlavour],
    cores: int,
    amounts: Amounts = (),
    labels: Labels = frozenset(),
    name: str | None = None,
) -> CloudFlavour | str:
    """Return the first flavour that meets a request, or why none does.

    Parameters
    ----------
    flavours:
        In the order in which they are preferred.
    name:
        The flavour that is asked for by its name; None for any.
    """
    known = [flavour for flavour in flavours if name in (None, flavour.name)]
    if not known and name is not None:
        return f"leases get no instance of the flavour {name}"
    sized = [flavour for flavour in known if flavour.has_cores(cores)]
    if not sized:
        sizes = sorted({(flavour.cores, flavour.is_divisible) for flavour in known})
        texts = [f"up to {size}" if is_divisible else str(size) for size, is_divisible in sizes]
        return f"leases get no instance of {cores} cores here, but of {', '.join(texts) or 'no size at all'}"
    lacks = [list(flavour.find_lacks(amounts, labels)) for flavour in sized]
    fewest, place = min((len(each), place) for place, each in enumerate(lacks))
    if fewest:
        lacking = ", ".join(lacks[place])
        return f"no flavour of {cores} cores has all of this: {sized[place].name} lacks {lacking}"
    return sized[place]
