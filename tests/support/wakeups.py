"""Wake-ups of owners for tests without Celery: attempts carry none, and are rung for in this process."""

from collections.abc import Iterable

from broker.requests.owner_commands import OwnerCommands


def no_wakeup(cloud: str) -> tuple[str, str]:
    """Return the key of a queue that nothing is put into."""
    return f"no-wakeups:{cloud}", ""


class RingingCommands(OwnerCommands):
    """Rings for attempts, whose wake-ups were not written with them."""

    def note_attempts(self, clouds: Iterable[str]) -> None:
        self.notifier.ring(clouds)
