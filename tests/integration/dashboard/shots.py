"""Pictures of the dashboard: ``python -m tests.integration.dashboard.shots DIRECTORY``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from broker.storage.embedded_server import EmbeddedRedis
from tests.contract.harness import Federation
from tests.integration.dashboard.conftest import Visit, started_browser
from tests.integration.dashboard.scripted import scripted_federation

DARK: dict[str, Any] = {"color_scheme": "dark"}
MOBILE: dict[str, Any] = {
    "viewport": {"width": 360, "height": 740},
    "device_scale_factor": 2,
    "has_touch": True,
}


def main(directory: Path) -> None:
    """Empty, busy, one cloud down, dark and mobile."""
    directory.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as kept,
        EmbeddedRedis(Path(kept), appendfsync="no") as server,
        started_browser() as browser,
    ):

        def shoot(federation: Federation, view: str, name: str, key: bool = True, **options: Any) -> None:
            visit = Visit(browser, federation, **options)
            page = visit.open(view, **({} if key else {"key": None}))
            page.wait_for_timeout(2500)
            if view == "leases" and "empty" not in name:
                page.get_by_text("leases known").wait_for()
                page.wait_for_timeout(500)
            if view.startswith("table") and name.startswith("busy"):
                page.get_by_role("button", name="Ask the clouds").click()
                page.wait_for_timeout(2500)
            page.screenshot(path=directory / f"{name}.png")
            print(name, *visit.wrong, sep="\n  ")  # noqa: T201 (for who looks at them)
            visit.close()

        with scripted_federation(server.url) as federation:
            shoot(federation, "", "sign-in", key=False)
            for view in ("clouds", "table", "leases", "events", "ledger", "jobs"):
                shoot(federation, view, f"empty-{view}")
        with scripted_federation(server.url, 50) as federation:
            for view in ("events", "clouds", "table", "leases", "ledger"):
                shoot(federation, view, f"busy-{view}")
                shoot(federation, view, f"dark-{view}", **DARK)
                shoot(federation, view, f"mobile-{view}", **MOBILE)
        with scripted_federation(server.url, 50, down=2) as federation:
            shoot(federation, "clouds", "down-clouds")
            shoot(federation, "clouds", "down-mobile", **MOBILE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
