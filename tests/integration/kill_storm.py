"""Kills processes of a live federation (kill -9) while users submit, release and listen; then judges.

    python -m tests.integration.kill_storm [--kills 200] [--seed 1] [--directory EMPTY]

The federation is the product's own: `broker.local` supervises three simulated clouds with load of their own,
two Monte-Carlo workers and an API, on an embedded Redis with ``appendfsync always``. Killed are owners,
Monte-Carlo workers, the API and Redis (``storm_kills``). ``storm_play`` says what is judged.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from broker.local.federation import LocalFederation
from broker.local.process_list import ProcessList
from broker.storage.embedded_server import EmbeddedRedis
from tests.integration.storm_kills import Killers
from tests.integration.storm_play import (
    CLOUDS,
    ENVIRONMENT,
    KEYS,
    OWNER_OPTIONS,
    PREFIX,
    Scene,
    budget_of,
    federation_file,
    play,
    run_command,
)
from tests.integration.storm_users import Storm
from tests.support.ports import free_port


def storm(
    kills: int, seed: int, longest_s: float = float("inf"), directory: Path | None = None
) -> dict[str, Any]:
    """Runs it; returns what happened, with the list of breaches.

    No kill later than after ``longest_s``, or when the user interrupts. ``directory`` keeps data and logs.
    """
    state = Storm()
    budget = budget_of(kills, state)
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storm-")))
        server = stack.enter_context(EmbeddedRedis(directory / "redis", appendfsync="always"))
        file = federation_file(directory)
        options = (*OWNER_OPTIONS, "--seed", str(seed))
        layout = ProcessList(file, CLOUDS, options, monte_carlo=2, port=free_port())
        processes = stack.enter_context(ExitStack())
        local = processes.enter_context(
            LocalFederation(
                layout, directory / "state", redis_url=server.url, key_prefix=PREFIX, environment=ENVIRONMENT
            )
        )
        scene = Scene(server.url, layout.url, local.api_key, file, processes.close)
        killers = Killers(local, server, KEYS, seed, budget, lambda: len(state.answers))
        return play(scene, state, budget, seed, longest_s, killers.run)


if __name__ == "__main__":
    sys.exit(run_command(__doc__, storm, 200))
