"""What a planted bug is: a mutant of a function, or a script with broken lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.mutants import broken_script, replaced

Mutant = Callable[..., Any]


@dataclass(frozen=True)
class Bug:
    """A fault of the product that the simulation must find.

    name: what goes wrong. plant: makes the fault, for as long as its context lasts. seed: one that finds it;
    others may as well.
    """

    name: str
    plant: Callable[[], AbstractContextManager[None]]
    seed: int = 0

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Run the product with the bug in it.

        Raises:
            LookupError: the place of the bug is gone.
            RuntimeError: at the end, if its mutant does not work.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self.plant())
            except (TypeError, ValueError) as error:
                raise LookupError(f"bug {self.name}: {error}") from error
            yield


def script_bug(name: str, script: str, hooks: dict[str, str], seed: int = 0) -> Bug:
    """Make a bug of a Lua script. ``hooks``: see ``tests.support.mutants.break_hooks``."""
    return Bug(name, lambda: broken_script(script, hooks), seed)


def mutation(bugs: list[Bug], name: str, product: object, seed: int = 0) -> Callable[[Mutant], Mutant]:
    """Add a bug whose mutant is the decorated function, called instead of ``product``.

    The mutant gets the sound function before the arguments of the call.
    """

    def add(mutant: Mutant) -> Mutant:
        bugs.append(Bug(name, lambda: replaced(product, mutant), seed))
        return mutant

    return add
