"""The client of the federation's API that commands use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from broker.cli.errors import CommandError, ExitCode
from broker.client import Client, UnauthorizedError, UnavailableError, UntrustedError
from broker.local.state_files import find_api_key, find_api_url, key_file
from broker.settings import settings

#: How long a command waits for a broker that does not answer; a person waits at a terminal.
DEADLINE_S = 5.0

_HINT = "is a federation running? Start one with `spotfed up`, or set SPOTFED_URL"
_KEY_HINT = "set SPOTFED_API_KEY; `spotfed up` writes a first key to {path}"


@contextmanager
def connected(deadline_s: float | None = None) -> Iterator[Client]:
    """Open a client of SPOTFED_URL with SPOTFED_API_KEY, or of what ``spotfed up`` runs on this machine.

    Parameters
    ----------
    deadline_s
        How long it waits for a broker that is away; None: ``DEADLINE_S``.

    Raises
    ------
    CommandError
        When the broker does not answer or does not accept the key.
    UntrustedError
        When the certificate of the API is not trusted.
    """
    config = settings()
    try:
        with Client(
            find_api_url(config), find_api_key(config), deadline_s=deadline_s or DEADLINE_S
        ) as client:
            yield client
    except UntrustedError:
        raise  # its message says all that helps
    except UnavailableError as error:
        raise CommandError(f"{error}; {_HINT}", ExitCode.UNREACHABLE) from error
    except UnauthorizedError as error:
        hint = _KEY_HINT.format(path=key_file(config.state_dir))
        raise CommandError(f"{error}; {hint}", ExitCode.BAD_INPUT) from error
