"""Mutants of the product: functions replaced wherever they are held, and scripts with a broken line.

Tests plant them to prove that a fault of this kind is noticed. No mutant quotes the source it breaks: a
function is named by itself, a line of a script by its comment ``-- hook: NAME``.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

from broker.storage.scripts import read_script

#: A line of a script in three parts: before what the hook names, that itself, and the rest with the hook.
_HOOKED = r"^( *(?:local \w+ = |if |elseif |and |or )?)(.*?)((?: then\b.*?)? +-- hook: {name})$"


@contextmanager
def replaced(product: object, mutant: Callable[..., Any]) -> Iterator[None]:
    """Run a mutant instead of a function of the product, for as long as the context lasts.

    Only the code object is exchanged: modules and registries that hold the function run the mutant as well.

    Args:
        product: a function, a method taken from its class, or a property.
        mutant: is called with the sound function, then with all arguments of the call, defaults too: those
            that may be positional by position, whatever their names.

    Raises:
        TypeError: ``product`` is nothing of these, or the mutant does not take its arguments.
        RuntimeError: at the end, if the mutant itself does not work: then what it led to proves nothing.
    """
    function = _function(product)
    code = function.__code__
    sound = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    sound.__kwdefaults__ = function.__kwdefaults__
    signature = inspect.signature(sound)
    _check(mutant, signature, function.__qualname__)
    mistakes: list[Exception] = []

    def run(*arguments: Any, **named: Any) -> Any:
        call = signature.bind(*arguments, **named)
        call.apply_defaults()
        try:
            return mutant(sound, *call.args, **call.kwargs)
        except (AttributeError, NameError, TypeError) as error:
            if _innermost(error) is mutant.__code__:
                mistakes.append(error)
            raise

    function.__code__ = _calling(run)
    try:
        yield
    finally:
        function.__code__ = code
    if mistakes:
        raise RuntimeError(f"the mutant {mutant.__name__} does not work: {mistakes[0]}") from mistakes[0]


def _check(mutant: Callable[..., Any], signature: inspect.Signature, name: str) -> None:
    parameters = signature.parameters.values()
    positional = [one for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    named = {one.name: one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    try:
        inspect.signature(mutant).bind(name, *positional, **named)
    except TypeError as error:
        raise TypeError(f"{mutant.__name__} does not take what {name} takes: {error}") from None


def _innermost(error: Exception) -> CodeType | None:
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1] if frames else None


def _function(product: object) -> FunctionType:
    if isinstance(product, property):
        product = product.fget
    function = inspect.unwrap(getattr(product, "__func__", product))  # type: ignore[arg-type]
    if not isinstance(function, FunctionType) or function.__closure__:
        raise TypeError(f"{product!r} is no function that a mutant can replace")
    return function


def _calling(run: Callable[..., Any]) -> Any:
    """Make code that calls ``run`` from within any function: its constant is the callable itself."""

    def call(*arguments: Any, **named: Any) -> Any:
        to_run: Any = "to run"
        return to_run(*arguments, **named)

    code = call.__code__
    return code.replace(co_consts=tuple(run if one == "to run" else one for one in code.co_consts))


@contextmanager
def broken_script(script: str, hooks: Mapping[str, str]) -> Iterator[None]:
    """Break a script for all who read it while the context lasts: see ``break_hooks``."""
    break_hooks(script, read_script(script), hooks)  # also where nobody reads the script

    def read(sound: Callable[[str], str], name: str) -> str:
        return break_hooks(name, sound(name), hooks) if name == script else sound(name)

    with replaced(read_script, read):
        yield


def break_hooks(script: str, text: str, hooks: Mapping[str, str]) -> str:
    """Replace what the hooks of a script name.

    That is the value of ``local x = VALUE``, the condition of ``if CONDITION then`` or of a line of a longer
    one (``and CONDITION``), and otherwise the statement.

    Args:
        script: name of the script, for the error.
        text: its text.
        hooks: Lua by the name of the hook that it stands for.

    Raises:
        ValueError: the text does not have each of the hooks once.
    """
    for name, lua in hooks.items():
        places = re.findall(_HOOKED.format(name=re.escape(name)), text, re.MULTILINE)
        if len(places) != 1:
            raise ValueError(f"script {script} has {len(places)} lines with the comment `-- hook: {name}`")
        text = re.sub(
            _HOOKED.format(name=re.escape(name)),
            lambda line, lua=lua: line[1] + lua + line[3],  # type: ignore[misc]
            text,
            flags=re.MULTILINE,
        )
    return text
