"""The client of the federation that the commands talk to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.cli.output import CommandError, ExitCode

if TYPE_CHECKING:
    from broker.client import Client
    from broker.settings import Settings

#: A person waits for so long for a broker that does not answer.
DEADLINE_S = 5.0

_HINT = "is a federation running? Start one with `spotfed up`, or set SPOTFED_URL"
_KEY_HINT = "set SPOTFED_API_KEY; `spotfed up` writes a first key to {path}"


@contextmanager
def connected() -> Iterator[Client]:
    """A client of SPOTFED_URL with SPOTFED_API_KEY, else of what ``spotfed up`` runs on this machine."""
    from broker.api.outcomes import UntrustedError
    from broker.client import Client, UnauthorizedError, UnavailableError
    from broker.local.queue import key_file
    from broker.settings import settings

    told = settings()
    try:
        with Client(url(told), api_key(told), deadline_s=DEADLINE_S) as client:
            yield client
    except UntrustedError:
        raise  # it says all that helps
    except UnavailableError as error:
        raise CommandError(f"{error}; {_HINT}", ExitCode.UNREACHABLE) from error
    except UnauthorizedError as error:
        hint = _KEY_HINT.format(path=key_file(told.state_dir))
        raise CommandError(f"{error}; {hint}", ExitCode.BAD_INPUT) from error


def url(told: Settings) -> str:
    """SPOTFED_URL, else where ``spotfed up`` serves on this machine, else the default."""
    from broker.local.federation import record_file

    if "url" not in told.model_fields_set:
        try:
            return str(json.loads(record_file(told.state_dir).read_text(encoding="utf-8"))["url"])
        except (OSError, ValueError, KeyError):
            pass  # nothing runs here: the default address is as good as any
    return told.url


def api_key(told: Settings) -> str | None:
    """SPOTFED_API_KEY, else the first key that is kept on this machine, if any."""
    from broker.local.queue import key_file

    if told.api_key is not None:
        return told.api_key.get_secret_value()
    try:
        return key_file(told.state_dir).read_text(encoding="utf-8").strip()
    except OSError:
        return None
